//! The connection that a packet belongs to, which quinn does not pass to a socket.
//!
//! quinn asks a connection's poller whether it may send. `try_send` follows in the same step, on
//! the same thread.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells the sockets of a process apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketId(u64);

impl SocketId {
    /// Returns an id that no other socket has.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The socket and the flow whose poller was asked last on this thread.
pub(crate) struct Asked<F>(Cell<Option<(SocketId, F)>>);

impl<F> Asked<F> {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(None))
    }

    /// Records what the poller belongs to; `None` for a connection without a flow.
    pub(crate) fn set(&self, socket: SocketId, flow: Option<F>) {
        self.0.set(flow.map(|flow| (socket, flow)));
    }

    /// Takes the flow of the poller, if it is one of `socket`.
    pub(crate) fn take(&self, socket: SocketId) -> Option<F> {
        self.0.take().filter(|(of, _)| *of == socket).map(|(_, flow)| flow)
    }
}
