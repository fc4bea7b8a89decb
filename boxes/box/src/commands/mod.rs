//! The commands of this machine that ask a running box: `forebay status`, `reload` and `upgrade`.
//!
//! A thread of its own ([`service`]) has the box's local sockets, so that no connection delays the
//! loop that ticks. The loop finds at most one request of each kind in a queue, and its answers go
//! back by another one. Neither end waits for the other.

mod desk;
mod service;
mod successor;

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use forebay_records::{Offer, ReceiveHandover, Reloaded, SendHandover};
use forebay_system::local::Directory;
use forebay_system::privileges;
use forebay_units::Nanos;

use self::service::{About, Service};
use self::successor::Successor;
use crate::status::State;

/// The kinds of requests, of each of which one is in the queue at most.
const KINDS: usize = 2;

/// What the loop has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Status,
    Reload,
}

/// An answer of the loop.
enum Answer {
    /// The state of the box, and its time.
    Status(Nanos, Box<State>),
    Reload(Reloaded),
}

/// What the loop and the thread share beside the queues.
struct Shared {
    /// The process that waits to take over.
    successor: Successor,
    /// Connections of other users' processes that were refused.
    strangers: AtomicU64,
    /// Whether the thread is to end.
    is_ending: AtomicBool,
}

/// The commands that ask a box, as its loop sees them.
pub(crate) struct Commands {
    requests: Receiver<Request>,
    answers: SyncSender<Answer>,
    shared: Arc<Shared>,
    /// Wakes the thread, and is readable when the thread has put a request into the queue.
    bell: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// Whether a command asks for a reload.
    reload: bool,
}

impl Commands {
    /// Opens the local sockets of this process, and starts the thread that serves them, which has
    /// no capabilities. A box runs without them too.
    pub(crate) fn open(role: &'static str, interfaces: Vec<String>) -> Self {
        let directory = Directory::open();
        let warn = |e: &_| tracing::warn!("commands will not see this process: {e}");
        Self::open_in(directory.inspect_err(warn).ok().as_ref(), role, interfaces)
    }

    fn open_in(directory: Option<&Directory>, role: &'static str, interfaces: Vec<String>) -> Self {
        let (ask, requests) = sync_channel(KINDS);
        let (answers, answered) = sync_channel(KINDS);
        let release = env!("CARGO_PKG_VERSION").to_owned();
        let offer = Offer { release, role: role.to_owned(), interfaces: interfaces.clone() };
        let shared = Arc::new(Shared {
            successor: Successor::new(offer),
            strangers: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        });
        let mut commands = Self {
            requests,
            answers,
            shared: Arc::clone(&shared),
            bell: None,
            thread: None,
            reload: false,
        };
        let start = |directory: &Directory| -> io::Result<()> {
            let (bell, bell_of_thread) = UnixStream::pair()?;
            bell.set_nonblocking(true)?;
            bell_of_thread.set_nonblocking(true)?;
            let about = About::new(role, interfaces);
            let service = Service::open(directory, about, ask, answered, shared, bell_of_thread);
            let (ready, is_ready) = sync_channel(1);
            let thread = thread::Builder::new().name("commands".to_owned()).spawn(move || {
                privileges::keep_only(&[]);
                // Somebody waits for it.
                let _ = ready.send(());
                service.run();
            })?;
            // The process gives its rights up after this, and then the thread could not.
            let _ = is_ready.recv();
            (commands.bell, commands.thread) = (Some(bell), Some(thread));
            Ok(())
        };
        if let Some(Err(e)) = directory.map(start) {
            tracing::warn!("commands will not see this process: {e}");
        }
        commands
    }

    /// Returns the descriptor that becomes readable when a command waits for the loop.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.bell.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Takes the requests of commands, and tells the state of the box to those that ask for it.
    /// `state` returns the state; it is called if somebody asks.
    pub(crate) fn serve(&mut self, now: Nanos, state: impl FnOnce() -> State) {
        // What rings after this is for a request that the next call takes, if this one does not.
        silence(self.bell.as_ref());
        let mut is_state_wanted = false;
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Status => is_state_wanted = true,
                Request::Reload => self.reload = true,
            }
        }
        if is_state_wanted {
            self.answer(Answer::Status(now, Box::new(state())));
        }
    }

    /// Whether a command asked for a reload before the last call of [`Self::serve`]. It is then
    /// answered by [`Self::answer_reload`].
    pub(crate) fn take_reload(&mut self) -> bool {
        std::mem::take(&mut self.reload)
    }

    /// Tells the commands that asked for a reload what became of it.
    pub(crate) fn answer_reload(&self, outcome: Reloaded) {
        self.answer(Answer::Reload(outcome));
    }

    fn answer(&self, answer: Answer) {
        // There is room for one answer of each kind. A thread that has ended needs none.
        if self.answers.try_send(answer).is_ok() {
            ring(self.bell.as_ref());
        }
    }

    /// Whether a process waits to take over. Then queues and programs stay at the end.
    pub(crate) fn has_successor(&self) -> bool {
        self.shared.successor.is_there()
    }

    /// Hands the state and the UDP socket to the process that takes over, at the end.
    pub(crate) fn hand_over(
        &self,
        sends: Vec<SendHandover>,
        receives: Vec<ReceiveHandover>,
        socket: Option<BorrowedFd<'_>>,
    ) {
        self.shared.successor.give(sends, receives, socket);
    }

    /// Ends the thread and closes its sockets. A process that waits to take over still does.
    pub(crate) fn close(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        ring(self.bell.as_ref());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread for commands had ended: see above");
        }
        self.bell = None;
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.close();
    }
}

/// Makes the other end of a bell readable.
fn ring(bell: Option<&UnixStream>) {
    // A bell that is full rings.
    let _ = bell.map(|mut bell| bell.write(&[0]));
}

/// Takes what has rung a bell.
fn silence(bell: Option<&UnixStream>) {
    let mut buffer = [0; 64];
    let _ = bell.map(|mut bell| bell.read(&mut buffer));
}

#[cfg(test)]
mod tests;
