//! Where the kernel's source comes from: Debian's package, installed or fetched.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Interrupt};

/// Debian's package.
const PACKAGE: &str = "linux-source-6.12";
/// What is in it.
const TARBALL: &str = "usr/src/linux-source-6.12.tar.xz";

/// A kernel's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// An archive with one directory, which holds the source.
    pub(super) tarball: PathBuf,
    /// The package's version.
    pub(super) version: String,
}

impl Source {
    /// The package, if it is installed.
    pub(super) fn installed() -> Option<Self> {
        let tarball = Path::new("/").join(TARBALL);
        let length = fs::metadata(&tarball).ok()?.len();
        let version = ask("dpkg-query", &["-W", "-f", "${Version}", PACKAGE], Path::new("/"));
        // Without dpkg somebody put it there by hand; its length tells it from another well enough.
        let version = version.unwrap_or_else(|_| format!("6.12-of-{length}-bytes"));
        Some(Self { tarball, version: safe(&version) })
    }

    /// Fetches the package into `dir`, which takes no root, and unpacks it there.
    ///
    /// # Errors
    /// If there is no apt or no such package, or it was interrupted, which apt is too where that
    /// came from the terminal.
    pub(super) fn fetch(dir: &Path, interrupt: &Interrupt) -> Result<Self, Error> {
        let missing = |e: io::Error| {
            if interrupt.is_raised() {
                return Error::Interrupted;
            }
            Error::Unfit(format!(
                "building the guest's kernel needs Debian's package {PACKAGE}, and it can be \
                 neither found nor fetched ({e}): install it (scripts/setup does), or use another \
                 engine (`--engine sim`, `--engine netns`)"
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

/// A version as part of a file's name.
fn safe(version: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || ".-+~".contains(c) { c } else { '_' };
    version.trim().chars().map(keep).collect()
}

/// What `program` says, run in `dir`.
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

/// The line of `said` that says what failed: what apt calls an error, else the first.
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
    fn of_what_apt_says_the_error_is_told() {
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
