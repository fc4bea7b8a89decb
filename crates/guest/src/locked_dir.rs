//! Directories of runs: each is locked while its run lives, so that what a killed run left behind
//! can be told from what is in use, and reclaimed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Error;

/// In a run's directory: held while the run lives. In the base: held while directories come and go.
const LOCK: &str = "lock";

/// A run's own directory. Gone when dropped.
pub struct LockedDir {
    id: String,
    path: PathBuf,
    /// Locked until it is closed, which the kernel does even for a killed process.
    _lock: File,
}

impl LockedDir {
    /// Makes a directory of its own for a new run in `base`, after `reclaim` has removed those of
    /// dead runs. A directory that it fails for is logged and left for the next time.
    ///
    /// # Errors
    /// If `base` cannot be made or written, or is another user's.
    pub fn create(
        base: &Path,
        reclaim: impl Fn(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let failed = |what: &str, path: &Path| Error::io(format!("{what} {}", path.display()));
        fs::create_dir_all(base).map_err(failed("creating", base))?;
        // What another user can rename and replace is not ours, whatever the rights inside.
        let owner = fs::metadata(base).map_err(failed("looking at", base))?.uid();
        // SAFETY: takes nothing and cannot fail.
        if owner != unsafe { libc::geteuid() } {
            let base = base.display();
            return Err(Error::Unfit(format!("{base} belongs to another user: remove it")));
        }
        // One at a time, so that nobody takes a directory for dead before its lock is held.
        let _turn = lock(&base.join(LOCK), true)?;
        reclaim_dead(base, reclaim);
        // Short, for names made of it must be short; the clock makes them differ, the directory
        // unique.
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
        // For people who wonder whose it is.
        writeln!(lock, "{}", std::process::id()).map_err(failed("writing", &path))?;
        Ok(Self { id, path, _lock: lock })
    }

    /// What tells this run's names from others'.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The directory.
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
        tracing::info!("removing what a dead run left: {}", path.display());
        if let Err(e) = reclaim(&path) {
            tracing::warn!("{e}");
        }
    }
}

/// Takes the lock `path`, creating it if need be; `None` if it is held and one is not to `wait`.
///
/// # Errors
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
    fn the_dead_are_reclaimed_and_the_living_are_not() {
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
