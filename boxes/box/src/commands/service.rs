//! The thread that has the local sockets of a box.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};

use forebay_records::{RELOAD_SOCKET, STATUS_SOCKET, STATUS_VERSION, Status, UPGRADE_SOCKET};
use forebay_system::clock;
use forebay_system::local::{Directory, Peer};
use forebay_system::wait::Waiter;
use forebay_units::Nanos;

use super::desk::{Desk, Waiting};
use super::{Answer, Request, Shared, ring, silence};
use crate::status::{State, seconds};

/// The most connections that are accepted at each socket before a pause.
pub(super) const MAX_ACCEPTS: usize = 16;
/// The pause after connections were accepted, so that many of them take little processor time.
pub(super) const ACCEPT_PAUSE: Nanos = Nanos::from_millis(10);
/// The most commands that wait or read at a time, beside one that takes over.
pub(super) const MAX_COMMANDS: usize = 8;
/// The time that a reader of the state has, from its connection to the last byte.
pub(super) const STATUS_TIMEOUT: Nanos = Nanos::from_secs(5);
/// The same for a command that asks for a reload. Many bundles may take the loop seconds.
const RELOAD_TIMEOUT: Nanos = Nanos::from_secs(10);
/// The time between two lines about refused connections.
const REPORT_INTERVAL: Nanos = Nanos::from_secs(60);

/// What does not change of a box.
pub(super) struct About {
    role: &'static str,
    interfaces: Vec<String>,
    started: Nanos,
}

impl About {
    /// Describes a box that starts now.
    pub(super) fn new(role: &'static str, interfaces: Vec<String>) -> Self {
        Self { role, interfaces, started: clock::now() }
    }
}

/// The sockets, and who is connected to them.
pub(super) struct Service {
    listeners: Vec<(Kind, UnixListener)>,
    about: About,
    requests: SyncSender<Request>,
    answers: Receiver<Answer>,
    shared: Arc<Shared>,
    /// Wakes the loop, and is readable when the loop wakes this thread.
    bell: UnixStream,
    status: Desk<UnixStream>,
    reload: Desk<UnixStream>,
    replies: Vec<Reply>,
    /// The time before which no connection is accepted.
    accepts_at: Nanos,
    report: StrangersReport,
}

/// What commands connect to a socket for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Status,
    Reload,
    Upgrade,
}

impl Kind {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Status, STATUS_SOCKET),
        (Self::Reload, RELOAD_SOCKET),
        (Self::Upgrade, UPGRADE_SOCKET),
    ];
}

/// An answer that has not yet been read.
struct Reply {
    stream: UnixStream,
    text: Arc<[u8]>,
    sent: usize,
    until: Nanos,
}

impl Service {
    /// Opens the sockets of this process. The box runs without one that cannot be opened.
    pub(super) fn open(
        directory: &Directory,
        about: About,
        requests: SyncSender<Request>,
        answers: Receiver<Answer>,
        shared: Arc<Shared>,
        bell: UnixStream,
    ) -> Self {
        let process = std::process::id().to_string();
        let open = |(kind, name)| {
            let warn = |e: &_| tracing::warn!("`forebay {name}` will not see this process: {e}");
            Some((kind, directory.listen(name, &process).inspect_err(warn).ok()?))
        };
        Self {
            listeners: Kind::ALL.into_iter().filter_map(open).collect(),
            about,
            requests,
            answers,
            shared,
            bell,
            status: Desk::new(),
            reload: Desk::new(),
            replies: Vec::new(),
            accepts_at: Nanos::ZERO,
            report: StrangersReport::default(),
        }
    }

