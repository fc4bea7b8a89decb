use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use crate::analysis::{Analysis, Summary};
use crate::results::external;
use crate::results::store::{self, StoreError};

/// Loads the summaries at `path`. That is a directory that `forebay lab run --out` wrote or one of
/// its files, the summaries of `--json` (`*.json`), or a result of another tool ([`external`]).
///
/// # Errors
///
/// If it cannot be read or is damaged.
pub fn load(path: &Path) -> Result<Vec<Summary>, StoreError> {
    let ends = |end: &str| path.extension().is_some_and(|e| e == end);
    if ends("json") && begins_with_array(path) {
        return summaries(path);
    }
    if !path.is_dir() && !ends("jsonl") {
        return Ok(external::load(path)?.iter().map(|run| Analysis::of(run).summary).collect());
    }
    let files = if path.is_dir() { store::files(path)? } else { vec![path.to_owned()] };
    // One file at a time, since a run is much larger than its summary.
    files.iter().map(|file| Ok(Analysis::of(&store::load(file)?).summary)).collect()
}

/// Whether the first character of a file of JSON opens an array, as that of summaries does.
fn begins_with_array(path: &Path) -> bool {
    let first = |file: File| {
        BufReader::new(file)
            .bytes()
            .map_while(Result::ok)
            .take(64)
            .find(|byte| !byte.is_ascii_whitespace())
    };
    File::open(path).ok().and_then(first) == Some(b'[')
}

/// Gives the runs of B the cell, arm and seed of the runs of A in the same place, if either has
/// results of another tool: those have no name of a path and an arm to be matched by.
pub fn side_by_side(a: &[Summary], b: &mut [Summary]) {
    let is_external = |run: &Summary| run.labels.contains_key(external::TOOL);
    if !a.iter().chain(b.iter()).any(is_external) {
        return;
    }
    for (a, b) in a.iter().zip(b) {
        (b.rate_mbps, b.base_rtt_ms, b.seed) = (a.rate_mbps, a.base_rtt_ms, a.seed);
        b.arm.clone_from(&a.arm);
        b.labels.clone_from(&a.labels);
    }
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
