//! Sockets by which commands of this machine reach running processes.
//!
//! They are files of a [`Directory`] that only root can write, or one user, so that no other user
//! can take a name, listen at it or connect to it. Names have the network namespace of the process
//! that listens, since processes of several namespaces share the directory. [`Peer`] is who is at
//! the other end, which both ends check too.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use crate::private;

/// The directory of root's processes.
const ROOT_DIRECTORY: &str = "/run/forebay";
/// The name of another user's directory in the runtime directory of that user.
const USER_DIRECTORY: &str = "forebay";
/// The mode bits that let the group or others write.
const WRITABLE: u32 = 0o022;
/// How the name of a socket ends.
const SUFFIX: &str = ".sock";
/// The connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// The age from which a socket without a process is removed. A younger one may be between its
/// creation and its use.
const LEFTOVER_AGE: Duration = Duration::from_secs(10);

/// A directory for the sockets of running processes, as one network namespace sees it.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    namespace: u64,
}

/// A socket in a [`Directory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The last part of its name: what the process named it after.
    pub of: String,
    /// Its path, for [`connect`].
    pub path: PathBuf,
}

impl Directory {
    /// Opens the directory of this user and creates it if it does not exist: `/run/forebay` for
    /// root, `forebay` in `XDG_RUNTIME_DIR` for others.
    ///
    /// # Errors
    /// If it cannot be created, or another user can write to it.
    pub fn open() -> io::Result<Self> {
        let path = match private::runtime_directory() {
            _ if private::user() == 0 => PathBuf::from(ROOT_DIRECTORY),
            Some(of_user) => of_user.join(USER_DIRECTORY),
            None => return Err(io::Error::other("this user has no XDG_RUNTIME_DIR of its own")),
        };
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        private::readable_directory(&path).map_err(named)?;
        Self::at(path)
    }

    /// Returns the directories in which a command of this user looks for processes: root's and its
    /// own, as far as they exist.
    ///
    /// # Errors
    /// If one cannot be read, or another user can write to it.
    pub fn all() -> io::Result<Vec<Self>> {
        let of_user = private::runtime_directory().filter(|_| private::user() != 0);
        let own = of_user.map(|directory| directory.join(USER_DIRECTORY));
        let mut all = Vec::new();
        for path in [Some(PathBuf::from(ROOT_DIRECTORY)), own].into_iter().flatten() {
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            match fs::symlink_metadata(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(named(e)),
                Ok(found) => {
                    let is_safe =
                        found.is_dir() && is_trusted(found.uid()) && found.mode() & WRITABLE == 0;
                    if !is_safe {
                        let why = "others can change what is in it: chown it to root and chmod 755";
                        return Err(named(io::Error::new(io::ErrorKind::PermissionDenied, why)));
                    }
                    all.push(Self::at(path)?);
                }
            }
        }
        Ok(all)
    }

    /// Returns the directory `path`, in which only this user can write, as the network namespace of
    /// this thread sees it.
    ///
    /// # Errors
    /// If the namespace is not known.
    pub fn at(path: PathBuf) -> io::Result<Self> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        Ok(Self { path, namespace })
    }

    /// Returns the path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the number of the network namespace.
    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// Returns the path of the socket of a kind that is named after `of`.
    pub fn socket(&self, kind: &str, of: &str) -> PathBuf {
        self.path.join(format!("{kind}-{}-{of}{SUFFIX}", self.namespace))
    }

    /// Listens at the socket of a kind that is named after `of`. Only this user and root can
    /// connect. Sockets that processes left behind are removed.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if another process listens there; others if there can be no
    /// such socket.
    pub fn listen(&self, kind: &str, of: &str) -> io::Result<UnixListener> {
        self.sweep(LEFTOVER_AGE);
        let path = self.socket(kind, of);
        let address = SockAddr::unix(&path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        let bound = socket.bind(&address);
        if matches!(&bound, Err(e) if e.kind() == io::ErrorKind::AddrInUse) && !is_alive(&path) {
            fs::remove_file(&path)?;
            socket.bind(&address)?;
        } else {
            bound?;
        }
        // Nobody can connect before it listens.
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(OwnedFd::from(socket).into())
    }

    /// Finds the sockets of a kind whose processes are in this network namespace. Some may be left
    /// of processes that have ended: these refuse connections.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn find(&self, kind: &str) -> io::Result<Vec<Found>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(Name::parse) else { continue };
            if name.kind == kind && name.namespace == self.namespace {
                all.push(Found { of: name.of.to_owned(), path: entry.path() });
            }
        }
        all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    /// Removes sockets of ended processes of any namespace that are older than `age`.
    fn sweep(&self, age: Duration) {
        // What cannot be read or removed stays, and harms nobody.
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let is_named = entry.file_name().to_str().and_then(Name::parse).is_some();
            let is_leftover = |path: &Path| -> io::Result<bool> {
                let found = fs::symlink_metadata(path)?;
                let since = found.modified()?.elapsed().unwrap_or_default();
                Ok(found.file_type().is_socket() && since >= age && !is_alive(path))
            };
            if is_named && is_leftover(&entry.path()).unwrap_or(false) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The name of a socket: `KIND-NAMESPACE-OF.sock`.
struct Name<'a> {
    kind: &'a str,
    namespace: u64,
    of: &'a str,
}

