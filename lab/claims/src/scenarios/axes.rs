//! The axes on which the cells of an experiment differ.

use std::collections::BTreeMap;

use forebay_lab::scenario::Scenario;

/// The values of a cell on each axis: the path's rate and round trip, and the axes of the grid.
pub(super) fn axes(cell: &Scenario) -> BTreeMap<String, String> {
    let mut axes = cell.labels.clone();
    axes.insert("rate".to_owned(), format!("{} Mbit/s", cell.path.rate.as_mbps_f64()));
    axes.insert("rtt".to_owned(), format!("{} ms", cell.path.rtt.as_millis_f64()));
    axes
}