    /// Serves commands until the box ends.
    pub(super) fn run(mut self) {
        while !self.shared.is_ending.load(Ordering::SeqCst) {
            self.wait(clock::now());
            silence(Some(&self.bell));
            self.turn(clock::now());
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, now: Nanos) {
        let accepts = now >= self.accepts_at;
        let listeners = self.listeners.iter().filter(|_| accepts);
        let readable = listeners.map(|(_, listener)| listener.as_raw_fd());
        let bell = [self.bell.as_raw_fd()];
        let writable = self.replies.iter().map(|reply| reply.stream.as_raw_fd());
        let mut waiter = Waiter::new(bell.into_iter().chain(readable).chain(writable));
        let first = 1 + if accepts { self.listeners.len() } else { 0 };
        (first..first + self.replies.len()).for_each(|index| waiter.set(index, false, true));
        let ends = self.replies.iter().map(|reply| reply.until);
        let ends = ends.chain(self.status.next_end()).chain(self.reload.next_end());
        let due = ends.chain((!accepts).then_some(self.accepts_at)).min();
        // Without a deadline the bell ends the wait, or a connection.
        waiter.wait_until(due.unwrap_or(now + REPORT_INTERVAL));
    }

    /// Does what can be done without waiting.
    pub(super) fn turn(&mut self, now: Nanos) {
        while let Ok(answer) = self.answers.try_recv() {
            self.take(answer);
        }
        if now >= self.accepts_at {
            self.accept(now);
        }
        for (desk, request) in
            [(&mut self.status, Request::Status), (&mut self.reload, Request::Reload)]
        {
            desk.expire(now);
            // There is room for one request of each kind. A loop that has ended answers nobody.
            if desk.ask() && self.requests.try_send(request).is_ok() {
                ring(Some(&self.bell));
            }
        }
        self.replies.retain_mut(|reply| now < reply.until && reply.is_unfinished());
        self.report.note(now, self.shared.strangers.load(Ordering::Relaxed));
    }

    /// Accepts connections, a bounded number at each socket.
    fn accept(&mut self, now: Nanos) {
        let mut came = false;
        for index in 0..self.listeners.len() {
            for _ in 0..MAX_ACCEPTS {
                let (kind, listener) = &self.listeners[index];
                let (kind, stream) = match listener.accept() {
                    Ok((stream, _)) => (*kind, stream),
                    Err(e) => {
                        // Without a free descriptor the next attempt would fail at once too.
                        came |= e.kind() != io::ErrorKind::WouldBlock;
                        break;
                    }
                };
                came = true;
                self.admit(now, kind, stream);
            }
        }
        if came {
            self.accepts_at = now + ACCEPT_PAUSE;
        }
    }

    /// Takes a connection in, if it is one of root or of the box's own user.
    fn admit(&mut self, now: Nanos, kind: Kind, stream: UnixStream) {
        if !Peer::of(&stream).is_ok_and(|peer| peer.is_trusted()) {
            self.shared.strangers.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let waiting = self.status.len() + self.reload.len() + self.replies.len();
        match kind {
            Kind::Upgrade => self.shared.successor.arrive(stream),
            // Who is one too many sees that the connection ends.
            Kind::Status | Kind::Reload if waiting >= MAX_COMMANDS => {}
            Kind::Status => self.status.arrive(stream, now + STATUS_TIMEOUT),
            Kind::Reload => self.reload.arrive(stream, now + RELOAD_TIMEOUT),
        }
    }

    /// Begins to send an answer of the loop to the commands that wait for it.
    fn take(&mut self, answer: Answer) {
        // Numbers and texts can always be written.
        let (waiting, text) = match answer {
            Answer::Status(now, state) => {
                (self.status.answered(), serde_json::to_vec(&self.status(now, *state)))
            }
            Answer::Reload(outcome) => (self.reload.answered(), serde_json::to_vec(&outcome)),
        };
        let text: Arc<[u8]> = text.unwrap_or_default().into();
        self.replies.extend(waiting.into_iter().map(|Waiting { command: stream, until }| Reply {
            stream,
            text: Arc::clone(&text),
            sent: 0,
            until,
        }));
    }

    #[cfg(test)]
    pub(super) fn listener(&self, kind: &str) -> &UnixListener {
        let wanted = Kind::ALL.into_iter().find(|(_, name)| *name == kind).map(|(kind, _)| kind);
        let found = self.listeners.iter().find(|(kind, _)| Some(*kind) == wanted);
        found.map(|(_, listener)| listener).unwrap()
    }

    fn status(&self, now: Nanos, state: State) -> Status {
        let State { not_understood, hand_over_drops, sends, receives } = state;
        let About { role, interfaces, started } = &self.about;
        Status {
            version: STATUS_VERSION,
            role: (*role).to_owned(),
            process: std::process::id(),
            run: started.0,
            up_s: seconds(now, *started),
            interfaces: interfaces.clone(),
            not_understood,
            hand_over_drops,
            strangers: self.shared.strangers.load(Ordering::Relaxed),
            sends,
            receives,
        }
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

/// Warns about connections of other users, at most once a minute.
#[derive(Default)]
struct StrangersReport {
    said: u64,
    due: Nanos,
}

impl StrangersReport {
    /// Notes the number of such connections so far.
    fn note(&mut self, now: Nanos, strangers: u64) {
        if strangers > self.said && now >= self.due {
            let new = strangers - self.said;
            tracing::warn!("{new} connections of other users to the local sockets were refused");
            (self.said, self.due) = (strangers, now + REPORT_INTERVAL);
        }
    }
}
