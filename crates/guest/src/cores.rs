//! A core for each guest. One that moves between cores wakes an idle one at every switch between its
//! kernel and its processes, and is ten times slower; two on one core share its time.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A core that no other guest of this machine has, as long as this value lives; or, when all are
/// taken, one to share.
#[derive(Debug)]
pub(crate) struct Core {
    number: usize,
    /// A name that the kernel keeps for this process and forgets with it, however it ends.
    #[allow(dead_code, reason = "held for what dropping it does")]
    claim: Option<UnixDatagram>,
}

impl Core {
    /// Claims a core of those that this process may run on.
    ///
    /// # Errors
    /// If the system does not say which those are.
    pub(crate) fn claim() -> io::Result<Self> {
        let allowed = allowed()?;
        let free = allowed.iter().rev().find_map(|&number| {
            let name = SocketAddr::from_abstract_name(format!("forebay-core-{number}")).ok()?;
            Some(Self { number, claim: Some(UnixDatagram::bind_addr(&name).ok()?) })
        });
        // Each time another, so that the guests of this process share with others' and not with
        // each other.
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let shared = allowed[TURN.fetch_add(1, Ordering::Relaxed) % allowed.len()];
        Ok(free.unwrap_or(Self { number: shared, claim: None }))
    }

    /// Its number.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

/// The cores that this process may run on; at least one.
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

/// Pins the calling process to the core `number`; async-signal-safe.
///
/// # Errors
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
    use super::*;

    #[test]
    fn no_twoclaims_are_for_one_core() {
        let all = allowed().unwrap();
        let claims: Vec<_> = all.iter().map(|_| Core::claim().unwrap()).collect();
        assert!(claims.iter().all(|core| all.contains(&core.number())));
        // Another program of ours may hold some; those are shared, and not claimed.
        let mut own: Vec<_> = claims.iter().filter(|c| c.claim.is_some()).collect();
        own.sort_unstable_by_key(|core| core.number());
        assert!(own.windows(2).all(|pair| pair[0].number() != pair[1].number()));
        if own.len() == all.len() {
            assert!(Core::claim().unwrap().claim.is_none(), "none is left");
        }
        let given_back = own.first().map(|core| core.number());
        drop(claims);
        if given_back.is_some() {
            assert!(Core::claim().unwrap().claim.is_some());
        }
    }
}
