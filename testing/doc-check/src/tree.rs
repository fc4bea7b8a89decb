//! The files of the repository.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// All files that git keeps or would keep, and the directories that hold them.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The top of the repository; nothing is read from it in tests.
    root: PathBuf,
    files: BTreeSet<String>,
    directories: HashSet<String>,
    /// Paths that `.gitignore` names from the top: what the build and the programs write.
    ignored: Vec<String>,
    /// All files by their names.
    by_name: HashMap<String, Vec<String>>,
    /// Contents that stand for files, in tests.
    texts: HashMap<String, String>,
}

impl Tree {
    /// Asks git for the files of the repository that the current directory is in.
    pub(crate) fn load() -> Result<Self, String> {
        let root = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?.trim_end());
        let at = root.to_string_lossy().into_owned();
        let list = ["-C", &at, "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = git(&list)?;
        let files = listed.split('\0').filter(|file| !file.is_empty());
        // Git still lists a file that was deleted and not yet committed.
        let mut tree = Self::from_files(files.filter(|file| root.join(file).exists()));
        let ignored = std::fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let ignored = ignored.lines().filter_map(|line| line.strip_prefix('/'));
        tree.ignored = ignored.map(|path| path.trim_end_matches('/').to_owned()).collect();
        tree.root = root;
        Ok(tree)
    }

    fn from_files<'a>(files: impl IntoIterator<Item = &'a str>) -> Self {
        let mut tree = Self::default();
        for file in files {
            let mut rest = file;
            while let Some((directory, name)) = rest.rsplit_once('/') {
                if rest.len() == file.len() {
                    tree.by_name.entry(name.to_owned()).or_default().push(file.to_owned());
                }
                if !tree.directories.insert(directory.to_owned()) {
                    break;
                }
                rest = directory;
            }
            tree.files.insert(file.to_owned());
        }
        tree
    }

    /// The files in any of the given paths, which are relative to the current directory; all files
    /// if none is given.
    pub(crate) fn choose(&self, only: &[PathBuf]) -> Result<Vec<String>, String> {
        if only.is_empty() {
            return Ok(self.files.iter().cloned().collect());
        }
        let root = self.root.canonicalize().map_err(|e| format!("{}: {e}", self.root.display()))?;
        let mut chosen = BTreeSet::new();
        for path in only {
            let full = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
            let inside = full.strip_prefix(&root);
            let inside =
                inside.map_err(|_| format!("{} is not in this repository", path.display()))?;
            let before = chosen.len();
            let files = self.files.iter().filter(|file| Path::new(file).starts_with(inside));
            chosen.extend(files.cloned());
            if chosen.len() == before {
                return Err(format!("{}: git knows no file there", path.display()));
            }
        }
        Ok(chosen.into_iter().collect())
    }

    /// The text of a file; none if it is not text.
    pub(crate) fn read(&self, path: &str) -> Result<Option<String>, String> {
        if let Some(text) = self.texts.get(path) {
            return Ok(Some(text.clone()));
        }
        let bytes = std::fs::read(self.root.join(path)).map_err(|e| format!("{path}: {e}"))?;
        Ok(String::from_utf8(bytes).ok())
    }

    /// Whether a path names a file or a directory, or something that git ignores on purpose.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty()
            || self.files.contains(path)
            || self.directories.contains(path)
            || self.ignored.iter().any(|dir| Path::new(path).starts_with(dir))
    }

    /// Whether a name is that of a directory at the top of the repository.
    pub(crate) fn is_top(&self, name: &str) -> bool {
        !name.is_empty() && !name.contains('/') && self.directories.contains(name)
    }

    /// Whether some file's path ends with the given one, whole components only.
    pub(crate) fn has_ending(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let files = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        files.iter().any(|file| Path::new(file).ends_with(path))
    }

    /// Whether a page is written by a command: it has a directory of results beside it.
    pub(crate) fn is_generated(&self, path: &str) -> bool {
        path.starts_with("docs/results/")
            && path.strip_suffix(".md").is_some_and(|stem| self.directories.contains(stem))
    }

    /// The page that a file is part of: `docs/results/NAME/notes.md` is put into
    /// `docs/results/NAME.md`, so its links start there. Any other file is its own page.
    pub(crate) fn page_of<'a>(&self, path: &'a str) -> &'a str {
        let directory = path.strip_suffix("/notes.md").filter(|d| d.starts_with("docs/results/"));
        directory.unwrap_or(path)
    }

    /// A tree of files without contents.
    #[cfg(test)]
    pub(crate) fn of(files: &[&str]) -> Self {
        Self::from_files(files.iter().copied())
    }

    /// The same tree with a text for one of its files.
    #[cfg(test)]
    pub(crate) fn with_text(mut self, path: &str, text: &str) -> Self {
        self.texts.insert(path.to_owned(), text.to_owned());
        self
    }
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).output();
    let output = output.map_err(|e| format!("git does not start: {e}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), error.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| "git printed a name that is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_all_directories_above_them_exist() {
        let tree = Tree::of(&["a/b/c.rs", "d.md"]);
        assert!(["a", "a/b", "a/b/", "a/b/c.rs", "d.md"].iter().all(|path| tree.exists(path)));
        assert!(["b", "c.rs", "a/c.rs", "a/b/c"].iter().all(|path| !tree.exists(path)));
        assert!(tree.is_top("a") && !tree.is_top("b") && !tree.is_top("d.md"));
    }

    #[test]
    fn an_ending_is_made_of_whole_components() {
        let tree = Tree::of(&["a/b/c.rs", "a/b/x.rs"]);
        assert!(
            tree.has_ending("b/c.rs") && tree.has_ending("c.rs") && tree.has_ending("a/b/c.rs")
        );
        assert!(!tree.has_ending("ab/c.rs") && !tree.has_ending("b/d.rs"));
    }

    #[test]
    fn a_page_with_results_beside_it_is_generated() {
        let tree = Tree::of(&["docs/results/a.md", "docs/results/a/x.svg", "docs/results/b.md"]);
        assert!(tree.is_generated("docs/results/a.md") && !tree.is_generated("docs/results/b.md"));
        assert!(!tree.is_generated("docs/results/a/x.svg"));
    }

    #[test]
    fn the_repository_itself_can_be_read_and_limited_to_a_path() {
        let tree = Tree::load().expect("git");
        assert!(tree.exists("testing/doc-check/src/tree.rs") && tree.exists("target/debug"));
        let chosen = tree.choose(&[PathBuf::from("src")]).expect("a path of this crate");
        assert!(chosen.contains(&"testing/doc-check/src/tree.rs".to_owned()), "{chosen:?}");
        assert!(chosen.iter().all(|file| file.starts_with("testing/doc-check/src/")));
        assert!(tree.choose(&[PathBuf::from("gone")]).is_err());
    }
}
