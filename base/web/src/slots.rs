//! Limits the number of connections.
//!
//! A connection is *half-open* until one of its requests shows a valid token or certificate. Anyone
//! can make half-open connections, so they have limits of their own. At these limits the oldest one
//! is closed for the new one, since a good client needs its place for a few round trips only.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The most connections in all.
pub const MAX_CONNECTIONS: usize = 512;
/// The most half-open connections.
pub const MAX_HALF_OPEN: usize = 256;
/// The most half-open connections of one IPv4 address, or of one IPv6 network of 64 bits, which is
/// what a host has (RFC 4291, section 2.5.1).
pub const MAX_HALF_OPEN_PER_HOST: usize = 16;
/// The most connections of one client.
pub const MAX_PER_CLIENT: usize = 64;

/// A half-open connection.
#[derive(Debug)]
struct HalfOpen {
    host: IpAddr,
    /// Dropped to close the connection.
    close: oneshot::Sender<()>,
}

/// A connection of a client that has shown a valid token or certificate.
#[derive(Debug)]
struct Known<W> {
    who: W,
    /// Kept, because dropping it would close the connection.
    _close: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Taken<W> {
    /// The half-open connections by number; older ones have lower numbers.
    half_open: BTreeMap<u64, HalfOpen>,
    /// The number of half-open connections of each host that has any.
    hosts: HashMap<IpAddr, usize>,
    /// All other connections, by number.
    known: HashMap<u64, Known<W>>,
    next: u64,
}

impl<W> Default for Taken<W> {
    fn default() -> Self {
        let (half_open, hosts) = (BTreeMap::new(), HashMap::new());
        Self { half_open, hosts, known: HashMap::new(), next: 0 }
    }
}

impl<W> Taken<W> {
    fn len(&self) -> usize {
        self.half_open.len() + self.known.len()
    }

    /// Removes a half-open connection; dropping what is returned closes it.
    fn remove(&mut self, number: u64) -> Option<HalfOpen> {
        let removed = self.half_open.remove(&number)?;
        if let Some(count) = self.hosts.get_mut(&removed.host) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&removed.host);
            }
        }
        Some(removed)
    }

    /// Closes the oldest half-open connection of `host`. Returns whether there was one.
    fn close_oldest_of(&mut self, host: IpAddr) -> bool {
        let oldest = self.half_open.iter().find(|(_, open)| open.host == host).map(|(n, _)| *n);
        oldest.and_then(|number| self.remove(number)).is_some()
    }

    /// Closes the oldest half-open connection of the host with the most. Returns whether there was
    /// one.
    fn close_oldest(&mut self) -> bool {
        let most = self.hosts.values().max().copied().unwrap_or(0);
        let oldest = self.half_open.iter().find(|(_, open)| self.hosts[&open.host] == most);
        let number = oldest.map(|(number, _)| *number);
        number.and_then(|number| self.remove(number)).is_some()
    }
}

/// The slots of connections.
#[derive(Debug)]
pub(crate) struct Slots<W>(Arc<Mutex<Taken<W>>>);

impl<W> Default for Slots<W> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<W> Clone for Slots<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A slot, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot<W> {
    slots: Slots<W>,
    number: u64,
}

/// A slot that was taken.
#[derive(Debug)]
pub(crate) struct Admitted<W> {
    pub(crate) slot: Slot<W>,
    /// Ends with an error when the connection has to be closed for another one.
    pub(crate) closed: oneshot::Receiver<()>,
    /// Whether another connection was closed for this one.
    pub(crate) displaced: bool,
}

impl<W> Slots<W> {
    fn inside(&self) -> MutexGuard<'_, Taken<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a connection from this address, which is half-open at first; `None` if all
    /// are taken by connections that are not half-open.
    pub(crate) fn take(&self, from: IpAddr) -> Option<Admitted<W>> {
        let host = host(from);
        let mut taken = self.inside();
        let mut displaced = false;
        if taken.hosts.get(&host).is_some_and(|own| *own >= MAX_HALF_OPEN_PER_HOST) {
            displaced |= taken.close_oldest_of(host);
        }
        if taken.half_open.len() >= MAX_HALF_OPEN || taken.len() >= MAX_CONNECTIONS {
            displaced |= taken.close_oldest();
        }
        if taken.len() >= MAX_CONNECTIONS {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let (close, closed) = oneshot::channel();
        taken.half_open.insert(number, HalfOpen { host, close });
        *taken.hosts.entry(host).or_default() += 1;
        Some(Admitted { slot: Slot { slots: self.clone(), number }, closed, displaced })
    }

    /// Returns the number of slots that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.inside().len()
    }
}

