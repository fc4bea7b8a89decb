//! Directories and git repositories of tests. The tests of `forebay-claims` include this file, so
//! it uses neither crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of one test, removed at its end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty directory.
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// A new repository with one commit of one file.
    pub(crate) fn repository(name: &str) -> Self {
        let scratch = Self::new(name);
        git(scratch.path(), &["init", "-q"]);
        commit(scratch.path(), "code/a.rs", "one");
        scratch
    }

    /// The directory's path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Commits `text` as the file `name`; the abbreviated commit.
pub(crate) fn commit(dir: &Path, name: &str, text: &str) -> String {
    let file = dir.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    let identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
    let message = ["commit", "-q", "--no-verify", "-m", name];
    git(dir, &["add", "."]);
    git(dir, &[&identity[..], &message[..]].concat());
    git(dir, &["rev-parse", "--short=10", "HEAD"]).trim().to_owned()
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}");
    String::from_utf8(output.stdout).unwrap()
}