impl<'a> Name<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        let mut parts = name.strip_suffix(SUFFIX)?.splitn(3, '-');
        let (kind, namespace, of) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { kind, namespace: namespace.parse().ok()?, of })
    }
}

/// The process at the other end of a connection, as it was when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The number of the process; 0 if it is in another namespace of processes.
    pub process: u32,
    /// The user of the process.
    pub user: u32,
}

impl Peer {
    /// Returns the peer of a connection (`SO_PEERCRED`, unix(7)).
    ///
    /// # Errors
    /// If the kernel does not know.
    pub fn of(stream: impl AsFd) -> io::Result<Self> {
        let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let mut length = size_of_val(&credentials) as libc::socklen_t;
        // SAFETY: the option writes a `ucred`, whose length is given.
        let answer = unsafe {
            libc::getsockopt(
                stream.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &raw mut length,
            )
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { process: credentials.pid.unsigned_abs(), user: credentials.uid })
    }

    /// Whether the process is root's or has the user of this one.
    pub fn is_trusted(&self) -> bool {
        is_trusted(self.user)
    }
}

fn is_trusted(user: u32) -> bool {
    [0, private::user()].contains(&user)
}

/// Connects to the socket `path` without waiting, and checks who listens there. The connection does
/// not block.
///
/// # Errors
/// [`io::ErrorKind::ConnectionRefused`] or [`io::ErrorKind::NotFound`] if its process has ended,
/// [`io::ErrorKind::WouldBlock`] if it accepts no connections, and
/// [`io::ErrorKind::PermissionDenied`] if this user may not connect or another user listens.
pub fn connect(path: &Path) -> io::Result<(UnixStream, Peer)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    let peer = Peer::of(&socket)?;
    if !peer.is_trusted() {
        let why = format!("it belongs to the user {}", peer.user);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok((OwnedFd::from(socket).into(), peer))
}

/// Whether a process has the socket `path`, which listens for connections or may soon. The process
/// does not notice the question.
pub fn is_alive(path: &Path) -> bool {
    // The kernel finds the socket before it sees that its type is another one.
    let ask = || Socket::new(Domain::UNIX, Type::DGRAM, None)?.connect(&SockAddr::unix(path)?);
    !matches!(ask(), Err(e) if e.kind() == io::ErrorKind::ConnectionRefused)
}

/// Returns the time until `deadline`.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if it is over.
pub fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads to the end of a connection, until `deadline` and at most `most` bytes.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] at the deadline, [`io::ErrorKind::FileTooLarge`] beyond `most`, and
/// those of the connection.
pub fn read_to_end(stream: &UnixStream, deadline: Instant, most: usize) -> io::Result<Vec<u8>> {
    let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match read(stream, &mut buffer, deadline)? {
            0 => return Ok(text),
            n if text.len() + n > most => return Err(io::ErrorKind::FileTooLarge.into()),
            n => text.extend_from_slice(&buffer[..n]),
        }
    }
}

/// Reads a line and nothing after it, until `deadline` and at most `most` bytes. The line feed is
/// not part of it.
///
/// # Errors
/// As [`read_to_end`], and [`io::ErrorKind::UnexpectedEof`] if the connection ends before.
pub fn read_line(stream: &UnixStream, deadline: Instant, most: usize) -> io::Result<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        match read(stream, &mut byte, deadline)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if byte[0] == b'\n' => return Ok(line),
            _ if line.len() == most => return Err(io::ErrorKind::FileTooLarge.into()),
            _ => line.push(byte[0]),
        }
    }
}

