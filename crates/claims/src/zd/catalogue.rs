//! Claims as they are written: `experiments/zd/*.claim.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_config::{ConfigError, DurationValue, RateValue, Source, Spanned};
use forebay_units::Nanos;
use serde::Deserialize;

use super::model::{Mode, Setting};
use super::rows::{Quantity, Selection};
use crate::band::Band;
use crate::figure::Over;
use crate::page_file::{OneOrMany, Page};
use forebay_guest::zd::Experiment;
use forebay_outcome::provenance;

/// What is measured: the name in files, what it is called, its unit, and the digits that are shown.
pub const MEASURES: [(&str, &str, &str, usize); 22] = [
    ("mbps", "goodput", "Mbit/s", 1),
    ("served", "flows of which anything arrived", "%", 1),
    ("cpu_kernel", "CPU of the guest's kernel", "s", 2),
    ("cpu_all", "CPU of the guest", "s", 2),
    ("cpu_back_end", "CPU of the back end's thread", "%", 1),
    ("drops", "drops", "", 0),
    ("local_drops", "local drops", "", 0),
    ("resent", "sent again", "", 0),
    ("timeouts", "timeouts", "", 0),
    ("rtt_p50", "RTT p50", "ms", 2),
    ("rtt_p99", "RTT p99", "ms", 2),
    ("rtt_p999", "RTT p99.9", "ms", 2),
    ("rtt_p9999", "RTT p99.99", "ms", 2),
    ("wait_p50", "wait p50", "ms", 0),
    ("wait_p99", "wait p99", "ms", 0),
    ("silence_p50", "silence p50", "ms", 0),
    ("silence_p99", "silence p99", "ms", 0),
    ("segments", "segments in a super-packet", "", 2),
    ("requests", "requests", "", 0),
    ("request_p50", "request p50", "ms", 2),
    ("request_p99", "request p99", "ms", 2),
    ("others", "the other's goodput", "Mbit/s", 1),
];

/// The entry of `measure` in [`MEASURES`].
pub fn measure(name: &str) -> Option<(&'static str, &'static str, &'static str, usize)> {
    MEASURES.into_iter().find(|(known, ..)| *known == name)
}

/// What a claim's rows come from.
#[derive(Clone, Debug)]
pub enum How {
    /// The simulator's model of a machine.
    Model(Sweep),
    /// Guests in virtual time, whose kernel has the patch or not.
    Guests(Vec<(String, Experiment)>),
    /// Guests at a back end, in real time: `cargo bench -p forebay-vhost --bench zd` runs them.
    BackEnd,
}

impl How {
    /// The engine, as the command line calls it.
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Model(_) => "sim",
            Self::Guests(_) => "uml",
            Self::BackEnd => "netns",
        }
    }

    /// Of all that is run.
    pub fn hash(&self) -> String {
        provenance::hash(&format!("{self:?}"))
    }
}

/// Runs of the model.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The machines.
    pub settings: Vec<Setting>,
    /// How many flows each has.
    pub flows: Vec<u32>,
    /// With seeds from 1 to this.
    pub seeds: u64,
    /// How long each is measured.
    pub length: Nanos,
}

/// A figure to be held against the text's.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it is, in words.
    pub what: String,
    /// What it is taken from.
    pub quantity: Quantity,
    /// The text's, where it gives one.
    pub source: Option<f64>,
    /// Where ours must lie.
    pub band: Band,
    /// Why it does not, where that is known; Markdown.
    pub why: Option<String>,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// What is drawn, one of [`MEASURES`].
    pub measure: String,
    /// The label along the axis, and the one that has a line for each value.
    pub along: String,
    /// As said.
    pub lines: String,
    /// Of which cells.
    pub of: Selection,
}

/// A claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// What is claimed.
    pub title: String,
    /// Where.
    pub source: String,
    /// How it is tried; Markdown.
    pub about: String,
    /// How its rows come to be.
    pub how: How,
    /// The measures in its table, by name.
    pub table: Vec<String>,
    /// What is judged.
    pub figures: Vec<Figure>,
    /// What is drawn.
    pub drawings: Vec<Drawing>,
    /// Of all that its runs are made of.
    pub hash: String,
}

/// All claims, and what the page begins with.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The page's title.
    pub title: String,
    /// As said; Markdown.
    pub about: String,
    /// In the page's order.
    pub claims: Vec<Claim>,
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
    table: Spanned<Vec<String>>,
    #[serde(default)]
    figure: Vec<Spanned<FigureTable>>,
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
    band: String,
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

/// Labels as they are written: `{ mode = "zd", flows = ["500", "1000"] }`.
type Table = BTreeMap<String, OneOrMany>;

fn selection(table: Table) -> Selection {
    table.into_iter().map(|(key, own)| (key, own.list())).collect()
}

impl Catalogue {
    /// Of the directory `dir`.
    ///
    /// # Errors
    /// With file, line and key of what is wrong.
    pub fn load(dir: &Path) -> Result<Self, ConfigError> {
        let Page { title, about, claims } = Page::load(dir, Claim::load)?;
        Ok(Self { title, about, claims })
    }
}

