//! The ages of stored outcomes.

use std::path::Path;

use super::catalogue::Catalogue;
use super::page::Row;
use crate::age::{Ages, NoAges};

/// Counts the ages of the outcomes in `rows`, in the checkout that holds `experiments`.
///
/// Returns `None` outside a checkout.
///
/// # Errors
/// If the list of commits that change no figure is wrong.
pub fn ages(
    catalogue: &Catalogue,
    rows: &[Row<'_>],
    experiments: &Path,
) -> Result<Option<Ages>, NoAges> {
    let results = rows.iter().flat_map(|(claim, outcomes)| {
        let scenario = format!("{}/{}", catalogue.name, claim.scenario);
        outcomes.iter().filter_map(move |outcome| {
            let engine = outcome.engine.as_str();
            let name = format!("{}-{engine}", claim.id);
            Some((name, engine, vec![scenario.clone()], outcome.commit.as_ref()?))
        })
    });
    Ages::count(experiments, results)
}
