//! Messages to the service manager (systemd's `Type=notify` and `WatchdogSec=`, sd_notify(3)).
//!
//! Without a service manager these functions do nothing. A message that cannot be sent is lost: a
//! daemon never ends because of it.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_units::Nanos;

/// The socket of the service manager.
struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// Half the time after which the manager takes the process for hung; `None` without a watchdog.
    interval: Option<Nanos>,
    /// The time of the next sign of life, in nanoseconds.
    due: AtomicU64,
}

static MANAGER: OnceLock<Option<Manager>> = OnceLock::new();

impl Manager {
    /// Opens the socket that the environment names.
    fn find() -> Option<Self> {
        let name = std::env::var_os("NOTIFY_SOCKET")?;
        // `@` stands for the zero byte of an abstract name.
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(&name),
        };
        let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        // The watchdog may be meant for another process.
        let mine = variable("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = variable("WATCHDOG_USEC").filter(|usec| mine && *usec > 0);
        let socket = UnixDatagram::unbound().ok()?;
        // A manager that does not read delays no packet.
        socket.set_nonblocking(true).ok()?;
        Some(Self {
            socket,
            address: address.ok()?,
            interval: watchdog.map(|usec| Nanos::from_micros(usec / 2)),
            due: AtomicU64::new(0),
        })
    }

    fn send(&self, message: &str) {
        // The documentation of this module says why the result does not matter.
        let _ = self.socket.send_to_addr(message.as_bytes(), &self.address);
    }

    fn alive(&self, now: Nanos) {
        let Some(interval) = self.interval else { return };
        if now.0 >= self.due.load(Ordering::Relaxed) {
            self.due.store((now + interval).0, Ordering::Relaxed);
            self.send("WATCHDOG=1");
        }
    }
}

/// Reports that the set-up is complete.
pub fn ready() {
    if let Some(manager) = MANAGER.get_or_init(Manager::find) {
        manager.send("READY=1");
    }
}

/// Reports that the process lives, as often as the service manager's watchdog wants to know. Call
/// it from the loop that must not hang, after [`ready`].
pub fn alive(now: Nanos) {
    if let Some(Some(manager)) = MANAGER.get() {
        manager.alive(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_come_twice_in_the_watchdogs_time() {
        let name = format!("fb-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let receiver = UnixDatagram::bind_addr(&address).unwrap();
        receiver.set_nonblocking(true).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        let interval = Some(Nanos::from_millis(500));
        let manager = Manager { socket, address, interval, due: AtomicU64::new(0) };
        let mut count = 0;
        for ms in 1..=2000 {
            manager.alive(Nanos::from_millis(ms));
            let mut buffer = [0; 32];
            while let Ok(length) = receiver.recv(&mut buffer) {
                assert_eq!(&buffer[..length], b"WATCHDOG=1");
                count += 1;
            }
        }
        assert_eq!(count, 4);
        let quiet = Manager { interval: None, ..manager };
        quiet.alive(Nanos::from_secs(9));
        assert!(receiver.recv(&mut [0; 32]).is_err());
    }
}
