//! The native part of the Python package `forebay`: scenarios with settings, runs in the simulator,
//! their records as Arrow tables, and the planner. The Python part, in `package/forebay/`, is what
//! users see.

#![forbid(unsafe_code)]

mod columns;
mod errors;
mod harm;
mod plan;
mod runs;
mod scenario;
mod table;
mod tables;

use pyo3::prelude::*;

/// The native module of the package.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::harm::{harm_cell, harm_cells, harm_write};
    #[pymodule_export]
    use crate::plan::{Network, read_text};
    #[pymodule_export]
    use crate::runs::{Runs, load, run};
    #[pymodule_export]
    use crate::scenario::{describe, grid_errors, parse_axis, parse_setting, set_keys};
    #[pymodule_export]
    use crate::table::Table;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
