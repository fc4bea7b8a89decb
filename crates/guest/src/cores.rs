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
        let allowed = allowed()?;
        let free = allowed.iter().rev().find_map(|&number| {
            let name = SocketAddr::from_abstract_name(format!("forebay-core-{number}")).ok()?;
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
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn no_two_claims_are_for_one_core() {
        let all = allowed().unwrap();
        let claims: Vec<_> = all.iter().map(|_| Core::claim().unwrap()).collect();
        assert!(claims.iter().all(|core| all.contains(&core.number())));
        // Another program of ours may hold some cores; those are shared and not claimed.
        let mut own: Vec<_> = claims.iter().filter(|c| c.claim.is_some()).collect();
        own.sort_unstable_by_key(|core| core.number());
        assert!(own.windows(2).all(|pair| pair[0].number() != pair[1].number()));
        if own.len() == all.len() {
            assert!(Core::claim().unwrap().claim.is_none(), "none is left");
        }
        let given_back = own.first().map(|core| core.number());
        drop(claims);
        if given_back.is_some() {
            // Another test may claim what was given back, and gives it back in turn.
            let start = Instant::now();
            while Core::claim().unwrap().claim.is_none() {
                assert!(start.elapsed() < Duration::from_secs(60), "no core was given back");
                thread::yield_now();
            }
        }
    }
}
