//! Loads claims from files such as `experiments/zd/*.claim.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_config::{ConfigError, DurationValue, RateValue, Source, Spanned};
use forebay_units::{Bytes, Nanos};
use serde::Deserialize;

use super::model::{Mode, Setting};
use super::quantity::{Quantity, Selection};
use super::stack::{self, Load, LoadTable};
use crate::changed::Changed;
use crate::figure::Over;
use crate::judge::Criteria;
use crate::page_file::{OneOrMany, Page, criteria, name};
use forebay_guest::zd::Experiment;
use forebay_outcome::provenance;

/// The largest size of a guest's file.
const MAX_FILE: Bytes = Bytes(4_000_000);

/// A measure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The name in files.
    pub key: &'static str,
    /// The name on the page.
    pub name: &'static str,
    /// The unit; empty for counts and ratios.
    pub unit: &'static str,
    /// The number of decimals that are shown.
    pub decimals: usize,
}

const fn new(
    key: &'static str,
    name: &'static str,
    unit: &'static str,
    decimals: usize,
) -> Measure {
    Measure { key, name, unit, decimals }
}

/// The measures that claims may name.
pub const MEASURES: [Measure; 45] = [
    new("mbps", "goodput", "Mbit/s", 1),
    new("served", "flows of which anything arrived", "%", 1),
    new("cpu_kernel", "CPU of the guest's kernel", "s", 2),
    new("cpu_all", "CPU of the guest", "s", 2),
    new("cpu_back_end", "CPU of the back end's thread", "%", 1),
    new("drops", "drops", "", 0),
    new("local_drops", "local drops", "", 0),
    new("resent", "sent again", "", 0),
    new("timeouts", "timeouts", "", 0),
    new("timeouts_early", "timeouts before", "", 0),
    new("held", "segments held", "", 0),
    new("frame", "bytes of a frame", "", 0),
    new("rtt_p50", "RTT p50", "ms", 2),
    new("rtt_p99", "RTT p99", "ms", 2),
    new("rtt_p999", "RTT p99.9", "ms", 2),
    new("rtt_p9999", "RTT p99.99", "ms", 2),
    new("wait_p50", "wait p50", "ms", 0),
    new("wait_p99", "wait p99", "ms", 0),
    new("silence_p50", "silence p50", "ms", 0),
    new("silence_p99", "silence p99", "ms", 0),
    new("segments", "segments in a super-packet", "", 2),
    new("requests", "requests", "", 0),
    new("request_p50", "request p50", "ms", 2),
    new("request_p99", "request p99", "ms", 2),
    new("others", "the other's goodput", "Mbit/s", 1),
    new("cpu_busy", "CPU of the load", "%", 1),
    new("cpu_per_gbit", "CPU for a gigabit", "s", 2),
    new("other_programs", "CPU of other programs", "%", 1),
    new("rtt_mean", "RTT mean", "ms", 2),
    new("resent_share", "sent again", "%", 2),
    new("segments_per_s", "segments a second", "", 0),
    new("segments_per_gbit", "segments for a gigabit", "", 0),
    new("segment_bytes", "bytes of a segment", "", 0),
    new("acks_per_s", "ACKs a second", "", 0),
    new("acks_per_packet", "ACKs for a packet", "", 3),
    new("softirqs_per_s", "receive softirqs a second", "", 0),
    new("rate_spread", "rates, p99 over p1", "", 1),
    new("jain", "Jain's index", "", 2),
    new("queue_drops", "drops a second", "", 0),
    new("queued", "segments in the queue", "", 0),
    new("ended", "connections that ended early", "", 0),
    new("ns_enqueue", "enqueue", "ns", 0),
    new("ns_lock", "spin locks", "ns", 0),
    new("ns_lookup", "look-up", "ns", 0),
    new("ns_ack", "tcp_ack", "ns", 0),
];

/// The entry of [`MEASURES`] with the name `key` in files.
pub fn measure(key: &str) -> Option<Measure> {
    MEASURES.into_iter().find(|known| known.key == key)
}

