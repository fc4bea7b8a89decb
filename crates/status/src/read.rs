use std::fs;
use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use forebay_records::{STATUS_SOCKET, STATUS_VERSION, Status};

/// The size of the largest answer: about ten thousand bundles.
const LARGEST: u64 = 64 << 20;

/// The answer of a box.
#[derive(Debug)]
pub struct Answer {
    /// The number of its process.
    pub process: u32,
    /// The state, or the reason why the box did not tell it.
    pub status: io::Result<Status>,
}

/// Reads the state of all boxes in this network namespace, each within `patience`.
///
/// # Errors
/// If the kernel's list of sockets cannot be read.
pub fn read(patience: Duration) -> io::Result<Vec<Answer>> {
    let connect = |process| {
        let address = SocketAddr::from_abstract_name(format!("{STATUS_SOCKET}{process}"))?;
        UnixStream::connect_addr(&address)
    };
    // All are asked before the first answer is read, since a box looks for readers now and then.
    let asked: Vec<_> =
        processes()?.into_iter().map(|process| (process, connect(process))).collect();
    let until = Instant::now() + patience;
    let answers = asked.into_iter().filter_map(|(process, stream)| match stream {
        // It has ended meanwhile.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => None,
        stream => Some(Answer { process, status: stream.and_then(|s| receive(s, until)) }),
    });
    Ok(answers.collect())
}

/// Returns the processes that have a socket for readers in this network namespace.
fn processes() -> io::Result<Vec<u32>> {
    let table = fs::read_to_string("/proc/net/unix")?;
    let mut processes: Vec<u32> = table
        .lines()
        .filter_map(|line| line.rsplit('@').next()?.strip_prefix(STATUS_SOCKET)?.parse().ok())
        .collect();
    // A connection has a line of its own.
    processes.sort_unstable();
    processes.dedup();
    Ok(processes)
}

fn receive(stream: UnixStream, until: Instant) -> io::Result<Status> {
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    let refused = || io::Error::other("it answers root and its own user only: run this with sudo");
    let mut text = Vec::new();
    stream.take(LARGEST).read_to_end(&mut text).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => io::Error::other("it does not answer: does it hang?"),
        io::ErrorKind::ConnectionReset => refused(),
        _ => e,
    })?;
    if text.is_empty() {
        return Err(refused());
    }
    match serde_json::from_slice::<Status>(&text) {
        Ok(status) if status.version == STATUS_VERSION => Ok(status),
        _ => Err(io::Error::other("it is of another release: restart it")),
    }
}
