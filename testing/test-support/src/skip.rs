//! Reports tests that this machine cannot run.
//!
//! A test that needs root, a kernel or daemons calls [`has_root`] or [`skip`] and returns. The test
//! harness counts it as passed and hides what it prints, so each skip also becomes a line of the
//! file that the environment variable [`FILE`] names. `make test` sets that variable, and
//! `scripts/skipped` adds the lines up.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::panic::Location;
use std::path::Path;

/// Names the environment variable with the file that skips are appended to.
pub const FILE: &str = "FOREBAY_SKIPPED";

/// A thing that a test needs and this machine or this run lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rights of root, for namespaces, devices and BPF programs.
    Root,
    /// A user mode kernel, which is built from a Linux source tree, or a feature of the running
    /// kernel.
    Kernel,
    /// The kernels with and without the zD patches, which `make test-kernel` builds.
    ZdKernels,
    /// BGP daemons, which `make test-bgp` installs.
    BgpDaemons,
    /// A program that is not installed.
    Program,
    /// Files that are no part of the repository.
    Files,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::Kernel => "a kernel",
            Self::ZdKernels => "the zD kernels (make test-kernel)",
            Self::BgpDaemons => "BGP daemons (make test-bgp)",
            Self::Program => "a program",
            Self::Files => "files beside the repository",
        })
    }
}

/// Whether this process runs as root. If not, reports a skip of the test that calls it.
#[track_caller]
pub fn has_root() -> bool {
    let root = is_root();
    if !root {
        skip(Need::Root, "run it as root, as `make test` does");
    }
    root
}

/// Whether this process runs as root; reports nothing.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0)
}

/// Reports a skip of the test that calls it, and why.
#[track_caller]
pub fn skip(need: Need, why: &str) {
    let at = Location::caller();
    skip_named(&format!("{}:{}", at.file(), at.line()), need, why);
}

/// Reports a skip of the named test, and why: for programs that run several tests themselves.
///
/// # Panics
/// If the file of skips cannot be written: the count would be wrong.
pub fn skip_named(test: &str, need: Need, why: &str) {
    println!("skipped: {test} needs {need}: {why}");
    let Some(file) = std::env::var_os(FILE).filter(|file| !file.is_empty()) else { return };
    if let Err(e) = append(Path::new(&file), test, need, why) {
        panic!("cannot write {}, which {FILE} names: {e}", Path::new(&file).display());
    }
}

/// Appends one line: what is needed, the test and the reason, with tabs between them. The line is
/// written at once, since several tests may do so.
fn append(file: &Path, test: &str, need: Need, why: &str) -> io::Result<()> {
    let why = why.replace(['\n', '\t'], " ");
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(format!("{need}\t{test}\t{why}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_one_line_each() {
        let file = std::env::temp_dir().join(format!("fb-skip-{}", std::process::id()));
        append(&file, "a/b.rs:3", Need::Root, "one\ntwo").unwrap();
        append(&file, "c", Need::BgpDaemons, "three").unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(text, "root\ta/b.rs:3\tone two\nBGP daemons (make test-bgp)\tc\tthree\n");
    }
}
