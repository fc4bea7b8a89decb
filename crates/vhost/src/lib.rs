//! zD for virtual machines, in user space: a vhost-user back end that leaves packets in their rings
//! while the scheduled buffer has no room for them (Zhao's thesis, sections 4.3 and 4.4.2).
//!
//! Each virtual machine's transmit ring is a source buffer, and an aggregate flow of the one
//! scheduled buffer. Where vhost-net takes packets as they come, and the qdisc behind it drops what does
//! not fit, here a ring is asked for its next packet only when there is room for it; meanwhile the
//! guest's own queues fill, and its own TCP sees that.
//!
//! ```text
//!  guest's driver ─ ring ─┐                                            ┌─ TAP, or
//!  guest's driver ─ ring ─┼─ gate ─ fifo / fair / strict ─ token bucket ┼─ AF_XDP, AF_PACKET
//!  guest's driver ─ ring ─┘   └──────── resume ◀────────┘              └─ another guest
//! ```
//!
//! [`run`] is the daemon; [`VhostConfig`] its file. [`ring`] and [`offload`] are what a guest can write
//! nonsense into, and stand by themselves so that this can be tried.

mod config;
mod egress;
mod engine;
mod error;
mod features;
pub mod offload;
mod packet;
pub mod ring;
mod scheduler;
mod session;
mod statistics;
mod switch;

use std::fs;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use forebay_dataplane::Netdev;
use forebay_dataplane::signals::Signals;
use serde_json::json;

pub use config::{Mode, Schedule, SchedulerConfig, VhostConfig, VmConfig};
pub use egress::Outside;
pub use error::Error;
pub use statistics::{Counts, Dropped};

use engine::Engine;
use scheduler::Scheduler;
use session::Device;
use statistics::say;

/// The MTU of an Ethernet device that does not say.
const MTU: u16 = 1500;

/// Serves the virtual machines of `config` until SIGTERM or SIGINT.
///
/// What happens is said on standard output, a line of JSON each: that all is set up, front ends that come
/// and go, rings that cannot be followed, and at the end what was counted; with `tells`, that every second
/// too.
///
/// # Errors
/// If it cannot be set up, in which case everything is as it was.
pub fn run(config: VhostConfig, tells: bool) -> Result<(), Error> {
    // First, so that the threads that follow inherit it.
    let signals = Signals::block()?;
    let scheduler = Scheduler::new(&config.scheduler, &config.vms)?;
    let egress = egress::open(&config.outside)?;
    let mtu = mtu(&config.outside);
    let (remote, commands) = session::channel()?;
    let mut sockets = Vec::new();
    for vm in &config.vms {
        sockets.push(Socket::bind(&vm.socket)?);
    }
    let said = json!({
        "event": "ready",
        "outside": egress.describe(),
        "vms": config.vms.iter().map(|vm| &vm.name).collect::<Vec<_>>(),
    });
    for (index, (vm, socket)) in config.vms.iter().zip(&sockets).enumerate() {
        let (listener, remote) = (socket.listener.try_clone()?, remote.try_clone()?);
        let device = Device { mac: vm.mac, mtu };
        thread::Builder::new()
            .name(format!("front end {index}"))
            .spawn(move || session::serve(index, listener, device, remote))?;
    }
    let mut engine = Engine::new(config.vms, scheduler, egress, commands);
    say(&said);
    let ended = engine.run(&signals, tells);
    engine.say_total();
    ended
}

/// The longest IP packet that goes out there.
fn mtu(outside: &Outside) -> u16 {
    let mtu = match outside {
        Outside::Port { netdev, .. } => Some(netdev.mtu),
        Outside::Tap { name, .. } => Netdev::find(name).ok().map(|netdev| netdev.mtu),
    };
    mtu.map_or(MTU, |mtu| mtu.min(u16::MAX.into()) as u16)
}

/// A socket that front ends connect to; its file goes with this value.
#[derive(Debug)]
struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Takes the place of a socket that nobody listens at any more, and of nothing else.
    fn bind(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Socket { path: path.to_owned(), source };
        let listener = match UnixListener::bind(path) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                match UnixStream::connect(path) {
                    Ok(_) => return Err(Error::SocketInUse(path.to_owned())),
                    // Left by one that was killed.
                    Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(e) => return Err(failed(e)),
                }
                fs::remove_file(path).map_err(failed)?;
                UnixListener::bind(path)
            }
            bound => bound,
        };
        Ok(Self { listener: listener.map_err(failed)?, path: path.to_owned() })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = fs::remove_file(&self.path);
    }
}
