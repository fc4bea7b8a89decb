use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use forebay_records::{
    HANDOVER_VERSION, Handover, Offer, ReceiveHandover, SendHandover, UPGRADE_SOCKET,
};
use forebay_system::descriptors;

use crate::local_socket::LocalSocket;

/// The time that the reader of the state has, for each part of it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The socket of a box for the one that will hand its state to another process.
pub(crate) struct Successor {
    socket: LocalSocket,
    offer: Offer,
    asked: Option<UnixStream>,
}

impl Successor {
    /// Opens the socket of this process. A box runs without one too.
    pub(crate) fn open(role: &str, interfaces: &[String]) -> Self {
        let offer = Offer {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            role: role.to_owned(),
            interfaces: interfaces.to_vec(),
        };
        Self { socket: LocalSocket::open(UPGRADE_SOCKET, "forebay upgrade"), offer, asked: None }
    }

    /// Returns the descriptor that becomes readable when somebody asks.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.socket.descriptor()
    }

    /// Accepts who asks for the state. One at a time can have it.
    pub(crate) fn poll(&mut self) {
        while let Some(mut stream) = self.socket.accept() {
            if self.is_asked() {
                continue;
            }
            // Texts can always be written, and a line fits into a socket's buffer.
            let mut line = serde_json::to_vec(&self.offer).unwrap_or_default();
            line.push(b'\n');
            if stream.write_all(&line).is_ok() {
                tracing::info!("another process will take over when this one ends");
                self.asked = Some(stream);
            }
        }
    }

    /// Whether somebody waits for the state. Then queues and programs stay at the end.
    pub(crate) fn is_asked(&mut self) -> bool {
        let Some(stream) = &mut self.asked else { return false };
        // It sends nothing, so that there is something to read only when it has gone.
        let waits =
            matches!(stream.read(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
        if !waits {
            self.asked = None;
            tracing::info!("nobody waits any more to take over from this process");
        }
        waits
    }

    /// Hands the state and the UDP socket over, at the end.
    pub(crate) fn give(
        &mut self,
        sends: Vec<SendHandover>,
        receives: Vec<ReceiveHandover>,
        socket: Option<BorrowedFd<'_>>,
    ) {
        if !self.is_asked() {
            return;
        }
        let Some(mut stream) = self.asked.take() else { return };
        let handover =
            Handover { version: HANDOVER_VERSION, offer: self.offer.clone(), sends, receives };
        let descriptors: Vec<_> = socket.into_iter().collect();
        let mut give = || -> io::Result<()> {
            let text = serde_json::to_vec(&handover)?;
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let sent = descriptors::send(&stream, &text, &descriptors)?;
            stream.write_all(&text[sent..])
        };
        match give() {
            Ok(()) => tracing::info!("the state is handed over; queues and programs stay"),
            Err(e) => tracing::warn!("the state cannot be handed over: {e}"),
        }
    }
}
