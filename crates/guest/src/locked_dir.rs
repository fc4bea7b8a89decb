//! Directories of runs. Each is locked while its run lives, so that a later run can recognise and
//! remove the directories of killed runs.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Error;

/// The lock file. In a run's directory it is locked while the run lives; in the base, while
/// directories are created and removed.
const LOCK: &str = "lock";

/// The directory of a run. Removed when dropped.
pub struct LockedDir {
    id: String,
    path: PathBuf,
    /// The lock, which the kernel releases on close and also for a killed process.
    _lock: File,
}

impl LockedDir {
    /// Creates a directory for a new run in `base`, after `reclaim` has removed those of killed
    /// runs. A directory that `reclaim` fails to remove is logged and left for the next time.
    ///
    /// # Errors
    ///
    /// If `base` cannot be created or written, or belongs to another user.
    pub fn create(
        base: &Path,
        reclaim: impl Fn(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let failed = |what: &str, path: &Path| Error::io(format!("{what} {}", path.display()));
        fs::create_dir_all(base).map_err(failed("creating", base))?;
        // Another user could rename and replace the directory, whatever its own permissions are.
        let owner = fs::metadata(base).map_err(failed("looking at", base))?.uid();
        // SAFETY: takes nothing and cannot fail.
        if owner != unsafe { libc::geteuid() } {
            let base = base.display();
            return Err(Error::Unfit(format!("{base} belongs to another user: remove it")));
        }
        // One process at a time, so that a directory whose lock is not held yet is not removed.
        let _turn = lock(&base.join(LOCK), true)?;
        reclaim_dead(base, reclaim);
        // The id is short, since names that contain it must be short. The clock makes ids differ,
        // and the directory makes them unique.
        let mut number = since_epoch().as_micros() as u64;
        let (id, path) = loop {
            let id = format!("{:05x}", number & 0xf_ffff);
            let path = base.join(&id);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break (id, path),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(failed("creating", &path)(e)),
            }
        };
        let mut lock = lock(&path.join(LOCK), false)?
            .ok_or_else(|| Error::Unfit(format!("{} is locked", path.display())))?;
        // The process id helps operators to find the owner.
        writeln!(lock, "{}", std::process::id()).map_err(failed("writing", &path))?;
        Ok(Self { id, path, _lock: lock })
    }

    /// The part of this run's names that no other run has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LockedDir {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.path) {
            tracing::error!("removing {}: {e}", self.path.display());
        }
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn reclaim_dead(base: &Path, reclaim: impl Fn(&Path) -> Result<(), Error>) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|p| p.is_dir()) {
        let dead = lock(&path.join(LOCK), false);
        if !matches!(dead, Ok(Some(_))) {
            continue;
        }
        tracing::info!("removing the directory of a killed run: {}", path.display());
        if let Err(e) = reclaim(&path) {
            tracing::warn!("{e}");
        }
    }
}

/// Locks the file `path` and creates it if needed. Returns `None` if it is locked and `wait` is
/// false.
///
/// # Errors
///
/// If the file cannot be opened or locked.
pub fn lock(path: &Path, wait: bool) -> Result<Option<File>, Error> {
    let failed = |e| Error::io(format!("locking {}", path.display()))(e);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn base(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_lock_is_held_until_closed() {
        let path = base("lock");
        let held = lock(&path, false).unwrap();
        assert!(held.is_some());
        assert!(lock(&path, false).unwrap().is_none());
        drop(held);
        assert!(lock(&path, false).unwrap().is_some());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn directories_of_dead_runs_are_removed_and_others_are_not() {
        let base = base("lockdir");
        let remove = |path: &Path| fs::remove_dir_all(path).map_err(Error::io("removing"));
        let living = LockedDir::create(&base, remove).unwrap();
        let dead = base.join("dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK), "1\n").unwrap();
        let second = LockedDir::create(&base, remove).unwrap();
        assert!(living.path().exists() && second.path().exists() && !dead.exists());
        assert_ne!(living.id(), second.id());
        drop((living, second));
        assert_eq!(fs::read_dir(&base).unwrap().count(), 1, "the base's own lock");
        fs::remove_dir_all(&base).unwrap();
    }
}
