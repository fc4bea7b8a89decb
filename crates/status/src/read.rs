use std::fs;
use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use forebay_records::{RELOAD_SOCKET, Reloaded, STATUS_SOCKET, STATUS_VERSION, Status};

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
    // All are asked before the first answer is read, since a box looks for readers now and then.
    let asked: Vec<_> = processes(STATUS_SOCKET)?
        .into_iter()
        .map(|process| (process, connect(STATUS_SOCKET, process)))
        .collect();
    let until = Instant::now() + patience;
    let answers = asked.into_iter().filter_map(|(process, stream)| match stream {
        // It has ended meanwhile.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => None,
        stream => {
            let text = stream.and_then(|stream| receive(stream, until));
            let status = text.and_then(|text| match serde_json::from_slice::<Status>(&text) {
                Ok(status) if status.version == STATUS_VERSION => Ok(status),
                _ => Err(other_release()),
            });
            Some(Answer { process, status })
        }
    });
    Ok(answers.collect())
}

/// Asks the boxes in this network namespace to read their files again, or the one that has this
/// process, each within `patience`.
///
/// # Errors
/// If the kernel's list of sockets cannot be read.
pub fn reload(
    process: Option<u32>,
    patience: Duration,
) -> io::Result<Vec<(u32, io::Result<Reloaded>)>> {
    let mut processes = processes(RELOAD_SOCKET)?;
    processes.retain(|found| process.is_none_or(|wanted| wanted == *found));
    let until = Instant::now() + patience;
    let asked: Vec<_> =
        processes.into_iter().map(|process| (process, connect(RELOAD_SOCKET, process))).collect();
    let answers = asked.into_iter().map(|(process, stream)| {
        let text = stream.and_then(|stream| receive(stream, until));
        let answer = text.and_then(|text| match serde_json::from_slice::<Reloaded>(&text) {
            Ok(answer) if answer.version == STATUS_VERSION => Ok(answer),
            _ => Err(other_release()),
        });
        (process, answer)
    });
    Ok(answers.collect())
}

fn connect(prefix: &str, process: u32) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(format!("{prefix}{process}"))?)
}

/// Returns the processes that have a socket of this prefix in this network namespace.
///
/// # Errors
/// If the kernel's list of sockets cannot be read.
pub fn processes(prefix: &str) -> io::Result<Vec<u32>> {
    let table = fs::read_to_string("/proc/net/unix")?;
    let mut processes: Vec<u32> = table
        .lines()
        .filter_map(|line| line.rsplit('@').next()?.strip_prefix(prefix)?.parse().ok())
        .collect();
    // A connection has a line of its own.
    processes.sort_unstable();
    processes.dedup();
    Ok(processes)
}

fn receive(stream: UnixStream, until: Instant) -> io::Result<Vec<u8>> {
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
    Ok(text)
}

fn other_release() -> io::Error {
    io::Error::other("it is of another release: restart it")
}
