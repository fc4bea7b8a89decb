//! Reads networks and demands of SNDlib (<https://sndlib.put.poznan.pl>), in its native format or
//! its XML.
//!
//! An SNDlib network is a planning problem: links have an installed capacity, and modules that can
//! be added. A network for Forebay has the capacity that is installed, or else the largest module.
//! Numbers are in Mbit/s, unless the file has a unit.

mod native;
mod xml;

use std::collections::BTreeSet;
use std::path::Path;

use forebay_config::ConfigError;
use forebay_units::Rate;

use crate::input::demands::Sources;
use crate::input::{MAX_DEMANDS, error, whole_metric, whole_rate};
use crate::network::{Demand, Provider};
use crate::topology::{Draft, DraftEdge, DraftRouter, Fault, MAX_EDGES, MAX_ROUTERS, Topology};

/// The bits per second of a capacity of 1 in files without a unit.
const MEGABIT: f64 = 1e6;

/// A name in a file, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    text: String,
    line: usize,
}

/// A link, with numbers as in the file.
#[derive(Clone, Debug, PartialEq)]
struct SndLink {
    from: Name,
    to: Name,
    /// The capacity that is installed.
    installed: f64,
    /// The cost of a unit of flow, used as metric.
    cost: f64,
    /// The capacity of the largest module, if there are modules.
    module: Option<f64>,
    line: usize,
}

/// A demand, with numbers as in the file.
#[derive(Clone, Debug, PartialEq)]
struct SndDemand {
    from: Name,
    to: Name,
    /// The capacity that a demand of 1 needs.
    routing_unit: f64,
    value: f64,
    line: usize,
}

/// A file of SNDlib.
#[derive(Clone, Debug, PartialEq)]
struct SndFile {
    name: String,
    nodes: Vec<Name>,
    links: Vec<SndLink>,
    demands: Vec<SndDemand>,
    /// The bits per second of a capacity of 1.
    unit: f64,
}

impl SndFile {
    fn new() -> Self {
        let (nodes, links, demands) = (Vec::new(), Vec::new(), Vec::new());
        Self { name: String::new(), nodes, links, demands, unit: MEGABIT }
    }

    fn read(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let read = if native::is_native(text) { native::read(text) } else { xml::read(text) };
        read.map_err(|fault| error(file, Some(fault.line), fault.message))
    }

    /// Takes what the file says of its unit.
    fn set_unit(&mut self, text: &str, line: usize) -> Result<(), Fault> {
        self.unit = match text {
            "BITPERSEC" => 1.0,
            "KBITPERSEC" => 1e3,
            "MBITPERSEC" => MEGABIT,
            "GBITPERSEC" => 1e9,
            other => {
                let message = format!(
                    "the unit {other} is unknown: write BITPERSEC, KBITPERSEC, MBITPERSEC or \
                     GBITPERSEC"
                );
                return Err(Fault { line, message });
            }
        };
        Ok(())
    }

    fn rate(&self, number: f64, line: usize) -> Result<Rate, Fault> {
        whole_rate(number * self.unit).ok_or_else(|| Fault {
            line,
            message: format!("{number} is not a capacity or demand: write 0 to 10^15 bit/s"),
        })
    }

    fn draft(&self) -> Result<Draft, Fault> {
        let router = |node: &Name| DraftRouter {
            id: node.text.clone(),
            label: Some(node.text.clone()),
            line: node.line,
            ..DraftRouter::default()
        };
        let edge = |link: &SndLink| {
            let capacity = match (link.installed, link.module) {
                (0.0, module) => module,
                (installed, _) => Some(installed),
            };
            // A capacity of 0 is that of a link that is still to be built.
            let capacity = capacity.filter(|capacity| *capacity != 0.0);
            let capacity = capacity.map(|number| self.rate(number, link.line)).transpose()?;
            Ok(DraftEdge {
                from: link.from.text.clone(),
                to: link.to.text.clone(),
                capacity,
                metric: metric(link.cost, link.line)?,
                directed: None,
                line: link.line,
            })
        };
        let routers = self.nodes.iter().map(router).collect();
        let edges = self.links.iter().map(edge).collect::<Result<_, _>>()?;
        Ok(Draft { name: self.name.clone(), directed: self.is_directed(), routers, edges })
    }

    /// Whether links have one direction. The formats do not say it, so a file in which each link
    /// has one back is taken as directed.
    fn is_directed(&self) -> bool {
        let links = self.links.iter();
        let all: BTreeSet<_> =
            links.map(|link| (link.from.text.as_str(), link.to.text.as_str())).collect();
        !all.is_empty() && all.iter().all(|&(from, to)| all.contains(&(to, from)))
    }
}

/// Returns a link's metric: its routing cost, as a whole number. Without a cost there is none.
fn metric(cost: f64, line: usize) -> Result<Option<u32>, Fault> {
    if cost == 0.0 {
        return Ok(None);
    }
    let metric = (cost > 0.0).then(|| cost.round().max(1.0)).and_then(whole_metric);
    let message = format!("the routing cost {cost} is not a metric: write 0 to 16777214");
    metric.map(Some).ok_or(Fault { line, message })
}

/// Reads a number that is finite and not negative.
fn number(text: &str, what: &str, line: usize) -> Result<f64, Fault> {
    let number = text.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
    number.ok_or_else(|| Fault {
        line,
        message: format!("{text:?} is not {what}: write a number that is not negative"),
    })
}

/// Whether there is room for one more item.
fn room(items: usize, most: usize, what: &str, line: usize) -> Result<(), Fault> {
    match items < most {
        true => Ok(()),
        false => Err(Fault { line, message: format!("there are more than {most} {what}") }),
    }
}

/// Whether `text` is of SNDlib's native format.
pub(crate) fn is_sndlib_native(text: &str) -> bool {
    native::is_native(text)
}

/// Reads the network in a text of SNDlib.
///
/// Links are in both directions, unless each link has one back. `pre_installed_capacity` is the
/// capacity, or else that of the largest module; the routing cost is the metric.
///
/// # Errors
/// If the text is not of SNDlib, or not a network.
pub fn sndlib(file: &Path, text: &str) -> Result<Topology, ConfigError> {
    let at_line = |fault: Fault| error(file, Some(fault.line), fault.message);
    SndFile::read(file, text)?.draft().and_then(Draft::finish).map_err(at_line)
}

/// Reads the demands in a text of SNDlib. A demand is that of the provider with an entry at its
/// source.
///
/// # Errors
/// If the text is not of SNDlib, a demand names something unknown, or its source is not the entry
/// of one provider.
pub fn demands_sndlib(
    file: &Path,
    text: &str,
    providers: &[Provider],
    topology: &Topology,
) -> Result<Vec<Demand>, ConfigError> {
    let read = SndFile::read(file, text)?;
    let sources = Sources::new(providers, topology);
    let demand = |demand: &SndDemand| {
        let rate = read.rate(demand.routing_unit * demand.value, demand.line)?;
        let fail = |line: usize| move |message: String| Fault { line, message };
        let from = sources.router(&demand.from.text).map_err(fail(demand.from.line))?;
        let to = sources.router(&demand.to.text).map_err(fail(demand.to.line))?;
        sources.demand(from, to, rate).map_err(fail(demand.line))
    };
    let demands = read.demands.iter().map(demand).collect::<Result<_, _>>();
    demands.map_err(|fault| error(file, Some(fault.line), fault.message))
}

#[cfg(test)]
mod tests;
