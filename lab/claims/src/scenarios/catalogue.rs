//! Loads claims from files: a directory with the page's file, and a file for each claim beside its
//! scenario.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

use forebay_config::{ConfigError, DurationValue, Source, Spanned};
use forebay_units::Bytes;
use serde::Deserialize;

use super::claim::{Claim, Extent, Figure, Selection};
use super::picture::{self, Wanted};
use super::quantity::{Measure, Quantity, Statistic};
use super::sizes::Sizes;
use crate::changed::Changed;
use crate::figure::Over;
use crate::page_file::{OneOrMany, Page, criteria, name};
use forebay_lab::scenario::{self, Arm, Scenario};
use forebay_outcome::provenance;

/// The engines that a claim may name.
pub const ENGINES: [&str; 3] = ["sim", "uml", "netns"];
/// The columns of a page: the engines, and those with a kernel once more with the kernel's queues
/// at the sendboxes. A claim that names an engine may be tried on both.
pub const COLUMNS: [&str; 5] = ["sim", "uml", "uml-kernel", "netns", "netns-kernel"];
/// The largest size of a scenario's file.
const MAX_FILE: Bytes = Bytes(4_000_000);
/// All claims of one source.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The name of the catalogue's directory.
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

/// Loads the catalogue in `dir` with every scenario that it names.
///
/// # Errors
/// If a file cannot be read or describes an impossible run; the error names file and line.
pub fn load(dir: &Path) -> Result<Catalogue, ConfigError> {
    let Page { title, about, claims, bands_with_results } = Page::load(dir, claim)?;
    Ok(Catalogue { name: name(dir), title, about, claims, bands_with_results })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimFile {
    title: String,
    source: String,
    about: String,
    /// The scenario's file, beside this one.
    scenario: Spanned<String>,
    engine: Spanned<BTreeMap<String, ExtentTable>>,
    #[serde(default)]
    figure: Vec<FigureTable>,
    #[serde(default)]
    changed: Vec<Changed>,
    picture: Option<Spanned<picture::Table>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtentTable {
    seeds: NonZeroU32,
    duration: Option<DurationValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureTable {
    what: Spanned<String>,
    of: Spanned<SelectionTable>,
    to: Option<Spanned<SelectionTable>>,
    source: Option<f64>,
    band: Spanned<String>,
    bar: Option<Spanned<String>>,
    why: Option<String>,
}

/// A selection as it is written. A key that `to` leaves out is that of `of`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct SelectionTable {
    arm: Option<String>,
    measure: Option<Measure>,
    at: Option<String>,
    traffic: Option<OneOrMany>,
    phase: Option<String>,
    size: Option<Sizes>,
    mode: Option<String>,
    bundle: Option<String>,
    #[serde(default)]
    cells: BTreeMap<String, OneOrMany>,
    over: Option<Over>,
}

fn claim(id: &str, path: &Path) -> Result<Claim, ConfigError> {
    let (file, source) = forebay_config::load::<ClaimFile>(path)?;
    let scenario = path.parent().unwrap_or("".as_ref()).join(file.scenario.get_ref());
    let experiment = scenario::load(&scenario)?;
    let text = forebay_config::read_text(&scenario, MAX_FILE)
        .map_err(|e| source.error_at(file.scenario.span(), "scenario", e.to_string()))?;
    let mut claim = Claim {
        id: id.to_owned(),
        title: file.title,
        source: file.source,
        about: file.about,
        experiment,
        scenario: file.scenario.into_inner(),
        scenario_hash: provenance::hash(&text),
        engines: BTreeMap::new(),
        figures: Vec::new(),
        changed: file.changed,
        picture: None,
    };
    for (name, extent) in file.engine.get_ref() {
        if !ENGINES.contains(&name.as_str()) {
            let what = format!("there is no engine \"{name}\": there are {}", ENGINES.join(", "));
            return Err(source.error_at(file.engine.span(), "engine", what));
        }
        let duration = extent.duration.map(|d| d.0);
        claim.engines.insert(name.clone(), Extent { seeds: extent.seeds, duration });
    }
    let check = Check { source: &source, claim: &claim };
    let figures = file.figure.into_iter().map(|table| check.figure(table));
    let figures = figures.collect::<Result<Vec<_>, _>>()?;
    let picture = file.picture.map(|table| check.picture(table)).transpose()?;
    (claim.figures, claim.picture) = (figures, picture);
    Ok(claim)
}

/// Checks what was written against the experiment.
struct Check<'a> {
    source: &'a Source,
    claim: &'a Claim,
}

impl Check<'_> {
    fn figure(&self, table: FigureTable) -> Result<Figure, ConfigError> {
        let base = table.of.get_ref();
        let of = self.selection(&table.of, base.clone(), "figure.of")?;
        let to = table.to.as_ref().map(|to| {
            let own = to.get_ref().clone();
            let full = SelectionTable {
                arm: own.arm.or_else(|| base.arm.clone()),
                measure: own.measure.or(base.measure),
                at: own.at.or_else(|| base.at.clone()),
                traffic: own.traffic.or_else(|| base.traffic.clone()),
                phase: own.phase.or_else(|| base.phase.clone()),
                size: own.size.or(base.size),
                mode: own.mode.or_else(|| base.mode.clone()),
                bundle: own.bundle.or_else(|| base.bundle.clone()),
                cells: if own.cells.is_empty() { base.cells.clone() } else { own.cells },
                over: own.over.or(base.over),
            };
            self.selection(to, full, "figure.to")
        });
        if of.quantity.measure.is_comparison() && table.to.is_none() {
            let what = "is a comparison: give the other side as `to`".to_owned();
            return Err(self.source.error_at(table.of.span(), "figure.of", what));
        }
        let is_ratio = table.to.is_some() && !of.quantity.measure.is_comparison();
        let criteria =
            criteria(self.source, table.source, &table.band, table.bar.as_ref(), is_ratio)?;
        let what = table.what.into_inner();
        Ok(Figure { what, of, to: to.transpose()?, criteria, why: table.why })
    }

    fn selection<T>(
        &self,
        place: &Spanned<T>,
        table: SelectionTable,
        key: &str,
    ) -> Result<Selection, ConfigError> {
        let fail = |what: String| self.source.error_at(place.span(), key, what);
        let cells = &self.claim.experiment.cells;
        let needed = |key: &str| fail(format!("`{key}` is missing"));
        let arm = table.arm.clone().ok_or_else(|| needed("arm"))?;
        if !cells.iter().flat_map(|c| &c.arms).any(|a| a.name == arm) {
            return Err(fail(format!("the scenario has no arm \"{arm}\"")));
        }
        let quantity = quantity(&table).map_err(&fail)?;
        let traffics = || cells.iter().flat_map(|c| &c.traffic);
        if let Some(name) = quantity.traffic.iter().find(|t| !traffics().any(|x| x.name == **t)) {
            return Err(fail(format!("the scenario has no traffic \"{name}\"")));
        }
        let mut phases = cells.iter().flat_map(|c| &c.phases);
        if let Some(phase) = quantity.phase.as_ref().filter(|p| !phases.any(|x| x.name == **p)) {
            return Err(fail(format!("the scenario has no phase \"{phase}\"")));
        }
        if let Some(bundle) = &quantity.bundle {
            let has = |(c, a): (&Scenario, &Arm)| a.name == arm && c.bundles(a).contains(bundle);
            if !cells.iter().flat_map(|c| c.arms.iter().map(move |a| (c, a))).any(has) {
                return Err(fail(format!("arm \"{arm}\" has no bundle \"{bundle}\"")));
            }
        }
        let only = table.cells.into_iter().map(|(axis, values)| (axis, values.list())).collect();
        let over = table.over.unwrap_or_default();
        let selection = Selection { arm, cells: only, quantity, over };
        if !cells.iter().any(|cell| selection.takes(cell)) {
            return Err(fail("the scenario's grid has no such cell".to_owned()));
        }
        Ok(selection)
    }

    fn picture(&self, table: Spanned<picture::Table>) -> Result<Wanted, ConfigError> {
        let fail = |what: String| self.source.error_at(table.span(), "picture", what);
        let own = table.get_ref();
        let arms = || self.claim.experiment.cells.iter().flat_map(|c| &c.arms);
        if let Some(strong) = own.strong.as_ref().filter(|s| !arms().any(|a| a.name == **s)) {
            return Err(fail(format!("the scenario has no arm \"{strong}\"")));
        }
        let traffics = || self.claim.experiment.cells.iter().flat_map(|c| &c.traffic);
        if let Some(line) = own.lines.iter().flatten().find(|l| !traffics().any(|t| t.name == **l))
        {
            return Err(fail(format!("the scenario has no traffic \"{line}\"")));
        }
        let of = SelectionTable {
            arm: None,
            measure: own.measure,
            at: own.at.clone(),
            traffic: own.traffic.clone().map(OneOrMany::One),
            phase: None,
            size: own.size,
            mode: None,
            bundle: None,
            cells: BTreeMap::new(),
            over: None,
        };
        if own.measure.is_some_and(Measure::is_comparison) {
            return Err(fail("there is no picture of a comparison".to_owned()));
        }
        let of = own.measure.map(|_| quantity(&of)).transpose().map_err(&fail)?;
        own.wanted(of, &self.claim.experiment).map_err(&fail)
    }
}

