//! A core for each guest. A guest that moves between cores wakes an idle one at every switch
//! between its kernel and its processes, and is ten times slower; two guests on one core share its
//! time.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A core that no other guest of this machine has while this value lives; if all are taken, a
/// shared one.
#[derive(Debug)]
pub(crate) struct Core {
    number: usize,
    /// A socket name that the kernel releases when this process ends for any reason.
    #[allow(dead_code, reason = "held for what dropping it does")]
    claim: Option<UnixDatagram>,
}

impl Core {
    /// Claims one of the cores on which this process may run.
    ///
    /// # Errors
    ///
    /// If the system does not list them.
    pub(crate) fn claim() -> io::Result<Self> {
        Self::claim_by_name("forebay-core")
    }

    /// Claims one of the cores by a socket whose name is `prefix` with the core's number.
    fn claim_by_name(prefix: &str) -> io::Result<Self> {
        let allowed = allowed()?;
        let free = allowed.iter().rev().find_map(|&number| {
            let name = SocketAddr::from_abstract_name(format!("{prefix}-{number}")).ok()?;
            Some(Self { number, claim: Some(UnixDatagram::bind_addr(&name).ok()?) })
        });
        // A different one each time, so that the guests of this process do not share one with each
        // other.
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let shared = allowed[TURN.fetch_add(1, Ordering::Relaxed) % allowed.len()];
        Ok(free.unwrap_or(Self { number: shared, claim: None }))
    }

    /// The number of the core.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

/// The cores on which this process may run; at least one.
fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: all-zero is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: `set` is valid for writing its own size.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the numbers are within the set.
    let is_set = |&number: &usize| unsafe { libc::CPU_ISSET(number, &set) };
    let cores: Vec<_> = (0..libc::CPU_SETSIZE as usize).filter(is_set).collect();
    if cores.is_empty() { Err(io::Error::other("no core is allowed")) } else { Ok(cores) }
}

/// Pins the calling process to the core `number`. The function is async-signal-safe.
///
/// # Errors
///
/// If the system refuses.
pub(crate) fn pin_to(number: usize) -> io::Result<()> {
    // SAFETY: all-zero is a valid, empty set, and `number` was within one of its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(number, &mut set);
        set
    };
    // SAFETY: `set` is valid for reading its own size.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Claims a core beside other claims of this test. Guests of other programs do not count.
    fn claim() -> Core {
        Core::claim_by_name(&format!("forebay-core-test-{}", std::process::id())).unwrap()
    }

    #[test]
    fn no_two_claims_are_for_one_core() {
        let all = allowed().unwrap();
        let claims: Vec<_> = all.iter().map(|_| claim()).collect();
        assert!(claims.iter().all(|core| core.claim.is_some()));
        let mut numbers: Vec<_> = claims.iter().map(Core::number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, all, "each core once");
        let shared = claim();
        assert!(shared.claim.is_none() && all.contains(&shared.number()), "none is left");
        drop(claims);
        // A process that another test starts keeps the sockets until it runs its program.
        let is_free = |_| {
            thread::yield_now();
            claim().claim.is_some()
        };
        assert!((0..1_000_000).any(is_free), "cores are given back");
    }
}