/// Writes `bytes`, until `deadline`.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] at the deadline, and those of the connection.
pub fn write_all(mut stream: &UnixStream, bytes: &[u8], deadline: Instant) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => rest = &rest[n..],
            // The next turn finds whether the deadline has passed.
            Err(e) if is_again(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn read(mut stream: &UnixStream, buffer: &mut [u8], deadline: Instant) -> io::Result<usize> {
    stream.set_nonblocking(false)?;
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(buffer) {
            Err(e) if is_again(&e) => {}
            result => return result,
        }
    }
}

fn is_again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A directory of a test, removed when dropped.
    struct Place(Directory);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fb-local-{name}-{}", std::process::id()));
            private::readable_directory(&path).unwrap();
            Self(Directory::at(path).unwrap())
        }

        fn files(&self) -> usize {
            fs::read_dir(&self.0.path).unwrap().count()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.path);
        }
    }

    #[test]
    fn both_ends_of_a_connection_know_each_other_and_others_have_no_right_to_connect() {
        let place = Place::new("peers");
        let listener = place.0.listen("status", "17").unwrap();
        let path = place.0.socket("status", "17");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let own = Peer { process: std::process::id(), user: private::user() };
        let (stream, peer) = connect(&path).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!((peer, Peer::of(&accepted).unwrap()), (own, own));
        assert!(own.is_trusted() && !Peer { user: 12_345, ..own }.is_trusted());
        drop((stream, accepted));
        let found = place.0.find("status").unwrap();
        assert_eq!(found, [Found { of: "17".to_owned(), path }]);
        assert_eq!(place.0.find("reload").unwrap(), []);
        let elsewhere = Directory { namespace: 1, ..place.0.clone() };
        assert_eq!(elsewhere.find("status").unwrap(), [], "of another network namespace");
    }

    #[test]
    fn a_socket_that_a_process_left_is_replaced_and_one_that_is_used_is_not() {
        let place = Place::new("leftovers");
        let first = place.0.listen("handover", "wan-0").unwrap();
        let path = place.0.socket("handover", "wan-0");
        let refused = place.0.listen("handover", "wan-0").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert!(is_alive(&path));
        assert_eq!(first.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "unnoticed");
        place.0.sweep(Duration::ZERO);
        assert_eq!(place.files(), 1);
        drop(first);
        assert!(!is_alive(&path));
        assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let second = place.0.listen("handover", "wan-0").unwrap();
        drop(second);
        fs::write(place.0.file("note"), "").unwrap();
        fs::write(place.0.file("status-1-2.sock"), "no socket").unwrap();
        place.0.sweep(LEFTOVER_AGE);
        assert_eq!(place.files(), 3, "a young one may be used soon");
        place.0.sweep(Duration::ZERO);
        assert_eq!(place.files(), 2, "only sockets go");
    }

    /// Many connections that nobody accepts: the next one is refused at once instead of waiting.
    #[test]
    fn a_process_that_accepts_nothing_makes_nobody_wait() {
        let place = Place::new("full");
        let _listener = place.0.listen("status", "1").unwrap();
        let path = place.0.socket("status", "1");
        let waiting: Vec<_> = (0..1000).map(|_| connect(&path)).collect();
        let full = waiting.iter().filter_map(|one| one.as_ref().err()).map(io::Error::kind);
        let kinds: Vec<_> = full.collect();
        assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == io::ErrorKind::WouldBlock));
    }

    /// Each byte comes in time, and the whole does not.
    #[test]
    fn a_deadline_holds_for_the_whole_exchange() {
        let (stream, mut slow) = UnixStream::pair().unwrap();
        let writer = thread::spawn(move || {
            let written = (0..).take_while(|_| {
                thread::yield_now();
                slow.write_all(b"x").is_ok()
            });
            written.count()
        });
        let deadline = Instant::now() + Duration::from_millis(50);
        let read = read_to_end(&stream, deadline, usize::MAX);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(Instant::now() >= deadline);
        let over = read_line(&stream, deadline, usize::MAX).unwrap_err();
        assert_eq!(over.kind(), io::ErrorKind::TimedOut);
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(
            read_to_end(&stream, later, 10).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        drop(stream);
        writer.join().unwrap();
        // Nobody reads.
        let (stream, _reader) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        let written = write_all(&stream, &vec![0; 16 << 20], deadline);
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_line_is_read_without_what_follows_it() {
        let (stream, mut other) = UnixStream::pair().unwrap();
        other.write_all(b"one\ntwo").unwrap();
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(read_line(&stream, later, 3).unwrap(), b"one");
        drop(other);
        assert_eq!(read_line(&stream, later, 3).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
