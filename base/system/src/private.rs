//! Directories and files that other users can neither change nor read.
//!
//! A path below `/tmp` is known to all users, who can put a link or a directory of their own there
//! first. So these functions look at what they have opened, and follow no link at the last step.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode bits that let the group or others write.
const WRITABLE: u32 = 0o022;
/// The mode bits that let the group or others do anything.
const SHARED: u32 = 0o077;
/// The mode bit of a directory in which users can rename and remove only what is theirs.
const STICKY: u32 = 0o1000;

/// Returns the user of this process.
pub fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Opens the directory `path`, which only this user can write, and creates it with mode 0700 if it
/// does not exist. Its parent has to exist.
///
/// # Errors
/// If `path` is a link or a file, belongs to another user or can be written by others, or if others
/// can replace it in its parent directory.
pub fn directory(path: &Path) -> io::Result<File> {
    directory_of_mode(path, 0o700)
}

/// Opens the directory `path`, which only this user can write, and creates it with mode 0755 if it
/// does not exist: others can see which files it has. Its parent has to exist.
///
/// # Errors
/// As for [`directory`].
pub fn readable_directory(path: &Path) -> io::Result<File> {
    directory_of_mode(path, 0o755)
}

fn directory_of_mode(path: &Path, mode: u32) -> io::Result<File> {
    let is_new = match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => true,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
        Err(e) => return Err(e),
    };
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let above = fs::metadata(parent)?;
    let replaceable = above.mode() & WRITABLE != 0 && above.mode() & STICKY == 0;
    if replaceable || ![0, user()].contains(&above.uid()) {
        let parent = parent.display();
        return Err(refused(format!("others can rename what is in {parent}: change its mode")));
    }
    let directory = open_directory(path)?;
    let found = directory.metadata()?;
    if !is_own(&found) {
        return Err(refused("it belongs to another user: remove it".to_owned()));
    }
    if found.mode() & WRITABLE != 0 {
        return Err(refused(format!("others can write to it: chmod {mode:o}")));
    }
    if is_new {
        // The process's mask of modes (umask(2)) may have taken rights away.
        directory.set_permissions(PermissionsExt::from_mode(mode))?;
    }
    Ok(directory)
}

/// Opens the directory `path` without following a link at its last step.
///
/// # Errors
/// If there is no directory, or it cannot be opened.
pub fn open_directory(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => {
            refused("is a link or a file, not a directory: remove it".to_owned())
        }
        _ => e,
    })
}

/// Whether the file or directory belongs to the user of this process.
pub fn is_own(found: &Metadata) -> bool {
    found.uid() == user()
}

/// Opens a file with a secret, such as a key, to read it.
///
/// # Errors
/// If it is no regular file, if it belongs to neither this user nor root, or if others have rights
/// to it. The error says how to change that.
pub fn secret(path: &Path) -> io::Result<File> {
    // Opening a FIFO without O_NONBLOCK would wait for its writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    let shown = path.display();
    if !found.is_file() {
        return Err(refused(format!("{shown} is no regular file")));
    }
    if found.mode() & SHARED != 0 {
        let mode = found.mode() & 0o777;
        return Err(refused(format!(
            "{shown} can be read by others (mode {mode:03o}): chmod 600 {shown}"
        )));
    }
    if ![0, user()].contains(&found.uid()) {
        let owner = found.uid();
        return Err(refused(format!(
            "{shown} belongs to the user {owner}, who can change it: chown it to yourself"
        )));
    }
    Ok(file)
}

/// Creates the file `path` with mode 0600, or opens the existing one and takes the rights of others
/// away.
///
/// # Errors
/// If `path` is a link, no regular file or another user's, or it cannot be opened.
pub fn file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(|e| match e.raw_os_error() {
            Some(libc::ELOOP) => refused("is a link: write the path that it points to".to_owned()),
            _ => e,
        })?;
    let found = file.metadata()?;
    if !found.is_file() || !is_own(&found) {
        return Err(refused("is no regular file of this user".to_owned()));
    }
    if found.mode() & SHARED != 0 {
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

/// Creates the file `path` with mode 0600, or takes the rights of others to the existing file away.
/// It opens no existing file, since closing one would release the locks that this process has on it
/// (fcntl(2)).
///
/// # Errors
/// As for [`file`].
pub fn restrict(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e),
    }
    // With O_PATH a link is opened instead of followed, and closing releases no lock.
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let reference = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = reference.metadata()?;
    if found.is_symlink() {
        return Err(refused("is a link: write the path that it points to".to_owned()));
    }
    if !found.is_file() || !is_own(&found) {
        return Err(refused("is no regular file of this user".to_owned()));
    }
    if found.mode() & SHARED != 0 {
        let same = format!("/proc/self/fd/{}", reference.as_raw_fd());
        fs::set_permissions(same, PermissionsExt::from_mode(0o600))?;
    }
    Ok(())
}

