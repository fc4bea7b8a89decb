//! Checks the comments and the Markdown of this repository; `make lint` runs it.
//!
//! Four mistakes are found: doc comments whose first line is a fragment ([`fragments`]), prose
//! wider than 100 columns ([`columns`]), named paths that do not exist ([`paths`]), and links that
//! lead nowhere ([`links`]). [`tree`] knows the repository's files, [`comments`] finds comments in
//! source text, [`prose`] tells text from code blocks.

#![forbid(unsafe_code)]

mod check;
mod columns;
mod comments;
mod fragments;
mod links;
mod paths;
mod prose;
mod tree;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::tree::Tree;

const HELP: &str = "\
Check one crate:      cargo run -q -p forebay-doc-check -- core/queue
Check everything:     cargo run -q -p forebay-doc-check

Usage: doc-check [PATH]...

Checks the comments and the Markdown of this repository. Each PATH, a file or a directory relative
to the current directory, limits the report to what is in it. Each finding is one line:
FILE:LINE: RULE: what is wrong.

  fragment   The first paragraph of a Rust doc comment starts with a lower-case word, ends with a
             comma, or is shorter than three words. Identifiers and code spans may come first.
  columns    A line of a comment or of Markdown is wider than 100 columns. Link targets and URLs do
             not count. Tables, code blocks, pages that a command writes (docs/results/NAME.md
             where a directory docs/results/NAME exists) and scenario files (stored results
             carry the hash of their text) are left out.
  path       A path of this repository is named and does not exist: a path that starts with a
             top-level directory, anywhere in Markdown or comments; a code span such as
             `tests/common.rs`, which must be the end of some file's path; a code span such as
             `name.rs`. Components in capitals, as in fuzz/seeds/NAME, are placeholders.
  link       A relative link of Markdown names no file, or an anchor that is no heading there.

Exit status: 0 without findings, 1 with findings, 2 if the check could not run.
";

fn main() -> ExitCode {
    let mut only = Vec::new();
    let mut options = true;
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--") if options => options = false,
            Some("-h" | "--help") if options => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            Some(option) if options && option.starts_with('-') => {
                eprintln!("doc-check: unknown option {option}: `doc-check --help` has the usage");
                return ExitCode::from(2);
            }
            _ => only.push(PathBuf::from(argument)),
        }
    }
    match run(&only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("doc-check: {e}");
            ExitCode::from(2)
        }
    }
}

/// Prints all findings in the given paths; whether there were none.
fn run(only: &[PathBuf]) -> Result<bool, String> {
    let tree = Tree::load()?;
    let chosen = tree.choose(only)?;
    let mut findings = Vec::new();
    for path in &chosen {
        if let Some(text) = tree.read(path)? {
            findings.extend(check::file(&tree, path, &text));
        }
    }
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        // A reader such as `head` may have closed the pipe.
        if writeln!(out, "{finding}").is_err() {
            break;
        }
    }
    let count = |rule| findings.iter().filter(|f| f.rule == rule).count();
    eprintln!(
        "doc-check: {} files: {} fragments, {} long lines, {} dead paths, {} dead links",
        chosen.len(),
        count(check::Rule::Fragment),
        count(check::Rule::Columns),
        count(check::Rule::Path),
        count(check::Rule::Link),
    );
    Ok(findings.is_empty())
}
