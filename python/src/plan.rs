//! The planner of interconnects: a network of a user's files and values, plans and hints for it.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use forebay_config::{ConfigError, RateValue};
use forebay_plan::allocate::{Binning, Method, Wba};
use forebay_plan::hints::{self, Hints};
use forebay_plan::input::{self, MAX_FILE, ProviderFile};
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{self, Config, Scope};
use forebay_plan::{network, vswitch};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::errors::plan_error;

/// The name of a file, and its text.
type Source = (PathBuf, String);

/// A topology, providers and demands that belong together.
#[pyclass(frozen, module = "forebay._native")]
pub(crate) struct Network {
    network: network::Network,
    file: ProviderFile,
}

/// How a plan is computed.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    fairness: String,
    factor: f64,
    steps: u32,
    aggregates: usize,
    paths: usize,
    scope: String,
    sub_flows: Option<u16>,
}

impl Options {
    /// Returns the limit of aggregate flows and the configuration, or what is wrong.
    fn read(&self) -> Result<(usize, Config), &'static str> {
        if !(self.factor > 1.0 && self.factor <= 100.0) {
            return Err("factor: give a number above 1 and up to 100");
        }
        if !(1..=64).contains(&self.steps) {
            return Err("steps: give a number from 1 to 64");
        }
        if self.aggregates == 0 {
            return Err("aggregates: give a number of at least 1");
        }
        if self.sub_flows.is_some_and(|parts| !(1..=64).contains(&parts)) {
            return Err("sub_flows: give a number from 1 to 64, or None");
        }
        let bounds = Wba { factor: self.factor, steps: self.steps };
        let config = Config {
            method: match self.fairness.as_str() {
                "wba" => Method::Wba(bounds),
                "binning" => Method::Binning(Binning { bounds, ..Binning::default() }),
                "none" => Method::Most,
                _ => return Err("fairness: give \"wba\", \"binning\" or \"none\""),
            },
            scope: match self.scope.as_str() {
                "all" => Scope::All,
                "partial" => Scope::Partial,
                "intra" => Scope::Intra,
                _ => return Err("scope: give \"all\", \"partial\" or \"intra\""),
            },
            sub_flows: self.sub_flows,
            paths: NonZeroUsize::new(self.paths).ok_or("paths: give a number of at least 1")?,
        };
        Ok((self.aggregates, config))
    }
}

#[pymethods]
impl Network {
    /// Reads the network. `gravity` is the total rate of a gravity model in the place of `demands`.
    #[new]
    fn new(
        py: Python<'_>,
        topology: Source,
        providers: Source,
        demands: Option<Source>,
        gravity: Option<&str>,
        capacity: Option<&str>,
    ) -> PyResult<Self> {
        let [gravity, capacity] =
            [("gravity", gravity), ("capacity", capacity)].map(|(name, r)| {
                let rate = r.map(|r| r.parse::<RateValue>().map(|rate| rate.0));
                rate.transpose().map_err(|e| PyValueError::new_err(format!("{name}: {e}")))
            });
        let (gravity, capacity) = (gravity?, capacity?);
        let read = || -> Result<Self, ConfigError> {
            let mut topology = input::topology(&topology.0, text(&topology)?)?;
            if let Some(rate) = capacity {
                topology.set_capacities(|_, link| link.capacity.or(Some(rate)));
            }
            let file = input::providers(&providers.0, text(&providers)?, &topology)?;
            let known = |source: &Source| {
                input::demands(&source.0, text(source)?, &file.providers, &topology)
            };
            let modelled = || gravity.map(|total| input::gravity(total, &file, &topology));
            let demands = demands.as_ref().map(known).transpose()?.or_else(modelled);
            let network = network::Network {
                providers: file.providers.clone(),
                demands: demands.unwrap_or_default(),
                avoided: BTreeSet::new(),
                topology,
            };
            Ok(Self { network, file })
        };
        py.detach(read).map_err(|error| plan_error(py, error))
    }

    /// Returns a plan as JSON, the number of aggregate flows, and the number of demands that are
    /// left out since no entry reaches their routers.
    fn solve(&self, py: Python<'_>, options: Options) -> PyResult<(String, usize, usize)> {
        let (limit, config) = options.read().map_err(PyValueError::new_err)?;
        py.detach(|| {
            let map = vswitch::map(&self.network, limit);
            let (core, lost) = map.core(&self.network);
            let report = plan::plan(&core, &mut PathCache::new(config.paths), &config);
            let json = serde_json::to_string(&report.map_err(failed)?).map_err(failed)?;
            Ok((json, map.aggregates, lost))
        })
    }

    /// Returns hints as JSON, and the plan that results if they are followed. `last` has the hints
    /// in force.
    fn hints(
        &self,
        py: Python<'_>,
        prefixes: Source,
        last: Option<Source>,
        options: Options,
        gain: f64,
        release: f64,
    ) -> PyResult<(String, String)> {
        let (limit, plan) = options.read().map_err(PyValueError::new_err)?;
        if !(0.0 <= release && release < gain && gain <= 1.0) {
            let message = "gain and release: give shares with 0 <= release < gain <= 1";
            return Err(PyValueError::new_err(message));
        }
        let read = || -> Result<_, ConfigError> {
            let topology = &self.network.topology;
            let users = input::prefixes(&prefixes.0, text(&prefixes)?, topology)?;
            let read = |source: &Source| hints::read(&source.0, text(source)?);
            Ok((users, last.as_ref().map_or_else(|| Ok(Hints::default()), read)?))
        };
        let (users, last) = py.detach(read).map_err(|error| plan_error(py, error))?;
        py.detach(|| {
            let map = vswitch::map(&self.network, limit);
            let (core, _) = map.core(&self.network);
            let (profiles, asn) = (&self.file.profiles, self.file.asn);
            let setting =
                hints::Setting { network: &core, map: &map, prefixes: &users, profiles, asn };
            let mut paths = PathCache::new(plan.paths);
            let config = hints::Config { plan, gain, release };
            let found = hints::hints(setting, &mut paths, &config, &last).map_err(failed)?;
            let outcome = hints::outcome(setting, &mut paths, &config, &found).map_err(failed)?;
            let hints = serde_json::to_string_pretty(&found).map_err(failed)?;
            Ok((hints, serde_json::to_string(&outcome).map_err(failed)?))
        })
    }
}

/// Reads the text of a file as the planner does: maybe compressed, and of several encodings.
#[pyfunction]
pub(crate) fn read_text(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| forebay_input::text(&path, MAX_FILE)).map_err(|error| plan_error(py, error))
}

/// Returns the text of a source, if it is no longer than the planner reads of a file.
fn text(source: &Source) -> Result<&str, ConfigError> {
    let (name, text) = source;
    match text.len() as u64 <= MAX_FILE.0 {
        true => Ok(text),
        false => Err(ConfigError {
            file: name.clone(),
            line: None,
            key: String::new(),
            message: format!("is longer than {} bytes", MAX_FILE.0),
        }),
    }
}

fn failed(error: impl ToString) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