/// Locks an open file against other processes (flock(2)), which the kernel undoes when the file is
/// closed. Returns false if another process holds the lock and `wait` is false.
///
/// # Errors
/// If the file cannot be locked.
pub fn lock(file: &File, wait: bool) -> io::Result<bool> {
    let how = if wait { libc::LOCK_EX } else { libc::LOCK_EX | libc::LOCK_NB };
    // SAFETY: takes a descriptor, which is open, and an integer.
    if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        e => Err(e),
    }
}

/// Returns the directory for files of this user's running processes: `/run` for root,
/// `XDG_RUNTIME_DIR` (XDG Base Directory Specification) for other users if it is theirs alone.
pub fn runtime_directory() -> Option<PathBuf> {
    if user() == 0 {
        return Some(PathBuf::from("/run"));
    }
    let given = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    let found = fs::symlink_metadata(&given).ok()?;
    let fits = found.is_dir() && is_own(&found) && found.mode() & SHARED == 0;
    (given.is_absolute() && fits).then_some(given)
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory of a test, removed when dropped.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            Self(path)
        }

        fn with_mode(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, "secret").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_directory_is_made_for_its_owner_alone() {
        let place = Place::new("private-directory");
        let own = place.0.join("own");
        directory(&own).unwrap();
        directory(&own).unwrap();
        assert_eq!(mode(&own), 0o700);
        let seen = place.0.join("seen");
        readable_directory(&seen).unwrap();
        assert_eq!(mode(&seen), 0o755);
        symlink(&own, place.0.join("link")).unwrap();
        place.with_mode("file", 0o600);
        for name in ["link", "file"] {
            let told = directory(&place.0.join(name)).unwrap_err().to_string();
            assert!(told.contains("is a link or a file"), "{told}");
        }
        fs::set_permissions(&own, Permissions::from_mode(0o720)).unwrap();
        assert!(directory(&own).is_err());
        // In a directory that all can write, others could put their own in its place.
        fs::set_permissions(&place.0, Permissions::from_mode(0o777)).unwrap();
        assert!(directory(&place.0.join("other")).is_err());
        fs::set_permissions(&place.0, Permissions::from_mode(0o1777)).unwrap();
        directory(&place.0.join("third")).unwrap();
    }

    #[test]
    fn a_secret_is_read_by_its_owner_alone() {
        let place = Place::new("private-secret");
        secret(&place.with_mode("good", 0o400)).unwrap();
        for bad in [0o640, 0o604, 0o620, 0o601] {
            let told = secret(&place.with_mode("bad", bad)).unwrap_err().to_string();
            assert!(told.contains(&format!("(mode {bad:03o})")), "{told}");
        }
        assert!(secret(&place.0).unwrap_err().to_string().contains("no regular file"));
        if user() == 0 {
            let other = place.with_mode("other", 0o600);
            std::os::unix::fs::chown(&other, Some(12_345), None).unwrap();
            let told = secret(&other).unwrap_err().to_string();
            assert!(told.contains("belongs to the user 12345"), "{told}");
        }
    }

    #[test]
    fn a_file_loses_the_rights_of_others() {
        let place = Place::new("private-file");
        let new = place.0.join("new");
        file(&new).unwrap();
        assert_eq!(mode(&new), 0o600);
        let old = place.with_mode("old", 0o644);
        file(&old).unwrap();
        assert_eq!((mode(&old), fs::read_to_string(&old).unwrap().as_str()), (0o600, "secret"));
        symlink(&old, place.0.join("link")).unwrap();
        assert!(file(&place.0.join("link")).is_err());
        fs::set_permissions(&old, Permissions::from_mode(0o664)).unwrap();
        assert!(restrict(&place.0.join("link")).unwrap_err().to_string().contains("is a link"));
        restrict(&old).unwrap();
        restrict(&place.0.join("newer")).unwrap();
        assert_eq!((mode(&old), mode(&place.0.join("newer"))), (0o600, 0o600));
    }
}
