//! The bytes of link-layer headers in a bundle, which its shaper counts and both boxes do not.

use forebay_units::{Bytes, Rate};

/// The number of packets after which older ones count half.
const MEMORY: u64 = 1_024;

/// Converts between rates in bytes of IP packets, which the control loop measures and sets, and
/// rates in bytes as the shaper counts them. They differ by the share of link-layer headers, which
/// depends on the mean length of the bundle's packets.
#[derive(Debug)]
pub(super) struct LinkHeaders {
    /// The bytes that the shaper counts for a packet beyond its IP packet.
    header: Bytes,
    /// The bytes and packets that have left, older ones with less weight.
    bytes: u64,
    packets: u64,
    /// The bundle's totals by the last call.
    counted: (Bytes, u64),
}

impl LinkHeaders {
    pub(super) fn new(header: Bytes) -> Self {
        Self { header, bytes: 0, packets: 0, counted: (Bytes::ZERO, 0) }
    }

    /// Notes the totals of all packets that have left, in bytes of IP packets.
    pub(super) fn on_total(&mut self, bytes: Bytes, packets: u64) {
        let (bytes_before, packets_before) = self.counted;
        self.counted = (bytes, packets);
        self.on_sent(bytes.saturating_sub(bytes_before), packets.saturating_sub(packets_before));
    }

    /// Notes that packets have left.
    pub(super) fn on_sent(&mut self, bytes: Bytes, packets: u64) {
        self.bytes = self.bytes.saturating_add(bytes.0);
        self.packets = self.packets.saturating_add(packets);
        // Keeps the mean.
        while self.packets >= 2 * MEMORY {
            self.bytes /= 2;
            self.packets /= 2;
        }
    }

    /// Returns the rate of the shaper that lets IP packets out at `rate`.
    pub(super) fn to_link(&self, rate: Rate) -> Rate {
        Rate::from_bps(scale(rate.as_bps(), self.on_link(), self.bytes))
    }

    /// Returns the bytes of IP packets in `backlog`, which the queue counts as the shaper does.
    pub(super) fn to_ip(&self, backlog: Bytes) -> Bytes {
        Bytes(scale(backlog.0, self.bytes, self.on_link()))
    }

    /// The bytes of the same packets on the link.
    fn on_link(&self) -> u64 {
        self.bytes.saturating_add(self.header.0.saturating_mul(self.packets))
    }
}

/// Returns `value * by / of`, or `value` before anything is known.
fn scale(value: u64, by: u64, of: u64) -> u64 {
    if by == 0 || of == 0 {
        return value;
    }
    let scaled = u128::from(value) * u128::from(by) / u128::from(of);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shaper_gets_room_for_the_headers() {
        let mut headers = LinkHeaders::new(Bytes(14));
        let rate = Rate::from_mbps(15);
        assert_eq!(headers.to_link(rate), rate, "nothing is known");
        headers.on_total(Bytes(1_500_000), 1_000);
        // 1514 bytes on the link for 1500.
        assert_eq!(headers.to_link(rate), Rate::from_bps(15_140_000));
        assert_eq!(headers.to_ip(Bytes(151_400)), Bytes(150_000));
        // A tunnel's queue counts IP packets.
        let mut tunnel = LinkHeaders::new(Bytes(0));
        tunnel.on_total(Bytes(1_500_000), 1_000);
        assert_eq!(tunnel.to_link(rate), rate);
        assert_eq!(tunnel.to_ip(Bytes(7)), Bytes(7));
    }

    #[test]
    fn the_mean_follows_the_bundle_within_a_few_thousand_packets() {
        let mut headers = LinkHeaders::new(Bytes(14));
        (0..10_000).for_each(|_| headers.on_sent(Bytes(1_500), 1));
        let large = headers.to_link(Rate::from_mbps(1_500));
        assert!((1_513_900_000..=1_514_100_000).contains(&large.as_bps()), "{large:?}");
        (0..10_000).for_each(|_| headers.on_sent(Bytes(40), 1));
        // 54 bytes for 40, and what is left of the large packets: 1 part in 500.
        let small = headers.to_link(Rate::from_mbps(40));
        assert!((53_000_000..=54_000_000).contains(&small.as_bps()), "{small:?}");
        assert!(headers.packets < 2 * MEMORY);
        // A program that was loaded again counts from zero.
        headers.on_total(Bytes(5), 1);
        headers.on_total(Bytes(0), 0);
        assert!(headers.packets < 2 * MEMORY);
    }
}
