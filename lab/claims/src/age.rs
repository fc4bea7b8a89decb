//! What was committed since a stored result, to the code and the scenario that decide it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forebay_outcome::{Commit, Store, StoreError, git};
use serde::{Deserialize, Serialize};

/// Directories and files whose code decides a simulated figure. Those in `crates` are only in the
/// history, as is [`MOVED`].
const SIMULATED: &[&str] = &[
    "core/units/src",
    "base/config/src",
    "core/queue/src",
    "core/control/src",
    "boxes/discipline/src",
    "lab/sim/src",
    "lab/lab/src/sim_engine",
    "lab/lab/src/sim_engine.rs",
    "lab/lab/src/scenario",
    "lab/lab/src/workload",
    "lab/lab/src/analysis",
    "lab/claims/src/scenarios",
    "lab/claims/src/rows",
    "crates/claims/src/zd",
    "crates/lab/src/reproduce",
    "crates/lab/src/zd",
];
/// The code that decides a figure on real Linux besides.
const REAL: &[&str] = &[
    "bpf",
    "kernel",
    "boxes/box/src",
    "boxes/dataplane/src",
    "lab/guest/src",
    "lab/lab/src",
    "boxes/records/src",
    "base/system/src",
    "boxes/tc/src",
    "core/wire/src",
];
/// The code that decides a figure of a virtual machine's back end besides.
const BACK_END: &[&str] = &["tools/vhost/src", "crates/vhost/benches", "testing/vhost-guests/src"];
/// The code that decides a figure of this machine's network stack.
const STACK: &[&str] =
    &["lab/claims/src/rows", "lab/lab/src/netns", "lab/stack/src", "base/system/src"];
/// The code that decides a figure of the planner.
const PLANNED: &[&str] = &["planner/plan/src", "planner/study/src", MOVED];
/// An earlier place of the study of the planner.
const MOVED: &str = "lab/claims/src/unison";

/// Returns where the code of `path` was when all crates were side by side in `crates`.
fn earlier_place(path: &str) -> Option<String> {
    path.split_once('/').map(|(_, below)| format!("crates/{below}"))
}

/// The code that decides the figures of `engine`: `sim`, `uml`, `netns` and so on, or `plan`.
fn code(engine: &str) -> Vec<&'static str> {
    match engine {
        "sim" => SIMULATED.to_vec(),
        "plan" => PLANNED.to_vec(),
        "stack" => STACK.to_vec(),
        "vhost" => [SIMULATED, REAL, BACK_END].concat(),
        _ => [SIMULATED, REAL].concat(),
    }
}

/// What was committed since a result to what decides it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Age {
    /// The number of commits.
    pub commits: usize,
    /// The last of them, abbreviated; empty if there is none.
    pub last: String,
    /// The day of that commit.
    pub day: String,
}

impl Age {
    /// The age in words, for the page; empty if nothing was committed since.
    pub fn told(&self) -> String {
        match self.commits {
            0 => String::new(),
            1 => format!(" One commit since then, {} of {}.", self.last, self.day),
            n => format!(" {n} commits since then, the last {} of {}.", self.last, self.day),
        }
    }
}

/// The ages of all stored results of a page, by result, such as `fig9-sim`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ages {
    /// The commit that the ages were counted at.
    pub at: String,
    /// Commits that are not counted since they change no figure.
    #[serde(default)]
    pub unchanged: Vec<Unchanged>,
    /// The age of each result.
    pub results: BTreeMap<String, Age>,
}

/// A range of commits that are known to change no figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unchanged {
    /// The commit before the first of the range.
    pub after: String,
    /// The last commit of the range.
    pub until: String,
    /// What shows that no figure changed.
    pub why: String,
}

/// The file `unchanged.toml` in the directory `experiments`, if there is one.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnchangedFile {
    #[serde(default)]
    commits: Vec<Unchanged>,
}

/// Ages that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoAges(pub(crate) String);

impl Ages {
    /// The name that ages are stored by, beside a page's results.
    const NAME: &str = "ages";

