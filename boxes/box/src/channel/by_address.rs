//! The bundles at each address of the other boxes.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::Move;

/// The numbers of the bundles whose other box is at an address.
#[derive(Debug, Default)]
pub(crate) struct ByAddress(HashMap<SocketAddr, Vec<usize>>);

impl ByAddress {
    /// Forgets all bundles.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a bundle at `address`.
    pub(crate) fn add(&mut self, number: usize, address: SocketAddr) {
        self.0.entry(address).or_default().push(number);
    }

    /// Moves a bundle to the new address.
    pub(crate) fn on_moved(&mut self, number: usize, Move { from, to, .. }: Move) {
        if let Some(from) = from
            && let Some(there) = self.0.get_mut(&from)
        {
            there.retain(|other| *other != number);
            if there.is_empty() {
                self.0.remove(&from);
            }
        }
        self.add(number, to);
    }

    /// Returns the bundles at `address`.
    pub(crate) fn at(&self, address: SocketAddr) -> &[usize] {
        self.0.get(&address).map_or(&[], |numbers| numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_moves_alone_and_an_address_without_bundles_is_forgotten() {
        let [old, new] =
            ["192.0.2.1:28316", "[2001:db8::1]:28316"].map(|a| a.parse::<SocketAddr>().unwrap());
        let mut all = ByAddress::default();
        all.add(0, old);
        all.add(1, old);
        let to = |from, to| Move { from, to, is_said: false };
        all.on_moved(0, to(Some(old), new));
        assert_eq!((all.at(old), all.at(new)), (&[1][..], &[0][..]));
        all.on_moved(1, to(Some(old), new));
        all.on_moved(2, to(None, old));
        all.on_moved(2, to(Some(old), new));
        assert_eq!((all.at(old), all.at(new)), (&[][..], &[0, 1, 2][..]));
        assert_eq!(all.0.len(), 1);
    }
}
