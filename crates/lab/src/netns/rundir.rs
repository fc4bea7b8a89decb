use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_dataplane::clock;

use super::exec;
use super::network::remove_namespace;
use crate::engine::EngineError;

/// Where runs note what they set up.
const BASE: &str = "/run/forebay";
/// In a run's directory: held while the run lives.
const LOCK: &str = "lock";
/// In a run's directory: the names of its namespaces, one a line.
const NAMESPACES: &str = "namespaces";
/// In a run's directory: its processes, a line each of id and start time.
const PROCESSES: &str = "processes";

/// A run's directory: its files, and notes of what is to be removed. Gone when dropped.
pub(super) struct RunDir {
    id: String,
    path: PathBuf,
    /// Locked until it is closed, which the kernel does even for a killed process.
    _lock: File,
}

impl RunDir {
    /// Makes a directory for a new run, after removing what dead runs left behind.
    pub(super) fn create() -> Result<Self, EngineError> {
        let base = Path::new(BASE);
        fs::create_dir_all(base).map_err(EngineError::io(format!("creating {BASE}")))?;
        // One at a time, so that nobody takes a directory for dead before its lock is held.
        let _turn = lock(&base.join("lock"), true)?;
        reclaim(base);
        // Short, for its names must be short; the clock makes them differ, the directory unique.
        let mut number = clock::now().0 / 1_000;
        let (id, path) = loop {
            let id = format!("{:05x}", number & 0xf_ffff);
            let path = base.join(&id);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break (id, path),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(EngineError::io(format!("creating {}", path.display()))(e)),
            }
        };
        let mut lock = lock(&path.join(LOCK), false)?
            .ok_or_else(|| EngineError::Unfit(format!("{} is locked", path.display())))?;
        // For people who wonder whose it is.
        writeln!(lock, "{}", std::process::id())
            .map_err(EngineError::io(format!("writing {}", path.display())))?;
        Ok(Self { id, path, _lock: lock })
    }

    /// What tells this run's names from others'.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// A file of this run.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Notes that these namespaces are this run's.
    ///
    /// # Errors
    /// If one is there already: then it is not this run's.
    pub(super) fn note_namespaces(&self, names: &[String]) -> Result<(), EngineError> {
        if let Some(name) = names.iter().find(|name| exec::namespace_file(name).exists()) {
            return Err(EngineError::Unfit(format!(
                "the network namespace {name} exists and is not ours: remove it with \
                 `ip netns delete {name}` if nobody needs it"
            )));
        }
        self.note(NAMESPACES, &(names.join("\n") + "\n"))
    }

    /// Notes that the process `pid` is this run's.
    pub(super) fn note_process(&self, pid: u32) -> Result<(), EngineError> {
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

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.path) {
            tracing::error!("removing {}: {e}", self.path.display());
        }
    }
}

/// Takes the lock `path`, creating it if need be; `None` if it is held and one is not to `wait`.
fn lock(path: &Path, wait: bool) -> Result<Option<File>, EngineError> {
    let failed = |e| EngineError::io(format!("locking {}", path.display()))(e);
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    let how = if wait { libc::LOCK_EX } else { libc::LOCK_EX | libc::LOCK_NB };
    // SAFETY: takes a descriptor, which is open, and an integer.
    if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
        return Ok(Some(file));
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        e => Err(failed(e)),
    }
}

/// Removes what dead runs noted, and nothing else. What cannot be removed is logged and left for
/// the next time.
fn reclaim(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| p.is_dir()) {
        let dead = lock(&path.join(LOCK), false);
        if !matches!(dead, Ok(Some(_))) {
            continue;
        }
        tracing::info!("removing what a dead run left: {}", path.display());
        if let Err(e) = reclaim_run(&path) {
            tracing::warn!("{e}");
        }
    }
}

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

/// Kills the process that was noted, if it still is that one and still in one of `namespaces`.
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

/// When the process `pid` started, in clock ticks since boot (field 22 of proc_pid_stat(5)); `None`
/// if there is none. With the id it names a process for good, as ids are used again.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the command in parentheses, may hold blanks and parentheses itself.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_by_its_start() {
        let own = start_time(std::process::id()).unwrap();
        assert!(own > 0);
        assert_eq!(start_time(std::process::id()), Some(own));
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn a_lock_is_held_until_closed() {
        let path = std::env::temp_dir().join(format!("fb-lock-{}", std::process::id()));
        let held = lock(&path, false).unwrap();
        assert!(held.is_some());
        assert!(lock(&path, false).unwrap().is_none());
        drop(held);
        assert!(lock(&path, false).unwrap().is_some());
        fs::remove_file(&path).unwrap();
    }
}
