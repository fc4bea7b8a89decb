//! The talk with a front end: who it is, where its guest's memory and rings are.
//!
//! Each virtual machine has a socket, and a thread that waits there: one front end at a time, and the
//! next when it has gone. A front end that says half a message holds up nobody but itself. What is
//! agreed goes to the data thread as [`Command`]s; the data thread alone touches rings.

mod handler;
mod memory;
mod message;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use vhost::vhost_user::BackendReqHandler;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub(crate) use self::handler::Device;
use self::handler::Handler;
use crate::ring::{Memory, Setup};

/// Commands that wait for the data thread, at most; a session waits when there are so many.
const COMMANDS: usize = 64;
/// How long a front end may take over a message that it has begun.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait after the system refused a connection, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Which of a virtual machine's two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Of frames that the guest receives.
    Receive,
    /// Of frames that it sends.
    Transmit,
}

impl Which {
    /// As virtio numbers them (virtio 1.2, section 5.1.2).
    pub(crate) fn of(index: u32) -> Option<Self> {
        match index {
            0 => Some(Self::Receive),
            1 => Some(Self::Transmit),
            _ => None,
        }
    }
}

/// What a session asks of the data thread, for virtual machine number `vm`.
#[derive(Debug)]
pub(crate) enum Command {
    /// A front end has come.
    Connected { vm: usize },
    /// A ring may be used from now on.
    Start {
        vm: usize,
        which: Which,
        setup: Box<Setup>,
        memory: Arc<Memory>,
        /// Features that the driver takes.
        features: u64,
        /// Written to when the ring cannot be followed.
        error: Option<std::fs::File>,
    },
    /// A ring must not be touched any more; answered with the place of the next chain once that is so,
    /// `None` if it did not run.
    Stop { vm: usize, which: Which, answer: SyncSender<Option<u16>> },
    /// The front end has gone, and why.
    Disconnected { vm: usize, why: String },
}

/// The data thread, for sessions.
#[derive(Debug)]
pub(crate) struct Remote {
    commands: SyncSender<Command>,
    wake: EventFd,
}

/// The data thread's end.
#[derive(Debug)]
pub(crate) struct Commands {
    commands: Receiver<Command>,
    wake: EventFd,
}

/// Both ends of what sessions talk to the data thread through.
pub(crate) fn channel() -> io::Result<(Remote, Commands)> {
    let (sender, receiver) = sync_channel(COMMANDS);
    let wake = EventFd::new(EFD_NONBLOCK)?;
    let remote = Remote { commands: sender, wake: wake.try_clone()? };
    Ok((remote, Commands { commands: receiver, wake }))
}

impl Remote {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { commands: self.commands.clone(), wake: self.wake.try_clone()? })
    }

    /// Whether the data thread is there to hear it.
    fn send(&self, command: Command) -> bool {
        let sent = self.commands.send(command).is_ok();
        // It fails only where the counter is full, and then the data thread is awake.
        let _ = self.wake.write(1);
        sent
    }
}

impl Commands {
    /// What becomes readable when there are commands.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    pub(crate) fn next(&self) -> Option<Command> {
        let _ = self.wake.read();
        self.commands.try_recv().ok()
    }
}

/// Serves front ends at `listener` for virtual machine number `vm`, until the process ends.
pub(crate) fn serve(vm: usize, listener: UnixListener, device: Device, remote: Remote) {
    let remote = Arc::new(remote);
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        if !remote.send(Command::Connected { vm }) {
            return;
        }
        let why = talk(vm, stream, &device, &remote);
        if !remote.send(Command::Disconnected { vm, why }) {
            return;
        }
    }
}

/// Talks with one front end until it goes; why it did.
fn talk(vm: usize, stream: UnixStream, device: &Device, remote: &Arc<Remote>) -> String {
    let handler = Arc::new(Mutex::new(Handler::new(vm, device.clone(), Arc::clone(remote))));
    let own = match stream.try_clone() {
        Ok(own) => own,
        Err(e) => return e.to_string(),
    };
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let mut requests = BackendReqHandler::from_stream(stream, Arc::clone(&handler));
    let why = loop {
        if let Err(e) = message::wait(&own) {
            break e.to_string();
        }
        let done = match message::is_memory_table(&own) {
            Err(e) => Err(e.to_string()),
            Ok(true) => memory::receive(&own, &handler).map_err(|e| e.to_string()),
            Ok(false) => requests.handle_request().map_err(|e| e.to_string()),
        };
        if let Err(e) = done {
            break e;
        }
    };
    handler.lock().unwrap_or_else(PoisonError::into_inner).stop_all();
    why
}

#[cfg(test)]
mod tests;
