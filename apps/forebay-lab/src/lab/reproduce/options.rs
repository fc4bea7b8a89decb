//! Options that mean the same for all evaluations.

use std::path::{Path, PathBuf};

use forebay_claims::age::{Ages, NoAges};
use forebay_outcome::Store;

use super::super::Failure;
use crate::cli::{Engine, ReproduceArgs};

/// The file of the page: `usual` if none is given.
pub(super) fn page(args: &ReproduceArgs, usual: &Path) -> Result<PathBuf, Failure> {
    let page = args.out.clone().unwrap_or_else(|| usual.to_owned());
    if page.extension().is_none_or(|e| e != "md") {
        return Err(format!("{}: the name of the page must end in .md", page.display()).into());
    }
    Ok(page)
}

/// The engines to run on: the simulator if none is given.
pub(super) fn engines(args: &ReproduceArgs) -> &[Engine] {
    match &args.engines[..] {
        [] if args.page => &[],
        [] => &[Engine::Sim],
        given => given,
    }
}

/// The ages of the stored results: those that were just counted, which are stored, or those that
/// were stored before if this is no checkout.
pub(super) fn ages(counted: Result<Option<Ages>, NoAges>, store: &Store) -> Result<Ages, Failure> {
    match counted? {
        Some(ages) => {
            ages.save(store.dir())?;
            Ok(ages)
        }
        None => Ok(Ages::load(store.dir())?),
    }
}
