//! Sessions with front ends, which describe their guests' memory and rings.
//!
//! Each virtual machine has a socket and a thread that serves one front end at a time. A front end
//! that sends half a message delays only itself. The session passes its results to the data thread
//! as [`Command`]s. Only the data thread accesses rings.

mod handler;
mod memory;
mod message;
mod region;

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
use crate::features::{self, has};
use crate::ring::{Memory, Setup};
use crate::truncation::Watch;

/// Maximum number of commands that wait for the data thread; a session blocks at this number.
const COMMANDS: usize = 64;
/// Time in which a front end must complete a message that it has begun.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system refused a connection, for example for lack of descriptors.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of pairs of rings of a virtual machine.
pub(crate) const MAX_PAIRS: u8 = 16;

/// One of a virtual machine's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingId {
    /// The ring of frames that the guest receives, of the pair with this number.
    Receive(u8),
    /// The ring of frames that the guest sends, of the pair with this number.
    Transmit(u8),
    /// The ring of the driver's requests to the device.
    Control,
}

impl RingId {
    /// The ring with this index in virtio (virtio 1.2, section 5.1.2) of a device with `pairs`
    /// pairs of rings, of whose features the driver has accepted `features`.
    ///
    /// Without several pairs the driver knows one, and then a control queue follows it.
    pub(crate) fn of(index: usize, pairs: u8, features: u64) -> Option<Self> {
        let pairs = if has(features, features::QUEUES) { pairs } else { 1 };
        let pair = u8::try_from(index / 2).ok()?;
        match index % 2 {
            0 if pair < pairs => Some(Self::Receive(pair)),
            1 if pair < pairs => Some(Self::Transmit(pair)),
            0 if pair == pairs && has(features, features::CONTROL) => Some(Self::Control),
            _ => None,
        }
    }
}

/// A request of a session to the data thread, for the virtual machine with index `vm`.
#[derive(Debug)]
pub(crate) enum Command {
    /// A front end has connected.
    Connected { vm: usize },
    /// A ring may be used from this command on.
    Start {
        vm: usize,
        ring: RingId,
        setup: Box<Setup>,
        /// Watches `memory`, and is dropped before it.
        watch: Arc<Watch>,
        memory: Arc<Memory>,
        /// Features that the driver has accepted.
        features: u64,
        /// Descriptor that is written to when the ring becomes invalid.
        error: Option<std::fs::File>,
    },
    /// A ring must not be accessed any more. The answer is the index of its next chain, or `None`
    /// if the ring did not run.
    Stop { vm: usize, ring: RingId, answer: SyncSender<Option<u16>> },
    /// The front end has reset the device: the driver sets its number of pairs in use again.
    Reset { vm: usize },
    /// The front end has disconnected, for the reason `why`.
    Disconnected { vm: usize, why: String },
}

/// Sending end of the commands to the data thread.
#[derive(Debug)]
pub(crate) struct CommandSender {
    commands: SyncSender<Command>,
    wake: EventFd,
}

/// Receiving end of the commands, for the data thread.
#[derive(Debug)]
pub(crate) struct CommandReceiver {
    commands: Receiver<Command>,
    wake: EventFd,
}

/// Creates both ends of the channel between sessions and the data thread.
pub(crate) fn channel() -> io::Result<(CommandSender, CommandReceiver)> {
    let (sender, receiver) = sync_channel(COMMANDS);
    let wake = EventFd::new(EFD_NONBLOCK)?;
    let sender = CommandSender { commands: sender, wake: wake.try_clone()? };
    Ok((sender, CommandReceiver { commands: receiver, wake }))
}

impl CommandSender {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { commands: self.commands.clone(), wake: self.wake.try_clone()? })
    }

    /// Sends `command`; returns whether the data thread still exists.
    fn send(&self, command: Command) -> bool {
        let sent = self.commands.send(command).is_ok();
        // This fails only if the counter is full, and then the data thread is awake.
        let _ = self.wake.write(1);
        sent
    }
}

impl CommandReceiver {
    /// Descriptor that becomes readable when commands wait.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Returns the next waiting command.
    pub(crate) fn next(&self) -> Option<Command> {
        let _ = self.wake.read();
        self.commands.try_recv().ok()
    }
}

/// Serves front ends at `listener` for the virtual machine with index `vm`, until the process ends.
pub(crate) fn serve(vm: usize, listener: UnixListener, device: Device, sender: CommandSender) {
    let sender = Arc::new(sender);
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(RETRY_PAUSE);
            continue;
        };
        if !sender.send(Command::Connected { vm }) {
            return;
        }
        let why = serve_connection(vm, stream, &device, &sender);
        if !sender.send(Command::Disconnected { vm, why }) {
            return;
        }
    }
}

/// Serves one front end until it disconnects; returns the reason.
fn serve_connection(
    vm: usize,
    stream: UnixStream,
    device: &Device,
    sender: &Arc<CommandSender>,
) -> String {
    let handler = Arc::new(Mutex::new(Handler::new(vm, device.clone(), Arc::clone(sender))));
    let own = match stream.try_clone() {
        Ok(own) => own,
        Err(e) => return e.to_string(),
    };
    let _ = stream.set_read_timeout(Some(MESSAGE_TIMEOUT));
    let _ = stream.set_write_timeout(Some(MESSAGE_TIMEOUT));
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
