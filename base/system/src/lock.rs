//! Locks between processes, by name.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::local::Directory;
use crate::private;

/// The file whose bytes stand for the names.
const FILE: &str = "locks";

/// A name that one process holds in its network namespace. The kernel frees the name when the
/// process ends, however it ends.
///
/// The name stands for a byte of a file that only root can open, or this user, so that nobody else
/// can hold it. Without such a file it is an abstract socket name, which any user can take.
#[derive(Debug)]
pub struct NameLock {
    #[allow(dead_code, reason = "held for what dropping it does")]
    held: Held,
}

#[derive(Debug)]
enum Held {
    Byte(#[allow(dead_code, reason = "held for what dropping it does")] File),
    Name(#[allow(dead_code, reason = "held for what dropping it does")] UnixDatagram),
}

impl NameLock {
    /// Takes the lock `name`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another process holds the name.
    pub fn hold(name: &str) -> io::Result<Self> {
        let held = match Directory::open() {
            Ok(directory) => lock(&directory, name)?,
            Err(e) => {
                tracing::debug!("other users can hold the lock {name}: {e}");
                Held::Name(UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?)
            }
        };
        Ok(Self { held })
    }
}

/// Locks the byte of `name` (open file description locks, fcntl(2)).
fn lock(directory: &Directory, name: &str) -> io::Result<Held> {
    let file = private::file(&directory.file(FILE))?;
    let byte = libc::flock {
        l_type: libc::F_WRLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: byte_of(directory.namespace(), name),
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: takes a descriptor, which is open, and a lock, which lives through the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const byte) } == 0 {
        return Ok(Held::Byte(file));
    }
    Err(match io::Error::last_os_error() {
        e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            io::ErrorKind::AddrInUse.into()
        }
        e => e,
    })
}

/// Returns the place of a name: its hash (FNV-1a), which is the same in all releases.
fn byte_of(namespace: u64, name: &str) -> i64 {
    let bytes = namespace.to_le_bytes().into_iter().chain(name.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 2) as i64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_has_one_owner_in_its_namespace() {
        let path = std::env::temp_dir().join(format!("fb-lock-{}", std::process::id()));
        private::readable_directory(&path).unwrap();
        let directory = Directory::at(path.clone()).unwrap();
        let held = lock(&directory, "port-wan0").unwrap();
        let refused = lock(&directory, "port-wan0").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let other = lock(&directory, "port-wan1").unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "one file for all");
        drop((held, other));
        lock(&directory, "port-wan0").unwrap();
        assert_ne!(byte_of(1, "a"), byte_of(2, "a"), "a namespace has names of its own");
        fs::remove_dir_all(path).unwrap();
    }
}