impl Claim {
    fn load(id: &str, path: &Path) -> Result<Self, ConfigError> {
        let (file, source) = forebay_config::load(path)?;
        Self::check(path.parent().unwrap_or("".as_ref()), id, file, &source)
    }

    fn check(dir: &Path, id: &str, file: ClaimFile, source: &Source) -> Result<Self, ConfigError> {
        let ClaimFile { title, about, table, .. } = file;
        for name in table.get_ref() {
            known(source, &table, "table", name)?;
        }
        let how = how(dir, source, file.model, &file.guests, file.back_end)?;
        let figures = file.figure.into_iter().map(|figure| self::figure(source, figure));
        let figures = figures.collect::<Result<_, _>>()?;
        let drawings = file.picture.into_iter().map(|picture| drawing(source, picture));
        let drawings = drawings.collect::<Result<_, _>>()?;
        Ok(Self {
            id: id.to_owned(),
            title,
            source: file.source,
            about,
            // Not of the bands nor the words: what was run stays what it is.
            hash: how.hash(),
            how,
            table: table.into_inner(),
            figures,
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
) -> Result<How, ConfigError> {
    match (model, guests, back_end) {
        (Some(model), [], false) => sweep(source, model).map(How::Model),
        (None, [_, ..], false) => {
            let load = |file: &Spanned<String>| {
                let name = file.get_ref();
                let plain = PathBuf::from(name).file_name().is_some_and(|n| n == name.as_str());
                if !plain {
                    return Err(source.error_at(
                        file.span(),
                        "guests",
                        "is no file beside this one",
                    ));
                }
                Ok((name.clone(), Experiment::load(&dir.join(name))?))
            };
            guests.iter().map(load).collect::<Result<_, _>>().map(How::Guests)
        }
        (None, [], true) => Ok(How::BackEnd),
        _ => {
            let what = "write one of `model`, `guests` and `back_end = true`";
            Err(source.error_at(0..0, "model", what))
        }
    }
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
        return Err(fail("`duration` is more than nothing, and an hour at most"));
    }
    let settings = table.setting.into_iter().map(|own| {
        let modes: Vec<_> = own
            .modes
            .iter()
            .map(|mode| match mode {
                ModeName::Linux => Mode::Linux,
                ModeName::Zd => Mode::Zd,
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
    let span = table.span();
    let fail = |what: String| source.error_at(span.clone(), "figure.band", what);
    let own = table.into_inner();
    let band = own.band.parse::<Band>().map_err(|e| fail(e.to_string()))?;
    if band.needs_source() && own.source.is_none() {
        return Err(fail("is around the source's figure: give `source`".to_owned()));
    }
    let quantity = Quantity {
        measure: own.measure,
        of: selection(own.of),
        to: own.to.map(selection),
        over: own.over,
    };
    Ok(Figure { what: own.what, quantity, source: own.source, band, why: own.why })
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
    let all = MEASURES.map(|(name, ..)| name).join(", ");
    Err(source.error_at(
        place.span(),
        key,
        format!("nothing is called \"{name}\": there are {all}"),
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
    fn claims_say_what_is_run_and_what_is_judged() {
        let claim = with(GOOD).unwrap();
        let How::Model(sweep) = &claim.how else { panic!("{:?}", claim.how) };
        assert_eq!(sweep.settings[0].modes, [Mode::Linux, Mode::Zd]);
        assert_eq!(claim.figures[0].quantity.of["flows"], ["500", "1000"]);
        // What is judged can change without another run; what is run cannot.
        let band = with(&GOOD.replace("at most 0", "at most 1")).unwrap();
        assert_eq!(band.hash, claim.hash);
        assert_ne!(with(&GOOD.replace("flows = [500]", "flows = [600]")).unwrap().hash, claim.hash);
    }

    #[test]
    fn every_claim_in_the_tree_is_good_and_on_the_page() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/zd");
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

    /// What the rows of a kind of run have.
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
                    values: [of(&tcp), of(&["cpu_kernel", "cpu_all", "wait_p99", "silence_p99"])]
                        .concat(),
                },
                How::BackEnd => Self {
                    labels: &["rate", "queue", "mode"],
                    values: of(&[
                        "mbps",
                        "cpu_back_end",
                        "drops",
                        "resent",
                        "rtt_p999",
                        "rtt_p9999",
                        "request_p99",
                    ]),
                },
            }
        }
    }

    #[test]
    fn errors_name_line_and_key() {
        for (from, to, says) in [
            ("\"drops\"]", "\"drips\"]", ":5: table: nothing is called \"drips\""),
            ("at most 0", "10 %", "figure.band: is around"),
            ("at most 0", "few", "figure.band: `few` is no band"),
            ("measure = \"drops\"", "measure = \"x\"", "figure.measure: nothing is called"),
            ("seeds = 1", "seeds = 0", "model: needs"),
            ("[model]", "back_end = true\n[model]", "model: write one of"),
            ("over =", "uber =", "unknown field"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = with(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{error}\n{says}");
        }
    }
}
