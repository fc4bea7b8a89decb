use core::net::IpAddr;

use super::Headers;

impl Headers {
    /// Returns a hash of the packet's flow: addresses, protocol and ports.
    ///
    /// For any fragment, even the first, only the addresses count, since later ones have no ports.
    /// So the fragments of a datagram stay together and in order. All fragments between two hosts
    /// share a flow, but not with the unfragmented packets of their flows.
    ///
    /// The hash is the same in every process. A queue that must resist flows that are made to
    /// collide needs more than this hash; mixing in a seed afterwards does not help.
    pub fn flow_hash(&self) -> u32 {
        let ports = self.ports.filter(|_| self.fragment.is_none());
        let ports = ports.map_or(0, |p| u64::from(u32::from_be_bytes(p.to_be_bytes())));
        let protocol = if self.fragment.is_some() { 0 } else { u64::from(self.protocol) };
        let transport = ports << 8 | protocol;
        let hash = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let pair = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
                mix(pair, transport)
            }
            (source, destination) => {
                let ((s1, s2), (d1, d2)) = (halves(source), halves(destination));
                mix(mix(mix(s1, s2), d1), d2 ^ transport.rotate_left(24))
            }
        };
        // One multiplication spreads similar flows nearly evenly; two spread them evenly (see
        // tests).
        mix(hash, 0) as u32
    }
}

fn halves(address: IpAddr) -> (u64, u64) {
    let bits = match address {
        IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
        IpAddr::V6(a) => a.to_bits(),
    };
    ((bits >> 64) as u64, bits as u64)
}

/// Mixes two words into one, from both halves of their 128-bit product. Each bit of the result
/// depends on nearly all bits of both. The constants (binary digits of the square roots of 2 and 3)
/// prevent zero words from giving zero.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x6a09_e667_f3bc_c908) * u128::from(b ^ 0xbb67_ae85_84ca_a73b);
    (product >> 64) as u64 ^ product as u64
}
