//! Options that all evaluations understand alike.

use std::path::{Path, PathBuf};

use super::super::Failure;
use crate::cli::{Engine, ReproduceArgs};

/// The page's file: `usual` if none is given.
pub(super) fn page(args: &ReproduceArgs, usual: &Path) -> Result<PathBuf, Failure> {
    let page = args.out.clone().unwrap_or_else(|| usual.to_owned());
    if page.extension().is_none_or(|e| e != "md") {
        return Err(format!("{}: the page's name must end in .md", page.display()).into());
    }
    Ok(page)
}

/// What to run on.
pub(super) fn engines(args: &ReproduceArgs) -> &[Engine] {
    match &args.engines[..] {
        [] if args.page => &[],
        [] => &[Engine::Sim],
        given => given,
    }
}