impl<W: Copy + Eq> Slot<W> {
    /// Notes that the connection is this client's, so that it is no longer half-open. Returns false
    /// if the client has too many connections already; then nothing changes.
    pub(crate) fn belongs_to(&self, who: W) -> bool {
        let mut taken = self.slots.inside();
        if taken.known.get(&self.number).is_some_and(|known| known.who == who) {
            return true;
        }
        if taken.known.values().filter(|known| known.who == who).count() >= MAX_PER_CLIENT {
            return false;
        }
        if let Some(known) = taken.known.get_mut(&self.number) {
            known.who = who;
            return true;
        }
        // None if it was closed for another one in this moment.
        let Some(open) = taken.remove(self.number) else { return false };
        taken.known.insert(self.number, Known { who, _close: open.close });
        true
    }
}

impl<W> Drop for Slot<W> {
    fn drop(&mut self) {
        let mut taken = self.slots.inside();
        taken.known.remove(&self.number);
        taken.remove(self.number);
    }
}

fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn numbered(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    /// A client with a number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Who(usize);

    fn is_closed(admitted: &mut Admitted<Who>) -> bool {
        admitted.closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn one_host_displaces_only_its_own_half_open_connections() {
        // Two addresses of the same network are one host; a mapped IPv4 address counts as itself.
        for (one, same, other) in [
            ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"),
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ] {
            let slots = Slots::default();
            let mut quiet = slots.take(address(other)).unwrap();
            let mut held: Vec<_> =
                (0..MAX_HALF_OPEN_PER_HOST).map(|_| slots.take(address(one)).unwrap()).collect();
            assert!(!held.iter_mut().any(is_closed));
            let more = slots.take(address(same)).unwrap();
            assert!(more.displaced && is_closed(&mut held[0]) && !is_closed(&mut held[1]));
            assert!(!is_closed(&mut quiet));
            assert_eq!(slots.taken(), MAX_HALF_OPEN_PER_HOST + 1);
            drop((quiet, held, more));
            assert_eq!((slots.taken(), slots.inside().hosts.len()), (0, 0));
        }
    }

    #[test]
    fn many_hosts_displace_the_oldest_of_those_with_most() {
        let slots = Slots::default();
        let mut quiet = slots.take(numbered(1)).unwrap();
        let mut held: Vec<_> =
            (0..1_000).map(|n| slots.take(numbered(1_000 + n / 16)).unwrap()).collect();
        assert_eq!(slots.taken(), MAX_HALF_OPEN);
        assert!(!is_closed(&mut quiet));
        let closed = held.iter_mut().map(is_closed).filter(|closed| *closed).count();
        assert_eq!(closed, 1_001 - MAX_HALF_OPEN);
        assert!(!held.last_mut().is_some_and(is_closed), "the newest stays");
    }

    #[test]
    fn a_client_that_is_known_is_never_displaced_and_has_a_limit() {
        let slots = Slots::default();
        let known = |n: u32| {
            let admitted = slots.take(numbered(n)).unwrap();
            let who = Who(n as usize / MAX_PER_CLIENT);
            assert!(admitted.slot.belongs_to(who) && admitted.slot.belongs_to(who));
            admitted
        };
        let mut all: Vec<_> = (0..MAX_CONNECTIONS as u32 - 1).map(known).collect();
        // The last place stays for half-open connections, each of which displaces the one before.
        let first = slots.take(numbered(7)).unwrap();
        let second = slots.take(numbered(7)).unwrap();
        assert!(!first.slot.belongs_to(Who(0)), "displaced");
        assert!(!second.slot.belongs_to(Who(0)), "has as many as a client may have");
        assert!(second.slot.belongs_to(Who(99)));
        assert!(slots.take(numbered(8)).is_none());
        assert!(!all.iter_mut().any(is_closed));
    }
}
