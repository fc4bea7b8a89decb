//! How many packets enter the host: segment sizes, the state of the host's queue, and batches of
//! arriving packets.

use forebay_units::{Bytes, Nanos, Rate};

use crate::ConfigError;
use crate::error::within;

/// The state of the host's own queue, on which the parts that decide how many packets enter agree.
///
/// Sizes of segments, backpressure and the batches of arriving packets (Zhao's thesis, section 5.3)
/// all follow this one state, which the transport sees too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Packets for which there is room behind the engine.
    pub free_packets: u32,
    /// Bytes for which there is room behind the engine.
    pub free_bytes: u64,
    /// Flows that may send and wait for their turn.
    pub ready: u32,
    /// The time between a flow's turn and the departure of its packets, as a moving average.
    pub host_delay: Nanos,
    /// The congestion of the host: 0 while `host_delay` is below [`Sizing::interval`], and one more
    /// for each doubling from there on, up to 3.
    pub pressure: u8,
}

impl Load {
    /// Returns whether a packet may enter.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.free_packets > 0 && self.free_bytes > 0
    }

    /// Adds a delay to the average, with the weight of an eighth as in TCP's smoothed round-trip
    /// time (RFC 6298, section 2).
    #[inline]
    pub(super) fn observe(&mut self, delay: Nanos, interval: Nanos) {
        let average = self.host_delay.0;
        self.host_delay = Nanos(average - average / 8 + delay.0 / 8);
        self.pressure = match self.host_delay.0 {
            delay if delay < interval.0 => 0,
            delay if delay < interval.0 * 2 => 1,
            delay if delay < interval.0 * 4 => 2,
            _ => 3,
        };
    }
}

/// How large a flow's segments are, and how long arriving packets wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// A flow's segment holds what the flow sends in this time: 1 ms as in Linux (Zhao's thesis,
    /// section 5.3.1).
    pub interval: Nanos,
    /// The smallest segment, that of one packet.
    pub smallest: Bytes,
    /// The largest segment: 64 KiB is the limit of segmentation offload.
    pub largest: Bytes,
    /// The segment of a flow whose rate is not known.
    pub initial: Bytes,
    /// Flows with at most this much left to send get arriving packets without a wait.
    pub short: Bytes,
    /// The longest time that arriving packets wait to be coalesced.
    pub longest_hold: Nanos,
}

impl Default for Sizing {
    fn default() -> Self {
        Self {
            interval: Nanos::from_millis(1),
            smallest: Bytes(1500),
            largest: Bytes(65_536),
            initial: Bytes(15_000),
            short: Bytes(65_536),
            longest_hold: Nanos::from_micros(200),
        }
    }
}

/// A measurement of a flow by its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The bytes that the flow may have in flight: its congestion window.
    pub window: Bytes,
    /// The round-trip time since the turn ([`Ask::now`](super::Ask::now)).
    pub rtt: Nanos,
    /// The part of `rtt` that the packet and its acknowledgement spent in this host's own queues:
    /// what [`Engine::departed`](super::Engine::departed) returned, and the hold of the
    /// acknowledgement.
    pub host: Nanos,
}

impl Sample {
    /// Returns the rate at which the network lets the flow send: the window over the round-trip
    /// time without the time in the host's own queues.
    ///
    /// With the whole round-trip time a busy host takes its own delay for congestion in the
    /// network, makes segments smaller, and has more packets to handle (Zhao's thesis, section
    /// 5.3.1).
    pub fn network_rate(&self) -> Rate {
        let network = self.rtt.saturating_sub(self.host).max(Nanos::from_micros(1));
        Rate::from_bytes_over(self.window, network)
    }
}

impl Sizing {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("interval", self.interval.0, 1, Nanos::from_secs(1).0)?;
        within("smallest", self.smallest.0, 1, self.largest.0)?;
        within("largest", self.largest.0, 1, u64::from(u32::MAX))?;
        within("initial", self.initial.0, self.smallest.0, self.largest.0)
    }

    /// Returns the segment of a flow of this rate.
    pub fn segment(&self, rate: Rate) -> Bytes {
        rate.bytes_in(self.interval).clamp(self.smallest, self.largest)
    }

    /// Returns what a flow with this segment may send in its turn. A congested host sends larger
    /// segments rather than more packets.
    #[inline]
    pub(super) fn turn(&self, segment: u32, load: &Load) -> u64 {
        let segment = (u64::from(segment) << load.pressure).min(self.largest.0);
        segment.min(load.free_bytes).max(self.smallest.0)
    }

    /// Returns how long arriving packets of a flow may wait to be coalesced: not at all for a short
    /// flow, and otherwise the longer the more the host is congested (Zhao's thesis, section
    /// 5.3.3).
    pub(super) fn hold(&self, remaining: u32, load: &Load) -> Nanos {
        if u64::from(remaining) <= self.short.0 {
            return Nanos::ZERO;
        }
        Nanos(self.longest_hold.0 * (1 + u64::from(load.pressure)) / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rtt: u64, host: u64) -> Sample {
        let (rtt, host) = (Nanos::from_micros(rtt), Nanos::from_micros(host));
        Sample { window: Bytes(100_000), rtt, host }
    }

    /// 100 kB in 10 ms are 80 Mbit/s, of which 1 ms has 10 kB.
    #[test]
    fn a_delay_in_the_network_shrinks_segments() {
        let sizing = Sizing::default();
        assert_eq!(sizing.segment(sample(10_000, 0).network_rate()), Bytes(10_000));
        assert_eq!(sizing.segment(sample(40_000, 0).network_rate()), Bytes(2500));
    }

    #[test]
    fn a_delay_in_the_host_does_not_shrink_segments() {
        let sizing = Sizing::default();
        assert_eq!(sizing.segment(sample(40_000, 30_000).network_rate()), Bytes(10_000));
        assert_eq!(sizing.segment(sample(1_010_000, 1_000_000).network_rate()), Bytes(10_000));
        // A host delay that exceeds the whole: clocks were read in a different order.
        assert_eq!(sizing.segment(sample(10, 30).network_rate()), Bytes(65_536));
    }

    #[test]
    fn a_congested_host_sends_larger_segments() {
        let sizing = Sizing::default();
        let mut load = Load {
            free_packets: 9,
            free_bytes: 1 << 20,
            ready: 0,
            host_delay: Nanos(0),
            pressure: 0,
        };
        assert_eq!(sizing.turn(10_000, &load), 10_000);
        for _ in 0..100 {
            load.observe(Nanos::from_micros(2500), sizing.interval);
        }
        assert_eq!(load.pressure, 2);
        assert_eq!(sizing.turn(10_000, &load), 40_000);
        assert_eq!(sizing.turn(30_000, &load), 65_536);
        load.free_bytes = 5000;
        assert_eq!(sizing.turn(30_000, &load), 5000);
        load.free_bytes = 5;
        assert_eq!(sizing.turn(30_000, &load), 1500, "a packet is not split");
    }

    #[test]
    fn arrivals_of_short_flows_do_not_wait() {
        let sizing = Sizing::default();
        let load =
            Load { free_packets: 9, free_bytes: 9, ready: 0, host_delay: Nanos(0), pressure: 3 };
        assert_eq!(sizing.hold(65_536, &load), Nanos::ZERO);
        assert_eq!(sizing.hold(65_537, &load), sizing.longest_hold);
        assert_eq!(sizing.hold(65_537, &Load { pressure: 0, ..load }), Nanos::from_micros(50));
    }
}
