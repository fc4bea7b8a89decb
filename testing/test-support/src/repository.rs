//! Git repositories of a test's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Dir;

/// Makes a repository with one commit of one file.
///
/// # Panics
/// If git fails.
pub fn new(name: &str) -> Dir {
    let dir = Dir::new(name);
    git(dir.path(), &["init", "-q"]);
    commit(dir.path(), "code/a.rs", "one");
    dir
}

/// Commits `text` as the file `name`, and returns the abbreviated commit.
///
/// # Panics
/// If the file cannot be written or git fails.
pub fn commit(dir: &Path, name: &str, text: &str) -> String {
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
