//! The commit that a stored outcome came from.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The commit of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// The abbreviated hash of the commit.
    pub id: String,
    /// How the commit is known.
    pub known_by: KnownBy,
    /// Whether files of the checkout differed from the commit.
    #[serde(default, skip_serializing_if = "is_false")]
    pub modified: bool,
}

/// How the commit of an outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// The program recorded the commit of its checkout when it ran.
    Run,
    /// The commit is the one that stored the outcome, from the git history.
    History,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Commit {
    /// The commit of the checkout that `dir` is in; `None` if it is in none, or there is no git.
    pub fn of_checkout(dir: &Path) -> Option<Self> {
        let id = git(dir, &["rev-parse", "--short=10", "HEAD"])?;
        let status = git(dir, &["status", "--porcelain", "--untracked-files=no"])?;
        // What a run itself stores is no part of what ran.
        let is_result = |line: &str| line.get(3..).is_some_and(|p| p.starts_with("docs/results/"));
        let modified = status.lines().any(|line| !is_result(line));
        Some(Self { id: id.trim().to_owned(), known_by: KnownBy::Run, modified })
    }

    /// The commit in words, for the page.
    pub fn told(&self) -> String {
        let from = match self.known_by {
            KnownBy::Run if self.modified => " with uncommitted changes",
            KnownBy::Run => "",
            KnownBy::History => " (stored by it)",
        };
        format!("commit {}{from}", self.id)
    }
}

/// Runs git in `dir` and returns what it prints; `None` if it fails.
pub fn git(dir: &Path, args: &[&str]) -> Option<String> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let output = Command::new("git").arg("-C").arg(dir).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A directory of one test, removed at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        /// An empty directory.
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }

        /// A new repository with one commit of one file.
        fn repository(name: &str) -> Self {
            let scratch = Self::new(name);
            commands(scratch.path(), &[&["init", "-q"]]);
            commit(scratch.path(), "code/a.rs", "one");
            scratch
        }

        /// The directory's path.
        fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Commits `text` as the file `name`; the abbreviated commit.
    fn commit(dir: &Path, name: &str, text: &str) -> String {
        let file = dir.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let message = ["commit", "-q", "--no-verify", "-m", name];
        commands(dir, &[&["add", "."], &[&identity[..], &message[..]].concat()]);
        git(dir, &["rev-parse", "--short=10", "HEAD"]).unwrap().trim().to_owned()
    }

    fn commands(dir: &Path, all: &[&[&str]]) {
        for args in all {
            assert!(git(dir, args).is_some(), "git {args:?}");
        }
    }

    #[test]
    fn a_run_in_a_checkout_records_its_commit_and_whether_files_differ() {
        let dir = Scratch::repository("provenance");
        let head = commit(dir.path(), "docs/results/x.json", "1");
        let clean = Commit::of_checkout(dir.path()).unwrap();
        assert_eq!((clean.id.as_str(), clean.modified), (head.as_str(), false));
        std::fs::write(dir.path().join("docs/results/x.json"), "2").unwrap();
        assert_eq!(Commit::of_checkout(dir.path()), Some(clean));
        std::fs::write(dir.path().join("code/a.rs"), "2").unwrap();
        let changed = Commit::of_checkout(dir.path()).unwrap();
        assert_eq!(changed.told(), format!("commit {head} with uncommitted changes"));
    }

    #[test]
    fn outside_a_checkout_there_is_no_commit() {
        let dir = Scratch::new("no-checkout");
        assert_eq!(Commit::of_checkout(dir.path()), None);
    }
}
