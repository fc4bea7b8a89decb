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
    use forebay_test_support::Dir;
    use forebay_test_support::repository::{self, commit};

    use super::*;

    #[test]
    fn a_run_in_a_checkout_records_its_commit_and_whether_files_differ() {
        let dir = repository::new("provenance");
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
        let dir = Dir::new("no-checkout");
        assert_eq!(Commit::of_checkout(dir.path()), None);
    }
}
