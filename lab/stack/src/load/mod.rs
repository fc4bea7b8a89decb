//! The load: many connections that send as fast as they may, with few threads.
//!
//! A sending thread opens its connections and then writes to each that has room, in turn. A
//! receiving thread accepts and reads. Both wait by epoll and hold the descriptors of all their
//! flows; nothing is allocated per packet.

pub mod receiver;
pub mod sender;
mod turns;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Bytes that are written or read at once.
const CHUNK: usize = 64 << 10;
/// The events that are taken from the kernel at once.
const EVENTS: usize = 1024;

/// The step that a load is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
pub enum Step {
    /// Connections are opened.
    Connect = 0,
    /// All connections send.
    Send = 1,
    /// Nothing new is sent, and what is under way arrives.
    Drain = 2,
    /// All connections are closed.
    Close = 3,
}

/// What the threads of a load and their measurer share.
#[derive(Debug, Default)]
pub struct Shared {
    step: AtomicU8,
    /// Connections that senders have opened.
    pub connected: AtomicU32,
    /// Connections that receivers have accepted.
    pub accepted: AtomicU32,
    /// Connections whose receiver has seen the end.
    pub ended: AtomicU32,
    /// Connections whose sender met an error.
    pub lost: AtomicU32,
    /// Sending threads that write nothing more.
    pub silent: AtomicU32,
    /// Bytes that were written to sockets.
    pub sent: AtomicU64,
    /// Bytes that were read from sockets.
    pub received: AtomicU64,
    /// The error of the first of them.
    lost_by: Mutex<Option<String>>,
    failed: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Shared {
    /// The step that the load is at.
    pub fn step(&self) -> Step {
        match self.step.load(Ordering::Acquire) {
            0 => Step::Connect,
            1 => Step::Send,
            2 => Step::Drain,
            _ => Step::Close,
        }
    }

    /// Moves all threads to `step`.
    pub fn go(&self, step: Step) {
        self.step.store(step as u8, Ordering::Release);
    }

    /// Counts a connection that ended early, by this error.
    pub fn lose(&self, error: &io::Error) {
        if self.lost.fetch_add(1, Ordering::Relaxed) == 0
            && let Ok(mut lost_by) = self.lost_by.lock()
        {
            *lost_by = Some(error.to_string());
        }
    }

    /// The error of the first connection that ended early; empty if none did.
    pub fn lost_by(&self) -> String {
        self.lost_by.lock().ok().and_then(|error| error.clone()).unwrap_or_default()
    }

    /// Reports that a thread cannot go on; the first report is kept.
    pub fn fail(&self, what: String) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(what);
        }
        self.failed.store(true, Ordering::Release);
    }

    /// The reason for which a thread could not go on.
    pub fn failure(&self) -> Option<String> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().ok()?.clone()
    }
}
