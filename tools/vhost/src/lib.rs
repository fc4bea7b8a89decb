//! Backpressure (zD) for virtual machines: a vhost-user back end that leaves packets in a guest's
//! ring while the scheduled buffer has no room for them (Zhao's thesis, sections 4.3 and 4.4.2).
//!
//! A virtual machine's transmit rings, one or several, are its source buffers. To the one scheduled
//! buffer the machine is an aggregate flow. vhost-net takes packets as they come, and the qdisc
//! behind it drops what does not fit. This back end takes the next packet of a ring only when there
//! is room for it. Meanwhile the guest's own queues fill, and the guest's TCP slows down.
//!
//! ```text
//!  guest's driver ─ ring ─┐                                            ┌─ TAP, or
//!  guest's driver ─ ring ─┼─ gate ─ fifo / fair / strict ─ token bucket ┼─ AF_XDP, AF_PACKET
//!  guest's driver ─ ring ─┘   └──────── resume ◀────────┘              └─ another guest
//! ```
//!
//! [`run`] is the daemon and [`VhostConfig`] its configuration file. [`ring`] and [`offload`] parse
//! what a guest writes. They are public so that a fuzz target can run them alone.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

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
mod truncation;

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

use forebay_dataplane::Netdev;
use forebay_system::privileges::{Capability, Extra, keep_only, restrict_calls};
use forebay_system::signals::Signals;
use forebay_system::{allow_open_files, local};
use serde_json::json;

pub use config::{Mode, Schedule, SchedulerConfig, VhostConfig, VmConfig};
pub use egress::Outside;
pub use error::Error;
pub use statistics::{Counts, Dropped};

use engine::Engine;
use scheduler::Scheduler;
use session::Device;
use statistics::emit;

/// The MTU of an Ethernet device that reports none.
const DEFAULT_MTU: u16 = 1500;

/// Maximum number of files that a ring needs: kick, call and error, each in its session and on the
/// data thread.
const FILES_OF_A_RING: u64 = 6;
/// Number of files for all the rest: sockets, guests' memory, the way out.
const OTHER_FILES: u64 = 512;

/// Serves the virtual machines of `config` until SIGTERM or SIGINT.
///
/// It writes one line of JSON for each event to standard output: that it is ready, front ends that
/// connect and disconnect, rings that are invalid, and the total counts at the end. With
/// `reports_status` it also writes the counts every second.
///
/// # Errors
/// If the set-up fails; it then leaves everything as it was.
pub fn run(config: VhostConfig, reports_status: bool) -> Result<(), Error> {
    // This comes first so that the threads started below inherit it.
    let signals = Signals::block()?;
    // Guests cannot guess it, so they cannot choose flows that share a hash.
    let seed = RandomState::new().hash_one(());
    let scheduler = Scheduler::new(&config.scheduler, &config.vms, seed)?;
    let egress = egress::open(&config.outside)?;
    let mtu = mtu(&config.outside);
    // A ring without its descriptors would not start.
    let rings: u64 = config.vms.iter().map(|vm| 2 * u64::from(vm.queues) + 1).sum();
    allow_open_files(OTHER_FILES + FILES_OF_A_RING * rings)?;
    let (sender, commands) = session::channel()?;
    let mut sockets = Vec::new();
    for vm in &config.vms {
        sockets.push(Socket::bind(&vm.socket)?);
    }
    let ready = json!({
        "event": "ready",
        "outside": egress.describe(),
        "vms": config.vms.iter().map(|vm| &vm.name).collect::<Vec<_>>(),
    });
    // A port takes its program away at the end. Threads inherit what is left.
    let kept: &[_] = match config.outside {
        Outside::Port { .. } => &[Capability::NetAdmin],
        Outside::Tap { .. } => &[],
    };
    keep_only(kept);
    for (index, (vm, socket)) in config.vms.iter().zip(&sockets).enumerate() {
        let (listener, sender) = (socket.listener.try_clone()?, sender.try_clone()?);
        let device = Device { mac: vm.mac, mtu, pairs: vm.queues };
        thread::Builder::new()
            .name(format!("front end {index}"))
            .spawn(move || session::serve(index, listener, device, sender))?;
    }
    restrict_calls(&[Extra::Accept, Extra::RemoveFiles]);
    let mut engine = Engine::new(config.vms, scheduler, egress, commands);
    emit(&ready);
    let ended = engine.run(&signals, reports_status);
    engine.emit_total();
    ended
}

/// The longest IP packet, in bytes, that the way out carries.
fn mtu(outside: &Outside) -> u16 {
    let mtu = match outside {
        Outside::Port { netdev, .. } => Some(netdev.mtu),
        Outside::Tap { name, .. } => Netdev::find(name).ok().map(|netdev| netdev.mtu),
    };
    mtu.map_or(DEFAULT_MTU, |mtu| mtu.min(u16::MAX.into()) as u16)
}

/// A socket that front ends connect to; dropping it removes its file.
#[derive(Debug)]
struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Listens at `path`. A stale socket there is replaced; any other file is an error.
    fn bind(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Socket { path: path.to_owned(), source };
        let listener = match UnixListener::bind(path) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                // A connection would wait for a process that accepts none.
                if !fs::symlink_metadata(path).map_err(failed)?.file_type().is_socket() {
                    return Err(failed(e));
                }
                if local::is_alive(path) {
                    return Err(Error::SocketInUse(path.to_owned()));
                }
                // A killed process left it behind.
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
        // The operator may have removed it already.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("fb-vhost-socket-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let refused = Socket::bind(&path).unwrap_err();
        assert!(matches!(refused, Error::SocketInUse(_)), "{refused}");
        let unnoticed = listener.accept().unwrap_err().kind();
        assert_eq!(unnoticed, io::ErrorKind::WouldBlock, "no connection waits there");
        drop(listener);
        drop(Socket::bind(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "of another program").unwrap();
        let refused = Socket::bind(&path).unwrap_err();
        assert!(matches!(refused, Error::Socket { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "of another program");
        fs::remove_file(&path).unwrap();
    }
}