    /// The ages that are stored in the directory `dir`; empty if none are.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn load(dir: &Path) -> Result<Self, NoAges> {
        Store::at(dir).read(Self::NAME).map(Option::unwrap_or_default).map_err(not_stored)
    }

    /// Stores the ages in the directory `dir`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), NoAges> {
        Store::at(dir).write(Self::NAME, self).map_err(not_stored)
    }

    /// Counts the ages in the checkout that `experiments` is in, where `unchanged.toml` may name
    /// ranges of commits that change no figure. Each result has a name, an engine, the files of its
    /// experiment below `experiments`, and its commit. `None` outside a checkout.
    ///
    /// # Errors
    /// If `unchanged.toml` is wrong, or names a commit that is not there.
    pub fn count<'a>(
        experiments: &Path,
        results: impl IntoIterator<Item = (String, &'a str, Vec<String>, &'a Commit)>,
    ) -> Result<Option<Self>, NoAges> {
        let Some(root) = git(experiments, &["rev-parse", "--show-toplevel"]) else {
            return Ok(None);
        };
        let root = Path::new(root.trim());
        let Some(at) = git(root, &["rev-parse", "--short=10", "HEAD"]) else { return Ok(None) };
        let unchanged = unchanged(&experiments.join("unchanged.toml"))?;
        let mut skipped = BTreeSet::new();
        for Unchanged { after, until, .. } in &unchanged {
            let range = format!("{after}..{until}");
            let commits = git(root, &["rev-list", &range]).ok_or_else(|| {
                NoAges(format!("unchanged.toml: there are no commits {range} here"))
            })?;
            skipped.extend(commits.lines().map(str::to_owned));
        }
        let prefix = git(experiments, &["rev-parse", "--show-prefix"]).unwrap_or_default();
        let mut ages = BTreeMap::new();
        for (name, engine, files, commit) in results {
            let files = files.iter().map(|file| format!("{}{file}", prefix.trim()));
            let code = code(engine);
            let earlier = code.iter().filter_map(|path| earlier_place(path));
            let paths = code.iter().map(|&path| path.to_owned()).chain(earlier).chain(files);
            if let Some(age) = since(root, &commit.id, paths, &skipped) {
                ages.insert(name, age);
            }
        }
        Ok(Some(Self { at: at.trim().to_owned(), unchanged, results: ages }))
    }

    /// The age of a result in words; empty if nothing was committed since, or it is not known.
    pub fn told(&self, result: &str) -> String {
        self.results.get(result).map(Age::told).unwrap_or_default()
    }

    /// The page's paragraph on ages; empty if none were counted.
    pub fn paragraph(&self) -> String {
        if self.results.is_empty() {
            return String::new();
        }
        let all = self.results.len();
        let old = self.results.values().filter(|age| age.commits > 0).count();
        let mut text = format!(
            "{old} of {all} stored results are older than the last commit that touched the code or \
             the scenario that decides them, as of commit {}. The line below each table says by \
             how many commits.",
            self.at
        );
        for Unchanged { after, until, why } in &self.unchanged {
            text += &format!(" Commits {after} to {until} are not counted: {}", why.trim());
        }
        text
    }
}

/// Describes why ages cannot be read or stored. Damaged ages need no new run: a command that makes
/// the page counts them again.
fn not_stored(error: StoreError) -> NoAges {
    NoAges(match error {
        StoreError::Damaged { path, source } => format!("{}: {source}; remove it", path.display()),
        error @ StoreError::Io { .. } => error.to_string(),
    })
}

fn unchanged(path: &Path) -> Result<Vec<Unchanged>, NoAges> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let (file, _) =
        forebay_config::load::<UnchangedFile>(path).map_err(|e| NoAges(e.to_string()))?;
    Ok(file.commits)
}

/// What was committed after `commit` to `paths`, but for `skipped`; `None` if there is no such
/// commit.
fn since(
    root: &Path,
    commit: &str,
    paths: impl Iterator<Item = String>,
    skipped: &BTreeSet<String>,
) -> Option<Age> {
    let range = format!("{commit}..HEAD");
    let mut args: Vec<String> =
        ["log", "--format=%H %as", &range, "--"].map(str::to_owned).to_vec();
    args.extend(paths);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let log = git(root, &args)?;
    let counted = log.lines().filter_map(|line| line.split_once(' '));
    let counted: Vec<_> = counted.filter(|(commit, _)| !skipped.contains(*commit)).collect();
    let (last, day) = counted.first().copied().unwrap_or_default();
    let last = last.get(..10).unwrap_or_default().to_owned();
    Some(Age { commits: counted.len(), last, day: day.to_owned() })
}

#[cfg(test)]
mod tests {
    use forebay_test_support::Dir;
    use forebay_test_support::repository::{self, commit};

    use super::*;

    fn age(dir: &Path, commit: &Commit) -> Option<Ages> {
        let files = vec!["x/fig.toml".to_owned()];
        let results = [("fig-sim".to_owned(), "sim", files, commit)];
        Ages::count(&dir.join("experiments"), results).unwrap()
    }

