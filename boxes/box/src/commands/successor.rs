use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_records::{HANDOVER_VERSION, Handover, Offer, ReceiveHandover, SendHandover};
use forebay_system::{descriptors, local};

/// The time that the reader of the state has.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// The process that takes over at the end of this one, if one waits. One at a time can.
pub(super) struct Successor {
    offer: Offer,
    waiting: Mutex<Option<UnixStream>>,
}

impl Successor {
    /// Makes an offer for which nobody waits.
    pub(super) fn new(offer: Offer) -> Self {
        Self { offer, waiting: Mutex::new(None) }
    }

    /// Offers the state to a process that asks for it.
    pub(super) fn arrive(&self, mut stream: UnixStream) {
        let mut waiting = self.lock();
        if is_there(&mut waiting) {
            return;
        }
        // Texts can always be written, and a line fits into a socket's buffer.
        let mut line = serde_json::to_vec(&self.offer).unwrap_or_default();
        line.push(b'\n');
        if stream.write_all(&line).is_ok() {
            tracing::info!("another process will take over when this one ends");
            *waiting = Some(stream);
        }
    }

    /// Whether somebody waits for the state.
    pub(super) fn is_there(&self) -> bool {
        is_there(&mut self.lock())
    }

    /// Hands the state and the UDP socket over, at the end.
    pub(super) fn give(
        &self,
        sends: Vec<SendHandover>,
        receives: Vec<ReceiveHandover>,
        socket: Option<BorrowedFd<'_>>,
    ) {
        let mut waiting = self.lock();
        if !is_there(&mut waiting) {
            return;
        }
        let Some(stream) = waiting.take() else { return };
        let handover =
            Handover { version: HANDOVER_VERSION, offer: self.offer.clone(), sends, receives };
        let descriptors: Vec<_> = socket.into_iter().collect();
        let give = || -> io::Result<()> {
            let text = serde_json::to_vec(&handover)?;
            let sent = descriptors::send(&stream, &text, &descriptors)?;
            local::write_all(&stream, &text[sent..], Instant::now() + HANDOVER_TIMEOUT)
        };
        match give() {
            Ok(()) => tracing::info!("the state is handed over; queues and programs stay"),
            Err(e) => tracing::warn!("the state cannot be handed over: {e}"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_there(waiting: &mut Option<UnixStream>) -> bool {
    let Some(stream) = waiting else { return false };
    // It sends nothing, so that there is something to read only when it has gone.
    let waits = matches!(stream.read(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
    if !waits {
        *waiting = None;
        tracing::info!("nobody waits any more to take over from this process");
    }
    waits
}
