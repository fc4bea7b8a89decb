//! What a run changed, and how each change is undone: at its end, or by the next run if it was
//! killed.
//!
//! Each change is noted in the run's directory before it is made. The directory is locked while
//! the run lives; the next run undoes the notes of directories that nobody holds.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_guest::LockedDir;
use forebay_lab::netns::{exec, namespace};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::sysctl::Tree;

/// The directory in which runs note what they change. Only root can enter it.
const BASE: &str = "/run/forebay-stack";
/// The file in a run's directory with its notes, one JSON object per line.
const NOTES: &str = "notes";
/// The start of the names of all namespaces that a run makes.
const PREFIX: &str = "fb-";

/// How one change is undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Sets a parameter of the kernel to its earlier value.
    Sysctl {
        /// The parameter's name with dots.
        name: String,
        /// The value before the run.
        before: String,
    },
    /// Removes a network namespace of the run.
    Namespace {
        /// The namespace's name, which starts with `fb-`.
        name: String,
    },
    /// Takes the root queueing discipline off an interface, which gets the kernel's default.
    Qdisc {
        /// The interface's name.
        device: String,
    },
    /// Sets offloads or coalescing of an interface to their earlier values.
    Ethtool {
        /// The option of ethtool: `-K` for offloads, `-C` for coalescing.
        option: String,
        /// The interface's name.
        device: String,
        /// Names and values in turn.
        values: Vec<String>,
    },
}

impl Undo {
    fn perform(&self, tree: &Tree) -> Result<(), Error> {
        match self {
            Self::Sysctl { name, before } => {
                tree.write(name, before).map_err(Error::io(format!("restoring {name} = {before}")))
            }
            // A note is only a file: nothing but an own namespace is ever removed by one.
            Self::Namespace { name } if name.starts_with(PREFIX) => {
                namespace::remove_namespace(name)
            }
            Self::Namespace { .. } => Ok(()),
            Self::Qdisc { device } => {
                exec::run(Command::new("tc").args(["qdisc", "del", "dev", device, "root"]), "")
            }
            Self::Ethtool { option, device, values } => {
                exec::run(Command::new("ethtool").args([option, device]).args(values), "")
            }
        }
    }
}

/// The notes of a run. Everything is undone, the latest change first, when this is dropped.
pub struct Journal {
    dir: LockedDir,
    tree: Tree,
    changes: Vec<Undo>,
}

impl Journal {
    /// Begins the notes of a run, after undoing those of killed runs.
    ///
    /// # Errors
    /// If the directory of notes cannot be made, as without root.
    pub fn begin() -> Result<Self, Error> {
        Self::begin_at(Path::new(BASE), Tree::of_kernel())
    }

    /// Begins the notes of a run in `base` for the parameters of `tree`.
    ///
    /// # Errors
    /// If the directory of notes cannot be made.
    pub fn begin_at(base: &Path, tree: Tree) -> Result<Self, Error> {
        let dir = LockedDir::create(base, |path| reclaim(path, &tree))?;
        Ok(Self { dir, tree, changes: Vec::new() })
    }

    /// The part of this run's names that no other run has.
    pub fn id(&self) -> &str {
        self.dir.id()
    }

    /// The path of this run's file `name`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Notes how a change is undone, before it is made.
    ///
    /// # Errors
    /// If the note cannot be written: then the change must not be made.
    pub fn note(&mut self, undo: Undo) -> Result<(), Error> {
        let path = self.file(NOTES);
        let failed = || Error::io(format!("writing {}", path.display()));
        let line = serde_json::to_string(&undo).map_err(std::io::Error::from).map_err(failed())?;
        let appended = OpenOptions::new().create(true).append(true).open(&path);
        appended.and_then(|mut file| file.write_all((line + "\n").as_bytes())).map_err(failed())?;
        self.changes.push(undo);
        Ok(())
    }

    /// Sets the parameter `name`, which the journal restores.
    ///
    /// # Errors
    /// If there is none, or the kernel refuses the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let Some(before) = self.tree.read(name) else {
            return Err(Error::Unfit(format!("this kernel has no parameter {name}")));
        };
        self.note(Undo::Sysctl { name: name.to_owned(), before })?;
        self.tree.write(name, value).map_err(Error::io(format!("setting {name} = {value}")))
    }

    /// Undoes all changes since the journal had `kept` notes, the latest first.
    pub fn undo_to(&mut self, kept: usize) {
        while self.changes.len() > kept {
            let Some(undo) = self.changes.pop() else { return };
            if let Err(e) = undo.perform(&self.tree) {
                tracing::error!("{e}");
            }
        }
    }

    /// The number of changes that are noted and not undone.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing is changed at present.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.undo_to(0);
    }
}

