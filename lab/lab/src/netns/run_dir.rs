//! The directory of a run: its files, and notes of what to remove if the run is killed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::exec;
use super::namespace::remove_namespace;
use crate::engine::EngineError;
use forebay_guest::LockedDir;

/// The directory in which runs note what they set up. Only root can enter it.
pub(crate) const BASE: &str = "/run/forebay-lab";
/// The file in a run's directory with the names of its namespaces, one per line.
const NAMESPACES: &str = "namespaces";
/// The file in a run's directory with its processes, one per line: id and start time.
const PROCESSES: &str = "processes";

/// A run's directory with its files and notes of what to remove. Removed when dropped.
pub struct RunDir(LockedDir);

impl RunDir {
    /// Creates a directory for a new run, after removing what killed runs left behind.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create() -> Result<Self, EngineError> {
        LockedDir::create(Path::new(BASE), reclaim_run).map(Self)
    }

    /// The part of this run's names that no other run has.
    pub fn id(&self) -> &str {
        self.0.id()
    }

    /// The path of this run's file `name`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Notes that these namespaces are this run's, so that they are removed if it is killed.
    ///
    /// # Errors
    /// If one exists already: then it is not this run's.
    pub fn note_namespaces(&self, names: &[String]) -> Result<(), EngineError> {
        if let Some(name) = names.iter().find(|name| exec::namespace_file(name).exists()) {
            return Err(EngineError::Unfit(format!(
                "the network namespace {name} exists and is not of this program: remove it with \
                 `ip netns delete {name}` if it is not in use"
            )));
        }
        self.note(NAMESPACES, &(names.join("\n") + "\n"))
    }

    /// Notes that the process `pid` is this run's, so that it is ended if the run is killed.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub fn note_process(&self, pid: u32) -> Result<(), EngineError> {
        let started = start_time(pid).unwrap_or(0);
        self.note(PROCESSES, &format!("{pid} {started}\n"))
    }

    fn note(&self, file: &str, text: &str) -> Result<(), EngineError> {
        let path = self.file(file);
        let appended = OpenOptions::new().create(true).append(true).open(&path);
        appended
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(EngineError::io(format!("writing {}", path.display())))
    }
}

/// Removes what a killed run noted, and nothing else.
fn reclaim_run(path: &Path) -> Result<(), EngineError> {
    let id = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let prefix = format!("fb-{id}-");
    let noted = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
    let namespaces = noted(NAMESPACES);
    let namespaces: Vec<_> = namespaces.lines().filter(|name| name.starts_with(&prefix)).collect();
    for line in noted(PROCESSES).lines() {
        let numbers =
            line.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        if let Some((pid, started)) = numbers {
            kill(pid, started, &namespaces);
        }
    }
    for name in namespaces {
        remove_namespace(name)?;
    }
    fs::remove_dir_all(path).map_err(EngineError::io(format!("removing {}", path.display())))
}

/// Kills a noted process, if it is still the same process and still in one of `namespaces`.
fn kill(pid: u32, started: u64, namespaces: &[&str]) {
    let is_that = || start_time(pid) == Some(started);
    let inode = |file: &Path| fs::metadata(file).map(|m| (m.dev(), m.ino())).ok();
    let at = inode(Path::new(&format!("/proc/{pid}/ns/net")));
    let inside = namespaces.iter().any(|name| {
        let namespace = inode(&exec::namespace_file(name));
        namespace.is_some() && namespace == at
    });
    if !inside || !is_that() {
        return;
    }
    // SAFETY: takes two integers; the process was found to be ours.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
    for _ in 0..100 {
        if !is_that() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The start time of the process `pid` in clock ticks since boot (field 22 of proc_pid_stat(5));
/// `None` if there is no such process. Together with the id it identifies a process, since ids are
/// reused.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the command in parentheses, may contain blanks and parentheses.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_its_start_time() {
        let own = start_time(std::process::id()).unwrap();
        assert!(own > 0);
        assert_eq!(start_time(std::process::id()), Some(own));
        assert_eq!(start_time(u32::MAX), None);
    }
}
