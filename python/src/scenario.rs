//! The text of a scenario: settings of its keys, what it contains, and checks of grids.

use std::path::Path;

use forebay_config::{Edited, Setting};
use forebay_lab::scenario::{self, Points};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{Mistake, mistake, scenario_error};

/// A key and its value as TOML.
pub(crate) type Pair = (String, String);

/// The name, title, arms, seeds, number of cells and names of traffics of an experiment.
type Description = (String, String, Vec<String>, Vec<u64>, usize, Vec<String>);

/// Makes settings of pairs.
pub(crate) fn settings(pairs: &[Pair]) -> PyResult<Vec<Setting>> {
    let setting = |(key, value): &Pair| Setting::new(key, value);
    let settings: Result<_, _> = pairs.iter().map(setting).collect();
    settings.map_err(|e| PyValueError::new_err(e.to_string()))
}

/// Splits `KEY=VALUE,VALUE` of a command line into the key and its values as TOML.
#[pyfunction]
pub(crate) fn parse_axis(text: &str) -> PyResult<Vec<Pair>> {
    let settings = Setting::parse_all(text).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(settings.iter().map(|s| (s.key().to_owned(), s.value().to_owned())).collect())
}

/// Splits `KEY=VALUE` of a command line into the key and its value as TOML.
#[pyfunction]
pub(crate) fn parse_setting(text: &str) -> PyResult<Pair> {
    let setting = Setting::parse(text).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok((setting.key().to_owned(), setting.value().to_owned()))
}

/// Returns `text` with `pairs` set.
#[pyfunction]
pub(crate) fn set_keys(
    py: Python<'_>,
    file: &str,
    text: &str,
    pairs: Vec<Pair>,
) -> PyResult<String> {
    let edited = Edited::new(Path::new(file), text, &settings(&pairs)?);
    edited.map(|edited| edited.text().to_owned()).map_err(|e| scenario_error(py, e))
}

/// Describes the experiment `text` with `pairs` set.
#[pyfunction]
pub(crate) fn describe(
    py: Python<'_>,
    file: &str,
    text: &str,
    pairs: Vec<Pair>,
) -> PyResult<Description> {
    let points = Points::new(Path::new(file), text, settings(&pairs)?, Vec::new());
    let experiment = points.experiment(&[]).map_err(|e| scenario_error(py, e))?;
    let scenario::Experiment { name, title, seeds, cells } = experiment;
    let arms = cells.first().map(|cell| &cell.arms).into_iter().flatten();
    let arms = arms.map(|arm| arm.name.clone()).collect();
    let traffics = cells.first().map(|cell| &cell.traffic).into_iter().flatten();
    let traffics = traffics.map(|traffic| traffic.name.clone()).collect();
    Ok((name, title, arms, seeds, cells.len(), traffics))
}

/// Returns everything that is wrong with the points of a grid: at most
/// [`scenario::MAX_ERRORS`] mistakes. Each axis is a list of values, and each value the pairs that
/// are set together. `checked` is called with the number of points checked so far.
#[pyfunction]
pub(crate) fn grid_errors(
    py: Python<'_>,
    file: &str,
    text: &str,
    pairs: Vec<Pair>,
    axes: Vec<Vec<Vec<Pair>>>,
    checked: Option<Py<PyAny>>,
) -> PyResult<Vec<Mistake>> {
    let axis = |axis: &Vec<Vec<Pair>>| axis.iter().map(|value| settings(value)).collect();
    let axes = axes.iter().map(axis).collect::<PyResult<_>>()?;
    let points = Points::new(Path::new(file), text, settings(&pairs)?, axes);
    let mut raised = None;
    let errors = py.detach(|| {
        points.errors(|count| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                checked.as_ref().map_or(Ok(()), |f| f.call1(py, (count,)).map(drop))
            });
            raised = told.err();
            raised.is_none()
        })
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(errors.into_iter().map(mistake).collect()),
    }
}
