//! How many connections there may be.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections in all.
pub const MOST: usize = 512;
/// Connections from one IPv4 address, or one IPv6 network of 64 bits, which is what a host has (RFC 4291, section 2.5.1).
pub const MOST_OF_ONE: usize = 64;

type Taken = HashMap<IpAddr, usize>;

/// The slots of connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<Mutex<Taken>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    from: IpAddr,
}

impl Slots {
    fn inside(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One for a connection from there; `None` if there is none.
    pub(crate) fn take(&self, from: IpAddr) -> Option<Slot> {
        let from = host(from);
        let mut taken = self.inside();
        let own = taken.get(&from).copied().unwrap_or(0);
        if own >= MOST_OF_ONE || taken.values().sum::<usize>() >= MOST {
            return None;
        }
        taken.insert(from, own + 1);
        Some(Slot { slots: self.clone(), from })
    }

    /// How many are taken.
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
    fn one_host_does_not_take_all() {
        let slots = Slots::default();
        let from = |text: &str| text.parse::<IpAddr>().unwrap();
        // Two addresses of the same network are one host; an IPv4 address in an IPv6 one is itself.
        for (one, same, other) in [
            ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"),
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ] {
            let mut held: Vec<Slot> =
                (0..MOST_OF_ONE).map(|_| slots.take(from(one)).unwrap()).collect();
            assert!(slots.take(from(same)).is_none());
            assert!(slots.take(from(other)).is_some());
            held.pop();
            assert!(slots.take(from(same)).is_some());
        }
        assert_eq!((slots.taken(), slots.inside().len()), (0, 0));
        let all: Vec<Slot> =
            (0..).map_while(|n: u32| slots.take(IpAddr::from(n.to_be_bytes()))).collect();
        assert_eq!(all.len(), MOST);
    }
}
