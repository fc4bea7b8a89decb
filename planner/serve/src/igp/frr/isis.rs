//! The metrics of isisd, as the shell shows them.
//!
//! The state is read as text. The JSON of FRR 8.4.4 has the metric of level 1 at level 2 too, and
//! no neighbours.

use std::collections::BTreeMap;

use forebay_plan::weights::Range;

use super::{Frr, Interface, sections};
use crate::command::CommandError;
use crate::igp::metrics::{Instance, Metric};

const SHOW: &str = "show isis interface detail";

/// Reads the interfaces with IS-IS.
///
/// # Errors
/// If the shell fails, or isisd does not run.
pub(super) fn read(frr: Frr<'_>) -> Result<BTreeMap<String, Interface>, CommandError> {
    let configured = Configured::of(&frr.ask(&["show running-config"])?);
    let text = frr.ask(&[SHOW])?;
    let state = state(&text).map_err(|message| CommandError::Output(frr.name(SHOW), message))?;
    let mut all: BTreeMap<String, Interface> = BTreeMap::new();
    for Shown { name, level, metric: value, neighbours } in state {
        let configured_metric = configured.metrics.get(&(name.clone(), level));
        let range = configured.range(&name);
        let one = all.entry(name).or_insert_with(|| Interface::new(range));
        let configured = configured_metric == Some(&value);
        one.metrics.put(level, Some(Metric { value, configured }));
        one.neighbours = one.neighbours.max(neighbours);
    }
    Ok(all)
}

/// A level of an interface as isisd shows it.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    name: String,
    level: Instance,
    metric: u32,
    /// The neighbours of the level; 0 on a passive interface.
    neighbours: usize,
}

/// Returns the levels of all interfaces in the output of [`SHOW`].
///
/// # Errors
/// In words, if the text is not such an output.
fn state(text: &str) -> Result<Vec<Shown>, String> {
    let is_area = |line: &str| line.starts_with("Area ");
    if !text.lines().any(is_area) {
        return Err(match text.lines().find(|line| !line.trim().is_empty()) {
            None => "no area of IS-IS runs".to_owned(),
            Some(first) => format!("it has no area of IS-IS, but {first:?}"),
        });
    }
    let mut found = Vec::new();
    let (mut name, mut level) = (None, None);
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Interface: ") {
            (name, level) = (rest.split(',').next(), None);
        } else if line == "Level-1 Information:" {
            level = Some(Instance::Level1);
        } else if line == "Level-2 Information:" {
            level = Some(Instance::Level2);
        } else if let (Some(rest), Some(name), Some(level)) =
            (line.strip_prefix("Metric: "), name, level)
        {
            let unknown = || format!("the line {line:?} of {name} is no metric");
            let (metric, rest) = rest.split_once(", ").unwrap_or((rest, ""));
            let neighbours = match rest.strip_prefix("Active neighbors: ") {
                Some(count) => count.parse().map_err(|_| unknown())?,
                None => 0,
            };
            let metric = metric.parse().map_err(|_| unknown())?;
            found.push(Shown { name: name.to_owned(), level, metric, neighbours });
        }
    }
    Ok(found)
}

/// What a running configuration has of IS-IS.
#[derive(Debug, Default, PartialEq, Eq)]
struct Configured {
    /// The metrics by interface and level. FRR leaves out the usual one, which is 10.
    metrics: BTreeMap<(String, Instance), u32>,
    /// The area of each interface.
    areas: BTreeMap<String, String>,
    /// The range of each area that does not have wide metrics alone.
    ranges: BTreeMap<String, Range>,
}

impl Configured {
    fn of(text: &str) -> Self {
        let mut all = Self::default();
        for section in sections(text) {
            match section.header.as_slice() {
                ["interface", name, ..] => {
                    for line in &section.lines {
                        all.take(name, line);
                    }
                }
                ["router", "isis", area, ..] => {
                    let range = section.lines.iter().find_map(|line| match line.as_slice() {
                        ["metric-style", "narrow"] => Some(Range::NARROW),
                        ["metric-style", "transition"] => Some(Range::TRANSITION),
                        _ => None,
                    });
                    all.ranges.extend(range.map(|range| ((*area).to_owned(), range)));
                }
                _ => {}
            }
        }
        all
    }

    /// Takes note of a line of an interface.
    fn take(&mut self, name: &str, line: &[&str]) {
        let (levels, metric): (&[Instance], _) = match line {
            ["ip" | "ipv6", "router", "isis", area, ..] => {
                self.areas.insert(name.to_owned(), (*area).to_owned());
                return;
            }
            ["isis", "metric", "level-1", metric] => (&[Instance::Level1], metric),
            ["isis", "metric", "level-2", metric] => (&[Instance::Level2], metric),
            ["isis", "metric", metric] => (&[Instance::Level1, Instance::Level2], metric),
            _ => return,
        };
        if let Ok(metric) = metric.parse() {
            self.metrics.extend(levels.iter().map(|level| ((name.to_owned(), *level), metric)));
        }
    }

    /// Returns the metrics that the area of an interface takes. Wide ones are FRR's usual.
    fn range(&self, interface: &str) -> Range {
        let area = self.areas.get(interface);
        area.and_then(|area| self.ranges.get(area)).copied().unwrap_or(Range::WIDE)
    }
}

#[cfg(test)]
mod tests;