/// The quantity that `table` takes from a run.
fn quantity(table: &SelectionTable) -> Result<Quantity, String> {
    let measure = table.measure.ok_or("`measure` is missing")?;
    let at = table.at.as_deref().map(str::parse::<Statistic>).transpose()?;
    match (measure.is_distribution(), at) {
        (true, None) => return Err("`at` is missing: \"mean\", or \"p50\" and so on".to_owned()),
        (false, Some(_)) => return Err("a run has one such figure: remove `at`".to_owned()),
        _ => {}
    }
    if table.size.is_some() && !measure.is_of_requests() {
        return Err("only requests have a `size`".to_owned());
    }
    if table.traffic.is_some() && !measure.is_by_traffic() {
        return Err("this measure has no `traffic`".to_owned());
    }
    if table.mode.is_some() != (measure == Measure::Mode) {
        return Err("`mode` goes with measure = \"mode\", and that with it".to_owned());
    }
    if table.bundle.is_some() && (!measure.is_by_bundle() || table.traffic.is_some()) {
        return Err(
            "`bundle` goes with \"mode\" and \"sendbox_queue\", without `traffic`".to_owned()
        );
    }
    if table.phase.is_some() && measure.is_comparison() {
        return Err("a comparison is of all that is measured: remove `phase`".to_owned());
    }
    Ok(Quantity {
        measure,
        at: at.unwrap_or(Statistic::Mean),
        traffic: table.traffic.clone().map_or(Vec::new(), OneOrMany::list),
        phase: table.phase.clone(),
        size: table.size.unwrap_or_default(),
        mode: table.mode.clone().unwrap_or_default(),
        bundle: table.bundle.clone(),
    })
}
