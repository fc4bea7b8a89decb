use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::*;
use crate::catalogue::{self, Method};
use crate::figure::{Tried, Value, Verdict};
use forebay_lab::engine::Interrupt;
use forebay_lab::sim_engine::Sim;
use forebay_outcome::Store;

/// A directory of this test's own.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const PAGE: &str = "title = \"A page\"\nabout = \"What it is about.\"\nclaims = [\"queue\"]\n";

const SCENARIO: &str = r#"name = "queue"
warmup = "1 s"
duration = "40 s"
[path]
rate = "12 Mbit/s"
queue = { kind = "fifo", limit = "2 bdp" }
[grid]
rtt = ["20 ms", "40 ms"]
[[phase]]
name = "late"
start = "3 s"
[[traffic]]
name = "flow"
kind = "bulk"
[[arm]]
name = "status_quo"
sendbox = "forward"
[[arm]]
name = "bundler"
sendbox = { policy = "sfq", limit = "500 packets" }
"#;

const CLAIM: &str = r#"title = "A queue moves"
source = "section 1"
about = "One flow."
scenario = "queue.toml"
[engine]
sim = { seeds = 2 }
uml = { seeds = 1, duration = "20 s" }
[[figure]]
what = "Wait at the bottleneck, over status quo"
of = { arm = "bundler", measure = "bottleneck_queue", at = "p50", phase = "late", over = "max" }
to = { arm = "status_quo" }
band = "at most 0.5"
[[figure]]
what = "Goodput at 20 ms"
of = { arm = "bundler", measure = "goodput", cells = { rtt = "20 ms" } }
source = 11.5
band = "10 %"
why = "it is not so"
[picture]
kind = "sweep"
axis = "rtt"
measure = "goodput"
"#;

fn scratch(name: &str, claim: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.write("page.toml", PAGE);
    scratch.write("queue.toml", SCENARIO);
    scratch.write("queue.claim.toml", claim);
    scratch
}

#[test]
fn every_claim_in_the_tree_is_good_and_every_scenario_has_been_thought_of() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let all = catalogue::list(&dir).unwrap();
    let names: Vec<String> = all.into_iter().map(|entry| entry.name).collect();
    assert!(names.contains(&"bundler".to_owned()) && names.contains(&"zd".to_owned()));
    // Claims of zD have runs of other kinds, and a test of their own.
    for name in names.into_iter().filter(|name| Method::of(name) == Method::Scenarios) {
        let catalogue = load(&dir.join(&name)).unwrap();
        for entry in std::fs::read_dir(dir.join(&name)).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if let Some(id) = file.strip_suffix(".claim.toml") {
                assert!(catalogue.claims.iter().any(|c| c.id == id), "{file} is not on the page");
            } else if file != "page.toml" && file.ends_with(".toml") {
                forebay_lab::scenario::load(&dir.join(&name).join(file)).unwrap();
            }
        }
        for claim in catalogue.claims {
            assert!(!claim.engines.is_empty(), "{}", claim.id);
            let mut whats: Vec<&str> = claim.figures.iter().map(|f| f.what.as_str()).collect();
            whats.sort_unstable();
            whats.dedup();
            assert_eq!(whats.len(), claim.figures.len(), "{}: each `what` once", claim.id);
        }
    }
}

/// Each change of the good claim, and what is said of it.
#[test]
fn what_cannot_be_tried_is_refused_by_line_and_key() {
    let cases = [
        (
            "arm = \"bundler\", measure = \"b",
            "arm = \"x\", measure = \"b",
            "10: figure.of: the scenario has no arm \"x\"",
        ),
        ("phase = \"late\"", "phase = \"x\"", "10: figure.of: the scenario has no phase \"x\""),
        ("at = \"p50\", ", "", "10: figure.of: `at` is missing"),
        ("at = \"p50\"", "at = \"p101\"", "10: figure.of: `p101` is neither"),
        (
            "at = \"p50\"",
            "at = \"p50\", size = \"small\"",
            "10: figure.of: only requests have a `size`",
        ),
        ("at = \"p50\"", "at = \"p50\", mode = \"open\"", "10: figure.of: `mode` goes with"),
        (
            "measure = \"goodput\", cells",
            "measure = \"rtt_error\", at = \"p50\", traffic = \"flow\", cells",
            "15: figure.of: this measure is not told by",
        ),
        (
            "measure = \"goodput\", cells",
            "measure = \"goodput\", at = \"p50\", cells",
            "15: figure.of: a run has one such",
        ),
        (
            "measure = \"goodput\", cells",
            "measure = \"goodput\", traffic = \"x\", cells",
            "15: figure.of: the scenario has no traffic \"x\"",
        ),
        (
            "rtt = \"20 ms\"",
            "rtt = \"21 ms\"",
            "15: figure.of: the scenario's grid has no such cell",
        ),
        ("band = \"10 %\"", "band = \"10 percent\"", "17: figure.band: `10 percent` is no band"),
        ("source = 11.5\n", "", "16: figure.band: is around the source's figure: give `source`"),
        (
            "axis = \"rtt\"",
            "axis = \"flows\"",
            "19: picture: the scenario's grid has no axis \"flows\"",
        ),
        ("axis = \"rtt\"\n", "", "19: picture: a sweep needs `axis` and `measure`"),
        (
            "kind = \"sweep\"",
            "kind = \"timeline\"",
            "19: picture: `axis`, `by`, `lines` and `measure` go with",
        ),
        (
            "\nmeasure = \"goodput\"",
            "\nmeasure = \"worse_for\"",
            "19: picture: there is no picture of a comparison",
        ),
        (
            "measure = \"goodput\", cells",
            "measure = \"worse_for\", cells",
            "15: figure.of: is a comparison: give what it is held against as `to`",
        ),
        (
            "measure = \"goodput\", cells",
            "measure = \"worse_for\", phase = \"late\", cells",
            "15: figure.of: a comparison is of all that is measured",
        ),
        ("uml = ", "ns3 = ", "there is no engine \"ns3\": there are sim, uml, netns"),
        ("queue.toml", "no.toml", "no.toml: cannot be read"),
    ];
    for (from, to, said) in cases {
        assert!(CLAIM.contains(from), "{from}");
        let scratch = scratch("refused", &CLAIM.replacen(from, to, 1));
        let error = load(&scratch.0).unwrap_err().to_string();
        assert!(error.contains(said), "{error}\nwanted: {said}");
    }
    let scratch = scratch("twice", CLAIM);
    scratch.write("page.toml", &PAGE.replace("[\"queue\"]", "[\"queue\", \"queue\"]"));
    assert!(
        load(&scratch.0).unwrap_err().to_string().contains("page.toml:3: claims: is there twice")
    );
}

