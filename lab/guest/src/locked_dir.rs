//! Directories of runs. Each is locked while its run lives, so that a later run can recognise and
//! remove the directories of killed runs.
//!
//! Only a directory that belongs to this user and has the [`MARK`] in its lock file is removed, and
//! no link is followed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_system::private;

use crate::Error;

/// The lock file. In a run's directory it is locked while the run lives; in the base, while
/// directories are created and removed.
const LOCK: &str = "lock";
/// The start of the lock file of a run's directory.
const MARK: &str = "forebay run of process ";

/// The directory of a run. Removed when dropped.
pub struct LockedDir {
    id: String,
    path: PathBuf,
    /// The lock, which the kernel releases on close and also for a killed process.
    _lock: File,
}

impl LockedDir {
    /// Creates a directory for a new run in `base`, after `reclaim` has removed those of killed
    /// runs. A directory that `reclaim` fails to remove is logged and left for the next time. The
    /// base is created if it does not exist, and only this user can enter it.
    ///
    /// # Errors
    ///
    /// If `base` cannot be created, is a link, belongs to another user or can be written by others.
    pub fn create(
        base: &Path,
        reclaim: impl Fn(&Path) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let failed = |what: &str, path: &Path| Error::io(format!("{what} {}", path.display()));
        // Nobody else can replace the base from here on, so that its path stays safe to use.
        private::directory(base).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => Error::Unfit(format!("{}: {e}", base.display())),
            _ => failed("creating", base)(e),
        })?;
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
        writeln!(lock, "{MARK}{}", std::process::id()).map_err(failed("writing", &path))?;
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
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        // Held until the directory is removed.
        let Some(_lock) = lock_of_dead(&path) else { continue };
        tracing::info!("removing the directory of a killed run: {}", path.display());
        if let Err(e) = reclaim(&path) {
            tracing::warn!("{e}");
        }
    }
}

/// Takes the lock of a killed run's directory; `None` if `path` is anything else.
fn lock_of_dead(path: &Path) -> Option<File> {
    let directory = private::open_directory(path).ok()?.metadata().ok()?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path.join(LOCK)).ok()?;
    let found = file.metadata().ok()?;
    if !private::is_own(&directory) || !private::is_own(&found) || !found.is_file() {
        return None;
    }
    if !private::lock(&file, false).ok()? {
        return None;
    }
    let mut start = [0; MARK.len()];
    file.read_exact(&mut start).ok()?;
    (start == *MARK.as_bytes()).then_some(file)
}

/// Locks the file `path` and creates it if needed. Returns `None` if it is locked and `wait` is
/// false.
///
/// # Errors
///
/// If the file is a link, or cannot be opened or locked.
pub fn lock(path: &Path, wait: bool) -> Result<Option<File>, Error> {
    let failed = |e| Error::io(format!("locking {}", path.display()))(e);
    let file = private::file(path).map_err(failed)?;
    Ok(private::lock(&file, wait).map_err(failed)?.then_some(file))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

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

    fn remove(path: &Path) -> Result<(), Error> {
        fs::remove_dir_all(path).map_err(Error::io("removing"))
    }

    /// Makes a directory with a lock file that nothing holds.
    fn unlocked(path: &Path, mark: &str) {
        fs::create_dir(path).unwrap();
        fs::write(path.join(LOCK), mark).unwrap();
    }

    #[test]
    fn directories_of_dead_runs_are_removed_and_others_are_not() {
        let base = base("lockdir");
        let living = LockedDir::create(&base, remove).unwrap();
        assert_eq!(fs::metadata(&base).unwrap().mode() & 0o777, 0o700);
        let dead = base.join("dead");
        unlocked(&dead, &format!("{MARK}1\n"));
        let second = LockedDir::create(&base, remove).unwrap();
        assert!(living.path().exists() && second.path().exists() && !dead.exists());
        assert_ne!(living.id(), second.id());
        drop((living, second));
        assert_eq!(fs::read_dir(&base).unwrap().count(), 1, "the base's own lock");
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_base_that_is_a_link_is_refused() {
        let (base, victim) = (base("link"), base("linked"));
        fs::create_dir(&victim).unwrap();
        unlocked(&victim.join("files"), MARK);
        symlink(&victim, &base).unwrap();
        let refused = LockedDir::create(&base, remove);
        assert!(victim.join("files").exists(), "a directory elsewhere was removed");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1, "nothing was created");
        let told = refused.err().expect("refused").to_string();
        assert!(told.contains("fb-link-"), "{told}");
        fs::remove_file(&base).unwrap();
        fs::remove_dir_all(&victim).unwrap();
    }

    #[test]
    fn a_base_that_others_can_write_is_refused() {
        let base = base("open");
        fs::create_dir(&base).unwrap();
        fs::set_permissions(&base, Permissions::from_mode(0o770)).unwrap();
        assert!(LockedDir::create(&base, remove).is_err());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_directory_without_the_mark_is_not_removed() {
        let (base, victim) = (base("marks"), base("marks-victim"));
        drop(LockedDir::create(&base, remove).unwrap());
        unlocked(&victim, MARK);
        unlocked(&base.join("other-mark"), "1\n");
        fs::create_dir(base.join("no-lock")).unwrap();
        symlink(&victim, base.join("link")).unwrap();
        fs::create_dir(base.join("linked-lock")).unwrap();
        symlink(victim.join(LOCK), base.join("linked-lock").join(LOCK)).unwrap();
        drop(LockedDir::create(&base, remove).unwrap());
        for name in ["other-mark", "no-lock", "link", "linked-lock"] {
            assert!(fs::symlink_metadata(base.join(name)).is_ok(), "{name} was removed");
        }
        assert_eq!(fs::read_dir(base.join("no-lock")).unwrap().count(), 0, "no lock was made");
        fs::remove_dir_all(&base).unwrap();
        fs::remove_dir_all(&victim).unwrap();
    }

    mod live {
        use forebay_test_support::has_root;

        use super::*;

        #[test]
        fn a_directory_of_another_user_is_not_removed() {
            if !has_root() {
                return;
            }
            let base = base("owners");
            drop(LockedDir::create(&base, remove).unwrap());
            let names = ["directory", "their-lock"].map(|name| base.join(name));
            for other in &names {
                unlocked(other, MARK);
            }
            chown(&names[0], Some(12_345), None).unwrap();
            chown(names[1].join(LOCK), Some(12_345), None).unwrap();
            drop(LockedDir::create(&base, remove).unwrap());
            assert!(names.iter().all(|other| other.exists()));
            chown(&base, Some(12_345), None).unwrap();
            assert!(LockedDir::create(&base, remove).is_err());
            fs::remove_dir_all(&base).unwrap();
        }
    }
}