/// The runs that a claim's rows come from.
#[derive(Clone, Debug)]
pub enum How {
    /// The simulator's model of a machine.
    Model(Sweep),
    /// Guests in virtual time, with and without the patch in their kernel; by the names of their
    /// files.
    Guests(Vec<(String, Experiment)>),
    /// Guests at a back end, in real time. The benchmark `vhost_zd` of `forebay-benches` runs them.
    BackEnd,
    /// Connections through the network stack of this machine, in real time.
    Stack(Load),
}

impl How {
    /// The engine's name on the command line.
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Model(_) => "sim",
            Self::Guests(_) => "uml",
            Self::BackEnd | Self::Stack(_) => "netns",
        }
    }
}

/// The runs of the model.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The machines that are simulated.
    pub settings: Vec<Setting>,
    /// The numbers of flows that each machine is run with.
    pub flows: Vec<u32>,
    /// The number of seeds; seeds count from 1.
    pub seeds: u64,
    /// The measured time of each run.
    pub length: Nanos,
}

/// A figure that is compared with the thesis.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The figure in words.
    pub what: String,
    /// The quantity that the figure is taken from.
    pub quantity: Quantity,
    /// How the figure is judged.
    pub criteria: Criteria,
    /// The reason for a difference, where it is known; Markdown.
    pub why: Option<String>,
}

/// A plot of a measure.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The key of the measure that is drawn.
    pub measure: String,
    /// The label along the axis.
    pub along: String,
    /// The label with a line for each value.
    pub lines: String,
    /// The cells that are drawn.
    pub of: Selection,
}

/// A claim of the thesis, or a question of our own.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The claim's name, that of its file.
    pub id: String,
    /// The claim in one line.
    pub title: String,
    /// The section and the figure of the thesis.
    pub source: String,
    /// How the claim is tried; Markdown.
    pub about: String,
    /// The runs that the rows come from.
    pub how: How,
    /// The measures in the claim's table, by key.
    pub table: Vec<String>,
    /// The figures that are compared.
    pub figures: Vec<Figure>,
    /// The bands that were changed after a first result.
    pub changed: Vec<Changed>,
    /// The plots below the table.
    pub drawings: Vec<Drawing>,
    /// The hash of what decides the runs.
    pub hash: String,
}

