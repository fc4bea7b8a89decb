//! Errors of the laboratory and of the planner as Python exceptions, which
//! `package/forebay/_errors.py` defines.

use forebay_config::ConfigError;
use forebay_lab::engine::EngineError;
use pyo3::prelude::*;
use pyo3::types::PyAny;

/// A mistake in a file as the arguments of `ScenarioError` or `PlanError`: file, line, key and
/// message.
pub(crate) type Mistake = (String, Option<usize>, String, String);

pub(crate) fn mistake(error: ConfigError) -> Mistake {
    (error.file.display().to_string(), error.line, error.key, error.message)
}

/// Makes a `ScenarioError`.
pub(crate) fn scenario_error(py: Python<'_>, error: ConfigError) -> PyErr {
    let class = |py| errors(py)?.getattr("ScenarioError")?.call1(mistake(error));
    class(py).map_or_else(|e| e, PyErr::from_value)
}

/// Makes a `PlanError`.
pub(crate) fn plan_error(py: Python<'_>, error: ConfigError) -> PyErr {
    let class = |py| errors(py)?.getattr("PlanError")?.call1(mistake(error));
    class(py).map_or_else(|e| e, PyErr::from_value)
}

/// Makes a `RunError`, or what Python makes of Ctrl-C.
pub(crate) fn run_error(py: Python<'_>, error: &EngineError) -> PyErr {
    let class = |py| errors(py)?.getattr("RunError")?.call1((error.to_string(),));
    class(py).map_or_else(|e| e, PyErr::from_value)
}

fn errors(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    Ok(py.import("forebay._errors")?.into_any())
}
