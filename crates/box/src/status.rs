//! A box tells its state to whoever connects to its Unix socket: `forebay status`.
//!
//! A reader that is slow, or does not read, delays no packet: what does not fit into the socket
//! waits here for a while, for a few readers.

use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;

use forebay_records::{
    NotUnderstood, ReceiveStatus, STATUS_SOCKET, STATUS_VERSION, SendStatus, Status,
};
use forebay_system::clock;
use forebay_units::Nanos;

use crate::local_socket::LocalSocket;

/// The time that a reader has.
const PATIENCE: Nanos = Nanos::from_secs(5);
/// The most readers at a time.
const MOST: usize = 4;

/// The socket for readers of a box's state.
pub(crate) struct StatusSocket {
    socket: LocalSocket,
    replies: Vec<Reply>,
    role: &'static str,
    interfaces: Vec<String>,
    started: Nanos,
}

/// The state of a box that changes.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) not_understood: NotUnderstood,
    pub(crate) hand_over_drops: Option<u64>,
    pub(crate) sends: Vec<SendStatus>,
    pub(crate) receives: Vec<ReceiveStatus>,
}

/// An answer that has not yet been read.
struct Reply {
    stream: UnixStream,
    text: Vec<u8>,
    sent: usize,
    until: Nanos,
}

impl StatusSocket {
    /// Opens the socket of this process. A box runs without one too.
    pub(crate) fn open(role: &'static str, interfaces: Vec<String>) -> Self {
        let socket = LocalSocket::open(STATUS_SOCKET, "forebay status");
        let started = clock::now();
        Self { socket, replies: Vec::new(), role, interfaces, started }
    }

    /// Returns the descriptor that becomes readable when there is a reader.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.socket.descriptor()
    }

    /// Whether readers wait for the rest of their answers.
    pub(crate) fn is_busy(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Answers readers. `state` returns the state of the box, if there is a new reader.
    pub(crate) fn serve(&mut self, now: Nanos, state: impl FnOnce() -> State) {
        let mut accepted = Vec::new();
        while let Some(stream) = self.socket.accept() {
            if self.replies.len() + accepted.len() < MOST {
                accepted.push(stream);
            }
        }
        if !accepted.is_empty() {
            let State { not_understood, hand_over_drops, sends, receives } = state();
            let status = Status {
                version: STATUS_VERSION,
                role: self.role.to_owned(),
                process: std::process::id(),
                run: self.started.0,
                up_s: seconds(now, self.started),
                interfaces: self.interfaces.clone(),
                not_understood,
                hand_over_drops,
                sends,
                receives,
            };
            // Numbers and texts can always be written.
            let text = serde_json::to_vec(&status).unwrap_or_default();
            for stream in accepted {
                let until = now + PATIENCE;
                self.replies.push(Reply { stream, text: text.clone(), sent: 0, until });
            }
        }
        self.replies.retain_mut(|reply| now < reply.until && reply.is_unfinished());
    }
}

impl Reply {
    /// Sends what the reader takes now; returns whether something is left.
    fn is_unfinished(&mut self) -> bool {
        while self.sent < self.text.len() {
            match self.stream.write(&self.text[self.sent..]) {
                Ok(0) => return false,
                Ok(sent) => self.sent += sent,
                Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
            }
        }
        false
    }
}

/// Returns the seconds from `then` to `now`.
pub(crate) fn seconds(now: Nanos, then: Nanos) -> f64 {
    now.saturating_sub(then).0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    use super::*;

    fn connect() -> UnixStream {
        let name = format!("{STATUS_SOCKET}{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        UnixStream::connect_addr(&address).unwrap()
    }

    fn receive(name: &str) -> ReceiveStatus {
        ReceiveStatus {
            name: name.to_owned(),
            sendbox: "192.0.2.1:28316".parse().ok(),
            moves: 0,
            trouble: None,
            heard_s: Some(0.5),
            packets: 1,
            bytes: 2,
            refused: 3,
            unanswered: 4,
        }
    }

    /// A state that fits into no socket's buffer, readers that do not read, and one too many.
    #[test]
    fn slow_readers_get_all_and_do_not_block() {
        let mut socket = StatusSocket::open("receivebox", vec!["eth0".to_owned()]);
        let start = socket.started;
        let many =
            || State { receives: vec![receive(&"x".repeat(1000)); 2000], ..State::default() };
        let mut reader = connect();
        let mut idle: Vec<_> = (0..MOST).map(|_| connect()).collect();
        socket.serve(start, many);
        assert_eq!(socket.replies.len(), MOST);
        reader.set_nonblocking(true).unwrap();
        let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        for step in 1..=40 {
            socket.serve(start + Nanos::from_millis(100) * step, many);
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                text.extend_from_slice(&buffer[..n]);
            }
        }
        let status: Status = serde_json::from_slice(&text).unwrap();
        assert_eq!((status.role.as_str(), status.receives.len()), ("receivebox", 2000));
        assert_eq!(status.receives[0], receive(&"x".repeat(1000)));
        socket.serve(start + PATIENCE, many);
        assert!(socket.replies.is_empty(), "who does not read is let go");
        let refused = idle.last_mut().map(|last| last.read(&mut buffer).unwrap());
        assert_eq!(refused, Some(0), "one too many");
    }
}