/// Undoes what a killed run noted. What is undone already, or cannot be, is passed over, since the
/// rest must be undone all the same.
fn reclaim(path: &Path, tree: &Tree) -> Result<(), Error> {
    let notes = fs::read_to_string(path.join(NOTES)).unwrap_or_default();
    let changes: Vec<Undo> =
        notes.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for undo in changes.iter().rev() {
        if let Err(e) = undo.perform(tree) {
            tracing::warn!("{e}");
        }
    }
    fs::remove_dir_all(path).map_err(Error::io(format!("removing {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a fake tree of parameters and a base for journals; removed when dropped.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()));
            fs::create_dir_all(dir.join("sys/net/core")).unwrap();
            fs::write(dir.join("sys/net/core/somaxconn"), "4096\n").unwrap();
            fs::write(dir.join("sys/net/core/mem"), "1\t2\t3\n").unwrap();
            Self(dir)
        }

        fn tree(&self) -> Tree {
            Tree::at(&self.0.join("sys"))
        }

        fn journal(&self) -> Journal {
            Journal::begin_at(&self.0.join("base"), self.tree()).unwrap()
        }

        fn read(&self, name: &str) -> String {
            self.tree().read(name).unwrap()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn parameters_are_restored_at_the_end() {
        let fake = Fake::new("journal");
        let mut journal = fake.journal();
        journal.set("net.core.somaxconn", "65535").unwrap();
        journal.set("net.core.mem", "4 5 6").unwrap();
        // The first value is the one to restore, even if a parameter is set twice.
        journal.set("net.core.somaxconn", "1").unwrap();
        assert_eq!(fake.read("net.core.somaxconn"), "1");
        assert_eq!(fake.read("net.core.mem"), "4 5 6");
        drop(journal);
        assert_eq!(fake.read("net.core.somaxconn"), "4096");
        assert_eq!(fake.read("net.core.mem"), "1 2 3");
    }

    #[test]
    fn a_part_can_be_undone() {
        let fake = Fake::new("part");
        let mut journal = fake.journal();
        journal.set("net.core.somaxconn", "65535").unwrap();
        let kept = journal.len();
        journal.set("net.core.mem", "4 5 6").unwrap();
        journal.undo_to(kept);
        assert_eq!(fake.read("net.core.somaxconn"), "65535");
        assert_eq!(fake.read("net.core.mem"), "1 2 3");
    }

    #[test]
    fn a_panic_restores_too() {
        let fake = Fake::new("panic");
        let mut journal = fake.journal();
        let thread = std::thread::spawn(move || {
            journal.set("net.core.somaxconn", "65535").unwrap();
            panic!("as a test");
        });
        assert!(thread.join().is_err());
        assert_eq!(fake.read("net.core.somaxconn"), "4096");
    }

    #[test]
    fn the_next_run_restores_what_a_killed_one_changed() {
        let fake = Fake::new("killed");
        // What a killed run leaves: a lock that nobody holds, its notes and its changes, the last
        // of which was noted and not made any more.
        let mut journal = fake.journal();
        journal.set("net.core.somaxconn", "65535").unwrap();
        journal.set("net.core.mem", "4 5 6").unwrap();
        let left = fake.0.join("base/dead0");
        fs::create_dir(&left).unwrap();
        for file in ["lock", NOTES] {
            fs::copy(journal.file(file), left.join(file)).unwrap();
        }
        drop(journal);
        fake.tree().write("net.core.somaxconn", "65535").unwrap();
        drop(fake.journal());
        assert_eq!(fake.read("net.core.somaxconn"), "4096");
        assert!(!left.exists());
    }

    #[test]
    fn an_unknown_parameter_is_refused_and_not_made() {
        let fake = Fake::new("unknown");
        let error = fake.journal().set("net.core.none", "1").unwrap_err().to_string();
        assert_eq!(error, "this kernel has no parameter net.core.none");
        assert!(fake.tree().read("net.core.none").is_none());
    }

    #[test]
    fn a_note_never_removes_a_namespace_of_others() {
        let fake = Fake::new("others");
        let undo = Undo::Namespace { name: "customer".to_owned() };
        // It would fail, since there is none, if it were tried.
        assert!(undo.perform(&fake.tree()).is_ok());
    }
}
