use std::num::NonZeroUsize;
use std::path::Path;

use forebay_lab::engine::Interrupt;
use forebay_lab::sim_engine::Sim;
use forebay_outcome::{Commit, KnownBy, Store};
use forebay_test_support::Dir;

use super::*;
use crate::age::{Age, Ages};
use crate::catalogue::{self, Method};
use crate::figure::{Tried, Value};
use crate::judge::Verdict;

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

fn scratch(name: &str, claim: &str) -> Dir {
    let scratch = Dir::new(name);
    scratch.file("page.toml", PAGE, 0o644);
    scratch.file("queue.toml", SCENARIO, 0o644);
    scratch.file("queue.claim.toml", claim, 0o644);
    scratch
}

#[test]
fn every_claim_and_every_scenario_in_the_tree_loads() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let all = catalogue::list(&dir).unwrap();
    let names: Vec<String> = all.into_iter().map(|entry| entry.name).collect();
    assert!(names.contains(&"bundler".to_owned()) && names.contains(&"zd".to_owned()));
    // The claims of zD and of Unison have other kinds of runs, and tests of their own.
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

/// Each change of the good claim, and the error for it.
#[test]
fn an_impossible_claim_is_refused_by_line_and_key() {
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
            "measure = \"goodput\", bundle = \"b\", cells",
            "15: figure.of: `bundle` goes with \"mode\" and \"sendbox_queue\"",
        ),
        (
            "measure = \"goodput\", cells",
            "measure = \"mode\", mode = \"open\", bundle = \"outer\", cells",
            "15: figure.of: arm \"bundler\" has no bundle \"outer\"",
        ),
        (
            "measure = \"goodput\", cells",
            "measure = \"rtt_error\", at = \"p50\", traffic = \"flow\", cells",
            "15: figure.of: this measure has no `traffic`",
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
        ("band = \"10 %\"", "band = \"10 percent\"", "17: figure.band: `10 percent` is not a band"),
        (
            "source = 11.5\n",
            "",
            "16: figure.band: is relative to the source's figure: give `source`",
        ),
        (
            "band = \"10 %\"",
            "band = \"at least 9\"\nbar = \"at least 8\"",
            "17: figure.band: is a bar of our own already",
        ),
        (
            "band = \"at most 0.5\"",
            "source = 0.9\nband = \"20 %\"",
            "13: figure.band: a ratio of 1, which is no effect, would count",
        ),
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
            "15: figure.of: is a comparison: give the other side as `to`",
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
    scratch.file("page.toml", &PAGE.replace("[\"queue\"]", "[\"queue\", \"queue\"]"), 0o644);
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
    let settings = Settings {
        quick: true,
        seeds: Some(2),
        jobs: NonZeroUsize::new(1),
        keep: Some(&records),
        checkout: Some(env!("CARGO_MANIFEST_DIR").as_ref()),
    };
    let outcome = run(claim, &Sim, settings, &Interrupt::default()).unwrap();
    assert_eq!((outcome.runs, outcome.seeds, outcome.measured_s), (8, 2, 10.0));
    let tally = outcome.tally(claim);
    assert_eq!((tally.reproduced, tally.met, tally.rows), (1, 1, 2), "{:?}", outcome.figures);
    assert_eq!(outcome.commit, Commit::of_checkout(env!("CARGO_MANIFEST_DIR").as_ref()));
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
        source: f.criteria.source,
        band: f.criteria.reproduced.or(f.criteria.bar).unwrap().to_string(),
        bar: None,
        value,
        verdict: Verdict::Shown,
    });
    Outcome {
        claim: claim.id.clone(),
        engine: engine.to_owned(),
        date: "2026-11-20".to_owned(),
        commit: Some(Commit {
            id: "0123456789".to_owned(),
            known_by: KnownBy::History,
            modified: false,
        }),
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
    let changed = "[[changed]]\nwhat = \"Goodput at 20 ms\"\ncommit = \"abcdef0\"\ndate = \"2026-11-19\"\n\
                   before = \"5 %\"\nsource = 11.5\nafter = \"10 %\"\nvalue = 12.2\nwhy = \"It was outside.\"\n";
    let scratch = scratch("page", &CLAIM.replace("[picture]", &format!("{changed}[picture]")));
    scratch.file("page.toml", &format!("{PAGE}bands_with_results = [\"queue\"]\n"), 0o644);
    let catalogue = Catalogue { name: "example".to_owned(), ..load(&scratch.0).unwrap() };
    let claim = &catalogue.claims[0];
    let good = outcome(claim, "sim", [Some(value(0.05)), Some(value(11.0))]);
    let mut bad = outcome(claim, "uml", [None, Some(value(9.0))]);
    bad.scenario = "another".to_owned();
    bad.figures[1].band = "5 %".to_owned();
    let passed = |outcome: &Outcome| (outcome.tally(claim).reproduced, outcome.tally(claim).met);
    assert_eq!((passed(&good), passed(&bad)), ((1, 1), (0, 0)));
    assert!(good.is_of(claim) && !bad.is_of(claim));
    let store = Store::beside("docs/page.md".as_ref());
    let rows = [(claim, vec![good, bad])];
    let age = Age { commits: 3, last: "fedcba9876".to_owned(), day: "2026-11-21".to_owned() };
    let results = [("queue-sim".to_owned(), age)].into();
    let ages = Ages { at: "fedcba9876".to_owned(), unchanged: Vec::new(), results };
    insta::assert_snapshot!(page(&catalogue, &rows, &store, &ages));
}