/// All claims, and the introduction of the page.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The name on the command line: that of the directory.
    pub name: String,
    /// The title of the page.
    pub title: String,
    /// The introduction of the page; Markdown.
    pub about: String,
    /// The claims, in the page's order.
    pub claims: Vec<Claim>,
    /// The claims whose bands entered the history together with their first result.
    pub bands_with_results: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimFile {
    title: String,
    source: String,
    about: String,
    model: Option<Spanned<ModelTable>>,
    #[serde(default)]
    guests: Vec<Spanned<String>>,
    #[serde(default)]
    back_end: bool,
    stack: Option<Spanned<LoadTable>>,
    table: Spanned<Vec<String>>,
    #[serde(default)]
    figure: Vec<Spanned<FigureTable>>,
    #[serde(default)]
    changed: Vec<Changed>,
    #[serde(default)]
    picture: Vec<Spanned<PictureTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    flows: Vec<u32>,
    seeds: u64,
    duration: DurationValue,
    setting: Vec<SettingTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingTable {
    name: String,
    rate: RateValue,
    guest: u32,
    hypervisor: u32,
    #[serde(default)]
    modes: Vec<ModeName>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModeName {
    Linux,
    Zd,
    Carousel,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureTable {
    what: String,
    measure: String,
    of: Table,
    to: Option<Table>,
    #[serde(default)]
    over: Over,
    source: Option<f64>,
    band: Spanned<String>,
    bar: Option<Spanned<String>>,
    why: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PictureTable {
    measure: String,
    along: String,
    lines: String,
    #[serde(default)]
    of: Table,
}

/// Labels as they are written, such as `{ mode = "zd", flows = ["500", "1000"] }`.
type Table = BTreeMap<String, OneOrMany>;

fn selection(table: Table) -> Selection {
    table.into_iter().map(|(key, own)| (key, own.list())).collect()
}

impl Catalogue {
    /// Loads the claims of the directory `dir`.
    ///
    /// # Errors
    /// If a file is wrong; the error names file, line and key.
    pub fn load(dir: &Path) -> Result<Self, ConfigError> {
        let Page { title, about, claims, bands_with_results } = Page::load(dir, Claim::load)?;
        Ok(Self { name: name(dir), title, about, claims, bands_with_results })
    }

    /// The engines that a command can run the claims on, each once, in the page's order.
    pub fn engines(&self) -> Vec<&'static str> {
        let mut engines = Vec::new();
        for claim in self.claims.iter().filter(|claim| !matches!(claim.how, How::BackEnd)) {
            let engine = claim.how.engine();
            if !engines.contains(&engine) {
                engines.push(engine);
            }
        }
        engines
    }

    /// The engines that are used if none is given: the simulator, or all that there are.
    pub fn usual_engines(&self) -> Vec<&'static str> {
        let all = self.engines();
        if all.contains(&"sim") { vec!["sim"] } else { all }
    }
}

impl Claim {
    /// The bands of each figure, by the figure's words, to be stored with rows.
    pub fn bands(&self) -> BTreeMap<String, Vec<String>> {
        let bands = |figure: &Figure| {
            let Criteria { reproduced, bar, .. } = figure.criteria;
            let bands = reproduced.into_iter().chain(bar).map(|band| band.to_string());
            (figure.what.clone(), bands.collect())
        };
        self.figures.iter().map(bands).collect()
    }

    fn load(id: &str, path: &Path) -> Result<Self, ConfigError> {
        let (file, source) = forebay_config::load(path)?;
        Self::check(path.parent().unwrap_or("".as_ref()), id, file, &source)
    }

    fn check(dir: &Path, id: &str, file: ClaimFile, source: &Source) -> Result<Self, ConfigError> {
        let ClaimFile { title, about, table, .. } = file;
        for name in table.get_ref() {
            known(source, &table, "table", name)?;
        }
        let how = how(dir, source, file.model, &file.guests, file.back_end, file.stack)?;
        let figures = file.figure.into_iter().map(|figure| self::figure(source, figure));
        let figures = figures.collect::<Result<_, _>>()?;
        let drawings = file.picture.into_iter().map(|picture| drawing(source, picture));
        let drawings = drawings.collect::<Result<_, _>>()?;
        Ok(Self {
            id: id.to_owned(),
            title,
            source: file.source,
            about,
            // Bands and words are no part of the hash: they do not change the runs.
            hash: hash(dir, &how, source)?,
            how,
            table: table.into_inner(),
            figures,
            changed: file.changed,
            drawings,
        })
    }
}

fn how(
    dir: &Path,
    source: &Source,
    model: Option<Spanned<ModelTable>>,
    guests: &[Spanned<String>],
    back_end: bool,
    load: Option<Spanned<LoadTable>>,
) -> Result<How, ConfigError> {
    match (model, guests, back_end, load) {
        (Some(model), [], false, None) => sweep(source, model).map(How::Model),
        (None, [], false, Some(load)) => stack::load(source, load).map(How::Stack),
        (None, [_, ..], false, None) => {
            let load = |file: &Spanned<String>| {
                let name = file.get_ref();
                let plain = PathBuf::from(name).file_name().is_some_and(|n| n == name.as_str());
                if !plain {
                    return Err(source.error_at(
                        file.span(),
                        "guests",
                        "is not a file beside this one",
                    ));
                }
                Ok((name.clone(), Experiment::load(&dir.join(name))?))
            };
            guests.iter().map(load).collect::<Result<_, _>>().map(How::Guests)
        }
        (None, [], true, None) => Ok(How::BackEnd),
        _ => {
            let what = "write one of `model`, `guests`, `back_end = true` and `stack`";
            Err(source.error_at(0..0, "model", what))
        }
    }
}

/// The hash of what decides the runs: the model's settings, or the files of guests.
fn hash(dir: &Path, how: &How, source: &Source) -> Result<String, ConfigError> {
    let mut text = String::new();
    match how {
        How::Model(Sweep { settings, flows, seeds, length }) => {
            text += &format!("model {flows:?} {seeds} {}", length.0);
            for Setting { name, rate, guest, hypervisor, modes } in settings {
                let modes: Vec<_> = modes.iter().map(|mode| mode.name()).collect();
                let rate = rate.as_mbps_f64();
                text += &format!("\n{name} {rate} {guest} {hypervisor} {modes:?}");
            }
        }
        How::Guests(files) => {
            for (file, _) in files {
                text += &forebay_config::read_text(&dir.join(file), MAX_FILE)
                    .map_err(|e| source.error_at(0..0, "guests", e.to_string()))?;
            }
        }
        How::BackEnd => text += "back end",
        How::Stack(load) => text += &load.text(),
    }
    Ok(provenance::hash(&text))
}

fn sweep(source: &Source, model: Spanned<ModelTable>) -> Result<Sweep, ConfigError> {
    let span = model.span();
    let fail = |what: &str| source.error_at(span.clone(), "model", what);
    let table = model.into_inner();
    let length = table.duration.0;
    if table.flows.is_empty() || table.setting.is_empty() || !(1..=1000).contains(&table.seeds) {
        return Err(fail("needs `flows`, settings, and 1 to 1000 seeds"));
    }
    if length == Nanos::ZERO || length > Nanos::from_secs(3600) {
        return Err(fail("`duration` must be more than 0 s and at most an hour"));
    }
    let settings = table.setting.into_iter().map(|own| {
        let modes: Vec<_> = own
            .modes
            .iter()
            .map(|mode| match mode {
                ModeName::Linux => Mode::Linux,
                ModeName::Zd => Mode::Zd,
                ModeName::Carousel => Mode::Carousel,
            })
            .collect();
        Setting {
            name: own.name,
            rate: own.rate.0,
            guest: own.guest,
            hypervisor: own.hypervisor,
            modes: if modes.is_empty() { vec![Mode::Linux, Mode::Zd] } else { modes },
        }
    });
    Ok(Sweep { settings: settings.collect(), flows: table.flows, seeds: table.seeds, length })
}

fn figure(source: &Source, table: Spanned<FigureTable>) -> Result<Figure, ConfigError> {
    known(source, &table, "figure.measure", &table.get_ref().measure)?;
    let own = table.into_inner();
    let criteria = criteria(source, own.source, &own.band, own.bar.as_ref(), own.to.is_some())?;
    let quantity = Quantity {
        measure: own.measure,
        of: selection(own.of),
        to: own.to.map(selection),
        over: own.over,
    };
    Ok(Figure { what: own.what, quantity, criteria, why: own.why })
}

fn drawing(source: &Source, table: Spanned<PictureTable>) -> Result<Drawing, ConfigError> {
    known(source, &table, "picture.measure", &table.get_ref().measure)?;
    let own = table.into_inner();
    let of = selection(own.of);
    Ok(Drawing { measure: own.measure, along: own.along, lines: own.lines, of })
}

fn known<T>(source: &Source, place: &Spanned<T>, key: &str, name: &str) -> Result<(), ConfigError> {
    if measure(name).is_some() {
        return Ok(());
    }
    let all = MEASURES.map(|measure| measure.key).join(", ");
    Err(source.error_at(
        place.span(),
        key,
        format!("there is no measure \"{name}\": there are {all}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<Claim, String> {
        let (file, source) =
            forebay_config::parse(Path::new("c.claim.toml"), text).map_err(|e| e.to_string())?;
        Claim::check(Path::new(""), "c", file, &source).map_err(|e| e.to_string())
    }

    const GOOD: &str = r#"
title = "T"
source = "S"
about = "A"
table = ["mbps", "drops"]

[model]
flows = [500]
seeds = 1
duration = "1 s"
[[model.setting]]
name = "a"
rate = "10 Gbit/s"
guest = 1000
hypervisor = 100

[[figure]]
what = "drops"
measure = "drops"
of = { mode = "zd", flows = ["500", "1000"] }
to = { mode = "linux" }
over = "max"
band = "at most 0"
"#;

    #[test]
    fn a_claim_loads_and_only_what_is_run_decides_its_hash() {
        let claim = with(GOOD).unwrap();
        let How::Model(sweep) = &claim.how else { panic!("{:?}", claim.how) };
        assert_eq!(sweep.settings[0].modes, [Mode::Linux, Mode::Zd]);
        assert_eq!(claim.figures[0].quantity.of["flows"], ["500", "1000"]);
        // A band can change without another run, the number of flows cannot.
        let band = with(&GOOD.replace("at most 0", "at most 1")).unwrap();
        assert_eq!(band.hash, claim.hash);
        assert_ne!(with(&GOOD.replace("flows = [500]", "flows = [600]")).unwrap().hash, claim.hash);
    }

    #[test]
    fn every_claim_in_the_tree_loads_and_is_on_the_page() {
        every_claim_of("zd");
        every_claim_of("stack");
    }

    fn every_claim_of(name: &str) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(name);
        let catalogue = Catalogue::load(&dir).unwrap();
        for entry in std::fs::read_dir(&dir).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if let Some(id) = file.strip_suffix(".claim.toml") {
                assert!(catalogue.claims.iter().any(|c| c.id == id), "{file} is not on the page");
            } else if file != "page.toml" {
                Experiment::load(&dir.join(file)).unwrap();
            }
        }
        for claim in &catalogue.claims {
            let What { labels, values } = What::of(&claim.how);
            for figure in &claim.figures {
                let own = &figure.quantity;
                assert!(values.contains(&own.measure.as_str()), "{}: {}", claim.id, own.measure);
                let keys = own.of.keys().chain(own.to.iter().flat_map(|to| to.keys()));
                keys.for_each(|key| assert!(labels.contains(&key.as_str()), "{}: {key}", claim.id));
            }
        }
    }

    /// The labels and the measures that the rows of a kind of run have.
    struct What {
        labels: &'static [&'static str],
        values: Vec<&'static str>,
    }

    impl What {
        fn of(how: &How) -> Self {
            let of = |names: &[&'static str]| names.to_vec();
            let tcp =
                ["mbps", "resent", "timeouts", "local_drops", "rtt_p50", "rtt_p99", "rtt_p999"];
            match how {
                How::Model(_) => Self {
                    labels: &["setting", "flows", "mode"],
                    values: [of(&tcp), of(&["drops", "rtt_p9999", "segments", "served"])].concat(),
                },
                How::Guests(_) => Self {
                    labels: &["setting", "queue", "flows", "mode"],
                    values: [
                        of(&tcp),
                        of(&["cpu_kernel", "cpu_all", "wait_p99", "silence_p99"]),
                        of(&["timeouts_early", "held", "frame"]),
                    ]
                    .concat(),
                },
                How::BackEnd => Self {
                    labels: &["rate", "queue", "guest", "mode"],
                    values: of(&[
                        "mbps",
                        "cpu_back_end",
                        "drops",
                        "local_drops",
                        "resent",
                        "rtt_p99",
                        "rtt_p999",
                        "rtt_p9999",
                        "request_p99",
                    ]),
                },
                How::Stack(_) => Self {
                    labels: &[
                        "flows",
                        "qdisc",
                        "queue",
                        "congestion",
                        "loss",
                        "paced",
                        "autosizing",
                    ],
                    values: of(&[
                        "mbps",
                        "cpu_busy",
                        "cpu_per_gbit",
                        "rtt_mean",
                        "resent_share",
                        "segments_per_s",
                        "segments_per_gbit",
                        "segment_bytes",
                        "acks_per_s",
                        "acks_per_packet",
                        "softirqs_per_s",
                        "rate_spread",
                        "queue_drops",
                        "ns_enqueue",
                        "ns_lock",
                        "ns_lookup",
                        "ns_ack",
                    ]),
                },
            }
        }
    }

    #[test]
    fn errors_name_line_and_key() {
        for (from, to, says) in [
            ("\"drops\"]", "\"drips\"]", ":5: table: there is no measure \"drips\""),
            ("at most 0", "10 %", "figure.band: is relative"),
            ("at most 0", "few", "figure.band: `few` is not a band"),
            ("measure = \"drops\"", "measure = \"x\"", "figure.measure: there is no measure"),
            ("seeds = 1", "seeds = 0", "model: needs"),
            ("[model]", "back_end = true\n[model]", "model: write one of"),
            ("[model]", "[stack]\n[model]", "missing field `repeats`"),
            ("over =", "uber =", "unknown field"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = with(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{error}\n{says}");
        }
    }
}
