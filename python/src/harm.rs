//! The harm map, a path at a time.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use forebay_harm::{Family, HarmMap, Options, draw};
use forebay_lab::engine::Interrupt;
use forebay_lab::sim_engine::Sim;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Returns the numbers of the paths of a map below `cells`, those of `families` if any are given.
#[pyfunction]
pub(crate) fn harm_cells(seed: u64, cells: u32, families: Vec<String>) -> PyResult<Vec<u32>> {
    let parse = |name: &String| name.parse::<Family>();
    let families: Result<Vec<_>, _> = families.iter().map(parse).collect();
    let families = families.map_err(|e| PyValueError::new_err(e.to_string()))?;
    let wanted = |n: &u32| families.is_empty() || families.contains(&draw(seed, *n).family);
    Ok((0..cells).filter(wanted).collect())
}

/// Runs path `number` of the map with this seed, with so many seeds and, if it looks worse, further
/// seeds. Returns the map of this path alone as JSON. Its scenario is written into the directory
/// `cells`.
#[pyfunction]
pub(crate) fn harm_cell(
    py: Python<'_>,
    seed: u64,
    number: u32,
    seeds: (u32, u32),
    guard: bool,
    cells: PathBuf,
) -> PyResult<String> {
    let ((seeds, confirm), jobs) = (seeds, NonZeroUsize::new(1));
    let options = Options { seed, seeds, confirm, guard, cells, jobs };
    let drawn = vec![draw(seed, number)];
    let made = py.detach(|| forebay_harm::run(&Sim, drawn, &options, &Interrupt::default()));
    let map = made.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    map.json().map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// Joins maps as JSON, and writes `harm.md`, `harm.svg` and `harm.json` into the directory `out`.
/// The page names `command`.
#[pyfunction]
pub(crate) fn harm_write(
    py: Python<'_>,
    parts: Vec<String>,
    out: PathBuf,
    command: &str,
) -> PyResult<()> {
    py.detach(|| {
        let read: Result<Vec<_>, _> = parts.iter().map(|part| HarmMap::from_json(part)).collect();
        let read = read.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let map = HarmMap::joined(read).map_err(|e| PyValueError::new_err(e.to_string()))?;
        map.write(&out, command).map_err(|e| PyOSError::new_err(e.to_string()))?;
        Ok(())
    })
}