    #[test]
    fn only_commits_to_what_decides_a_figure_make_it_older() {
        let repository = repository::new("ages-1");
        let dir = repository.path();
        commit(dir, "experiments/x/fig.toml", "1");
        let ran = Commit::of_checkout(dir).unwrap();
        commit(dir, "docs/a.md", "2");
        let ages = age(dir, &ran).unwrap();
        assert_eq!(ages.told("fig-sim"), "");
        assert!(ages.paragraph().starts_with("0 of 1 stored results are older"));
        commit(dir, "core/queue/src/lib.rs", "3");
        let last = commit(dir, "experiments/x/fig.toml", "4");
        let ages = age(dir, &ran).unwrap();
        let Age { commits, last: found, .. } = &ages.results["fig-sim"];
        assert_eq!((*commits, found), (2, &last));
        assert!(ages.told("fig-sim").starts_with(" 2 commits since then, the last "));
        assert!(ages.paragraph().starts_with("1 of 1 stored results are older"));
    }

    #[test]
    fn commits_that_are_known_to_change_nothing_are_not_counted() {
        let repository = repository::new("ages-2");
        let dir = repository.path();
        let after = commit(dir, "experiments/x/fig.toml", "1");
        let ran = Commit::of_checkout(dir).unwrap();
        let until = commit(dir, "core/queue/src/lib.rs", "2");
        let text = format!(
            "[[commits]]\nafter = \"{after}\"\nuntil = \"{until}\"\nwhy = \"Names only.\"\n"
        );
        commit(dir, "experiments/unchanged.toml", &text);
        let ages = age(dir, &ran).unwrap();
        assert_eq!(ages.results["fig-sim"].commits, 0);
        assert!(ages.paragraph().contains("are not counted: Names only."));
        commit(dir, "experiments/unchanged.toml", &text.replace(&after, "0123abc"));
        let results: [(String, &str, Vec<String>, &Commit); 0] = [];
        let error = Ages::count(&dir.join("experiments"), results).unwrap_err();
        assert!(error.to_string().contains("0123abc"), "{error}");
    }

    #[test]
    fn ages_are_stored_beside_the_results() {
        let dir = Dir::new("ages-stored");
        assert_eq!(Ages::load(dir.path()).unwrap(), Ages::default());
        let one = Age { commits: 1, last: "a".to_owned(), day: "2026-11-22".to_owned() };
        let results = BTreeMap::from([("fig-sim".to_owned(), one)]);
        let ages = Ages { at: "b".to_owned(), unchanged: Vec::new(), results };
        ages.save(dir.path()).unwrap();
        assert_eq!(Ages::load(dir.path()).unwrap(), ages);
        assert_eq!(ages.told("fig-sim"), " One commit since then, a of 2026-11-22.");
        assert_eq!(ages.told("other"), "");
    }

    #[test]
    fn outside_a_checkout_no_ages_are_counted() {
        let dir = Dir::new("ages-outside");
        let results: [(String, &str, Vec<String>, &Commit); 0] = [];
        assert_eq!(Ages::count(dir.path(), results).unwrap(), None);
    }

    #[test]
    fn the_code_that_decides_a_figure_is_in_the_tree() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for engine in ["sim", "uml", "vhost", "stack", "plan"] {
            let there = |path: &&str| root.join(path).exists();
            let gone = code(engine).into_iter().filter(|path| !there(path)).collect::<Vec<_>>();
            assert!(
                gone.iter().all(|&path| path.starts_with("crates/") || path == MOVED),
                "{gone:?}"
            );
        }
    }

    #[test]
    fn the_crates_that_the_laboratory_uses_decide_its_figures() {
        // One opens files, one draws the figures, and one is for tests.
        const EXCEPTIONS: [&str; 3] = ["input", "picture", "test-support"];
        let manifest = include_str!("../../lab/Cargo.toml");
        let names = manifest.lines().filter_map(|line| line.strip_prefix("forebay-"));
        let names = names.filter_map(|line| line.split(['.', ' ', '=']).next());
        let names: Vec<&str> = names.filter(|name| !EXCEPTIONS.contains(name)).collect();
        assert!(names.contains(&"discipline") && names.contains(&"records"), "{names:?}");
        let listed = code("vhost");
        for name in names {
            let source = format!("/{name}/src");
            assert!(listed.iter().any(|path| path.ends_with(&source)), "{source} is in no list");
        }
    }
}
