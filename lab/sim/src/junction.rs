//! The choice of one of several parallel links.

use crate::network::LinkId;
use crate::random::mix;

/// A junction that distributes packets over parallel links of equal cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Junction {
    /// The value that only this junction mixes in. Otherwise a junction behind another one would
    /// use only some of its links.
    own: u64,
    count: u16,
}

impl Junction {
    /// Creates the junction in front of `count` links from `first` on, in a network with this seed.
    pub fn new(seed: u64, first: LinkId, count: u16) -> Self {
        Self { own: mix(seed ^ u64::from(first.0) << 32), count }
    }

    /// Returns which of the links a packet of the flow takes: by the flow alone, or by the packet
    /// too if it has a number.
    pub fn choose(&self, flow_hash: u32, number: Option<u32>) -> u16 {
        let hash = match number {
            None => u64::from(flow_hash),
            Some(number) => u64::from(flow_hash) << 32 | u64::from(number),
        };
        // Less than `count`.
        ((u128::from(mix(hash ^ self.own)) * u128::from(self.count)) >> 64) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_stay_on_their_link_and_packets_spread() {
        let junction = Junction::new(7, LinkId::FIRST, 4);
        let mut flows = [0; 4];
        let mut packets = [0; 4];
        for n in 0..4_000 {
            let of_flow = junction.choose(n, None);
            assert_eq!(of_flow, junction.choose(n, None));
            flows[usize::from(of_flow)] += 1;
            packets[usize::from(junction.choose(9, Some(n)))] += 1;
        }
        // Five standard deviations of a binomial distribution.
        let is_even = |counts: [i32; 4]| counts.iter().all(|n| (n - 1_000).abs() < 140);
        assert!(is_even(flows) && is_even(packets), "{flows:?} {packets:?}");
    }
}
