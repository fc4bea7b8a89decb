//! The kernel's source: Debian's package, installed or downloaded.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Interrupt};

/// The name of Debian's package.
const PACKAGE: &str = "linux-source-6.12";
/// The path of the tarball in it.
const TARBALL: &str = "usr/src/linux-source-6.12.tar.xz";

/// The source of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The path of an archive with one directory that contains the source.
    pub(super) tarball: PathBuf,
    /// The version of the package.
    pub(super) version: String,
}

impl Source {
    /// Returns the installed package, if there is one.
    pub(super) fn installed() -> Option<Self> {
        let tarball = Path::new("/").join(TARBALL);
        let length = fs::metadata(&tarball).ok()?.len();
        let version = ask("dpkg-query", &["-W", "-f", "${Version}", PACKAGE], Path::new("/"));
        // Without dpkg it was copied by hand; its length identifies it well enough.
        let version = version.unwrap_or_else(|_| format!("6.12-of-{length}-bytes"));
        Some(Self { tarball, version: safe(&version) })
    }

    /// Downloads the package into `dir` and unpacks it there, which needs no root.
    ///
    /// # Errors
    ///
    /// If there is no apt or no such package, or on an interrupt, which a terminal also sends to
    /// apt.
    pub(super) fn fetch(dir: &Path, interrupt: &Interrupt) -> Result<Self, Error> {
        let missing = |e: io::Error| {
            if interrupt.is_raised() {
                return Error::Interrupted;
            }
            Error::Unfit(format!(
                "building the guest's kernel needs Debian's package {PACKAGE}, and it can be \
                 neither found nor fetched ({e}): install it (scripts/setup uml does), or use \
                 another engine (`--engine sim`, `--engine netns`)"
            ))
        };
        ask("apt-get", &["download", "-qq", PACKAGE], dir).map_err(missing)?;
        let mut entries = fs::read_dir(dir).map_err(missing)?.filter_map(Result::ok);
        let package = entries
            .find(|entry| entry.file_name().to_string_lossy().ends_with(".deb"))
            .ok_or_else(|| missing(io::Error::other("apt-get fetched nothing")))?
            .path();
        let name = package.to_string_lossy().into_owned();
        let version = ask("dpkg-deb", &["-f", &name, "Version"], dir).map_err(missing)?;
        ask("dpkg-deb", &["-x", &name, "package"], dir).map_err(missing)?;
        let tarball = dir.join("package").join(TARBALL);
        Ok(Self { tarball, version: safe(&version) })
    }
}

/// Converts a version to a part of a file name.
fn safe(version: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || ".-+~".contains(c) { c } else { '_' };
    version.trim().chars().map(keep).collect()
}

/// Runs `program` in `dir` and returns its output.
fn ask(program: &str, arguments: &[&str], dir: &Path) -> io::Result<String> {
    let output =
        Command::new(program).args(arguments).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.map_err(|e| io::Error::new(e.kind(), format!("{program}: {e}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(complaint(&said).unwrap_or(program).to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The line of `said` that names the failure: apt's error, or the first line.
fn complaint(said: &str) -> Option<&str> {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    said.lines().find_map(|line| line.strip_prefix("E: ")).or_else(|| lines.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_make_file_names() {
        assert_eq!(safe("6.12.117-1~deb12u1\n"), "6.12.117-1~deb12u1");
        assert_eq!(safe("1:6/../x"), "1_6_.._x");
    }

    #[test]
    fn the_error_is_selected_from_apts_output() {
        let said = "W: unsandboxed\nE: Unable to locate package linux-source-6.12\nE: more\n";
        assert_eq!(complaint(said), Some("Unable to locate package linux-source-6.12"));
        assert_eq!(complaint("\nno archive\nx\n"), Some("no archive"));
        assert_eq!(complaint(""), None);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let tmp = std::env::temp_dir();
        assert_eq!(ask("echo", &["a", "b"], &tmp).unwrap(), "a b");
        let failed = ask("sh", &["-c", "echo no >&2; exit 1"], &tmp).unwrap_err();
        assert_eq!(failed.to_string(), "no");
        assert!(ask("no-such-program", &[], &tmp).unwrap_err().to_string().contains("no-such"));
    }
}
