use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use crate::analysis::{Analysis, Summary};
use crate::results::store::{self, StoreError};

/// Loads the summaries at `path`: a directory that `forebay lab run --out` wrote, one of its files,
/// or a file of summaries that `--json` wrote (`*.json`).
///
/// # Errors
///
/// If it cannot be read or is damaged.
pub fn load(path: &Path) -> Result<Vec<Summary>, StoreError> {
    if path.extension().is_some_and(|e| e == "json") {
        return summaries(path);
    }
    let files = if path.is_dir() { store::files(path)? } else { vec![path.to_owned()] };
    // One file at a time, since a run is much larger than its summary.
    files.iter().map(|file| Ok(Analysis::of(&store::load(file)?).summary)).collect()
}

fn summaries(path: &Path) -> Result<Vec<Summary>, StoreError> {
    let io = |source| StoreError::Io { path: path.to_owned(), source };
    let size = fs::metadata(path).map_err(io)?.len();
    let most = store::MAX_LINE * 256;
    if size > most {
        let problem = format!("{size} bytes are more than the {most} that summaries may take");
        return Err(StoreError::Line { path: path.to_owned(), line: 1, problem });
    }
    serde_json::from_reader(BufReader::new(File::open(path).map_err(io)?)).map_err(|e| {
        let (line, problem) = (e.line() as u64, format!("not summaries of runs: {e}"));
        StoreError::Line { path: path.to_owned(), line, problem }
    })
}
