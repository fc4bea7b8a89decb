//! Limits the number of connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most connections in all.
pub const MAX_CONNECTIONS: usize = 512;
/// The most connections of one IPv4 address, or of one IPv6 network of 64 bits, which is what a
/// host has (RFC 4291, section 2.5.1).
pub const MAX_PER_HOST: usize = 64;

type Taken = HashMap<IpAddr, usize>;

/// The slots of connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<Mutex<Taken>>);

/// A slot, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    from: IpAddr,
}

impl Slots {
    fn inside(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a connection from this address; `None` if none is free.
    pub(crate) fn take(&self, from: IpAddr) -> Option<Slot> {
        let from = host(from);
        let mut taken = self.inside();
        let own = taken.get(&from).copied().unwrap_or(0);
        if own >= MAX_PER_HOST || taken.values().sum::<usize>() >= MAX_CONNECTIONS {
            return None;
        }
        taken.insert(from, own + 1);
        Some(Slot { slots: self.clone(), from })
    }

    /// Returns the number of slots that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.inside().values().sum()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.inside();
        if let Some(own) = taken.get_mut(&self.from) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.from);
            }
        }
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

    #[test]
    fn one_host_cannot_take_all_slots() {
        let slots = Slots::default();
        let from = |text: &str| text.parse::<IpAddr>().unwrap();
        // Two addresses of the same network are one host; a mapped IPv4 address counts as itself.
        for (one, same, other) in [
            ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"),
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ] {
            let mut held: Vec<Slot> =
                (0..MAX_PER_HOST).map(|_| slots.take(from(one)).unwrap()).collect();
            assert!(slots.take(from(same)).is_none());
            assert!(slots.take(from(other)).is_some());
            held.pop();
            assert!(slots.take(from(same)).is_some());
        }
        assert_eq!((slots.taken(), slots.inside().len()), (0, 0));
        let all: Vec<Slot> =
            (0..).map_while(|n: u32| slots.take(IpAddr::from(n.to_be_bytes()))).collect();
        assert_eq!(all.len(), MAX_CONNECTIONS);
    }
}