#[test]
fn a_claim_from_its_files_to_the_page() {
    let scratch = scratch("whole", CLAIM);
    let catalogue = load(&scratch.0).unwrap();
    let claim = &catalogue.claims[0];
    let records = scratch.0.join("records");
    let settings =
        Settings { quick: true, seeds: Some(2), jobs: NonZeroUsize::new(1), keep: Some(&records) };
    let outcome = run(claim, &Sim, settings, &Interrupt::default()).unwrap();
    assert_eq!((outcome.runs, outcome.seeds, outcome.measured_s), (8, 2, 10.0));
    assert_eq!(outcome.tally(), (2, 2), "{:?}", outcome.figures);
    assert!(outcome.is_of(claim) && outcome.quick);
    assert_eq!(forebay_lab::results::store::files(&records).unwrap().len(), outcome.runs);
    let again =
        run(claim, &Sim, Settings { keep: None, ..settings }, &Interrupt::default()).unwrap();
    assert_eq!(outcome.figures, again.figures, "the same seeds, the same figures");

    let store = Store::beside(&scratch.0.join("out.md"));
    assert_eq!(load_outcome(&store, "queue", "sim").unwrap(), None);
    save_outcome(&store, &outcome, &claim.title).unwrap();
    assert_eq!(load_outcome(&store, "queue", "sim").unwrap().as_ref(), Some(&outcome));
    let svg = std::fs::read_to_string(scratch.0.join("out/queue-sim.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns") && svg.matches("class=\"curve").count() == 2);
    std::fs::write(scratch.0.join("out/queue-sim.json"), "{}").unwrap();
    let damaged = load_outcome(&store, "queue", "sim").unwrap_err().to_string();
    assert!(damaged.contains("run that claim again"), "{damaged}");
}

fn value(value: f64) -> Value {
    Value { value, min: value * 0.9, max: value * 1.1 }
}

/// An outcome of the claim with these figures.
fn outcome(claim: &Claim, engine: &str, values: [Option<Value>; 2]) -> Outcome {
    let tried = claim.figures.iter().zip(values).map(|(f, value)| Tried {
        what: f.what.clone(),
        unit: f.unit().to_owned(),
        source: f.source,
        band: f.band.to_string(),
        value,
        verdict: Verdict::of(f.band, f.source, value),
    });
    Outcome {
        claim: claim.id.clone(),
        engine: engine.to_owned(),
        date: "2026-11-20".to_owned(),
        machine: "Linux 6.18, 2 cores".to_owned(),
        seeds: 2,
        measured_s: 40.0,
        runs: 8,
        quick: false,
        scenario: claim.scenario_hash.clone(),
        figures: tried.collect(),
        picture: None,
    }
}

#[test]
fn the_page() {
    let scratch = scratch("page", CLAIM);
    let catalogue = Catalogue { name: "example".to_owned(), ..load(&scratch.0).unwrap() };
    let claim = &catalogue.claims[0];
    let good = outcome(claim, "sim", [Some(value(0.05)), Some(value(11.0))]);
    let mut bad = outcome(claim, "uml", [None, Some(value(9.0))]);
    bad.scenario = "another".to_owned();
    bad.figures[0].band = "at most 0.4".to_owned();
    assert_eq!((good.tally(), bad.tally()), ((2, 2), (2, 0)));
    assert!(good.is_of(claim) && !bad.is_of(claim));
    let store = Store::beside("docs/page.md".as_ref());
    let rows = [(claim, vec![good, bad])];
    insta::assert_snapshot!(page(&catalogue, &rows, &store));
}
