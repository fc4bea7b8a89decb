//! The traffic of a bundle as counted at the sendbox, without feedback.

use forebay_units::{Bytes, Nanos, Rate};

use crate::recent_max::RecentMax;
use crate::sent::SentHistory;

/// Number of packets over which the mean packet length is smoothed.
const PACKETS: f64 = 1024.0;
/// The same, counted in bytes as a multiple of the mean length: a load of full packets shows in the
/// mean at once, although small packets came before it.
const LOAD: f64 = 256.0;
/// Time over which the mean packet length is smoothed if it has fewer packets. Only ticks with
/// packets count. The first packets may be handshakes, so the mean must not depend on them for
/// long.
const SPAN: Nanos = Nanos::from_millis(250);
/// Time over which the send rate for the epoch size is smoothed, so that it does not follow bursts.
const SMOOTHING: Nanos = Nanos::from_millis(250);

/// A bundle is limited by its rate while it uses at least this share of the rate. A queue that is
/// present at each tick is not enough evidence, since it may have been empty in between.
const USED: f64 = 0.9;
/// Tolerance of the bytes sent by a tick, in packets. The bytes that a late timer holds back for
/// one tick are tolerated as well.
const GRAIN: f64 = 2.0;

/// The counters of a bundle, and the values that each tick derives from them.
#[derive(Debug)]
pub(crate) struct Traffic {
    sent: Bytes,
    packets: u64,
    /// The counters at the last tick.
    last: LastTick,
    mean_packet: f64,
    rate: f64,
    history: SentHistory,
    peak: RecentMax<Bytes>,
    /// When the bundle last did not use its rate.
    unlimited_at: Nanos,
    /// Bytes by which the bundle lags behind [`USED`] of its rate.
    unused: f64,
}

/// The counters at a tick.
#[derive(Clone, Copy, Debug)]
struct LastTick {
    at: Nanos,
    sent: Bytes,
    packets: u64,
}

impl Traffic {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            sent: Bytes::ZERO,
            packets: 0,
            last: LastTick { at: now, sent: Bytes::ZERO, packets: 0 },
            mean_packet: 0.0,
            rate: 0.0,
            history: SentHistory::new(),
            peak: RecentMax::default(),
            unlimited_at: now,
            unused: 0.0,
        }
    }

    /// Counts a packet of `len` bytes that left.
    pub(crate) fn on_sent(&mut self, len: Bytes) {
        self.sent += len;
        self.packets += 1;
    }

    /// Takes in the totals sent. Totals come from several places, so one below the known total is
    /// old.
    pub(crate) fn on_total(&mut self, sent: Bytes, packets: u64) {
        self.sent = self.sent.max(sent);
        self.packets = self.packets.max(packets);
    }

    /// Evaluates a tick. `rate` was allowed since the last tick, which must be before `now`.
    pub(crate) fn on_tick(&mut self, now: Nanos, backlog: Bytes, rate: Option<Rate>) {
        let LastTick { at: last, sent, packets } = self.last;
        self.last = LastTick { at: now, sent: self.sent, packets: self.packets };
        self.history.note(now, self.sent);
        let bytes = (self.sent - sent).as_f64();
        let packets = (self.packets - packets) as f64;
        let elapsed = now.saturating_sub(last).as_secs_f64();
        let allowed = rate.map_or(0.0, |r| r.as_bytes_per_sec_f64() * elapsed);
        self.unused = (self.unused + USED * allowed - bytes).max(0.0);
        if backlog == Bytes::ZERO || self.unused > allowed + GRAIN * self.mean_packet {
            self.unlimited_at = now;
            self.unused = 0.0;
        }
        if packets > 0.0 {
            let first = self.mean_packet == 0.0;
            let loads = bytes / (LOAD * self.mean_packet.max(1.0));
            let share = (packets / PACKETS).max(elapsed / SPAN.as_secs_f64()).max(loads);
            let weight = if first { 1.0 } else { share.min(0.5) };
            self.mean_packet += (bytes / packets - self.mean_packet) * weight;
        }
        let weight = (elapsed / SMOOTHING.as_secs_f64()).min(1.0);
        self.rate += (bytes * 8.0 / elapsed - self.rate) * weight;
    }

    /// Returns the bytes sent within the last minimum RTT, and the largest such number over the
    /// last round trips. Call it once a tick.
    pub(crate) fn within(
        &mut self,
        now: Nanos,
        min_rtt: Nanos,
        smoothed_rtt: Nanos,
    ) -> (Bytes, Bytes) {
        let just_sent = self.sent.saturating_sub(self.history.at(now.saturating_sub(min_rtt)));
        (just_sent, self.peak.update(now, just_sent, smoothed_rtt))
    }

    /// Records that the rate was held below that of the path, so the traffic says nothing about it.
    pub(crate) fn on_held_back(&mut self, now: Nanos) {
        self.unlimited_at = now;
    }

    /// Returns since when the bundle's own queue has not been empty, as far as ticks show.
    pub(crate) fn limited_since(&self) -> Nanos {
        self.unlimited_at
    }

    /// Returns for how long the bundle's own queue has not been empty.
    pub(crate) fn limited_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.unlimited_at)
    }

    /// Prefetches the part of the history that the next tick uses.
    pub(crate) fn prefetch(&self) {
        self.history.prefetch();
    }

    /// Returns the number of bytes sent.
    pub(crate) fn sent(&self) -> Bytes {
        self.sent
    }

    /// Returns the number of packets sent.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the mean packet length, zero before the first packet.
    pub(crate) fn mean_packet(&self) -> Bytes {
        Bytes(self.mean_packet as u64)
    }

    /// Returns the smoothed rate at which the bundle leaves the sendbox.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_bps_f64(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn traffic_is_counted_and_averaged() {
        let mut traffic = Traffic::new(Nanos::ZERO);
        for tick in 1..=200 {
            for _ in 0..10 {
                traffic.on_sent(Bytes(1000));
            }
            let backlog = Bytes(u64::from(tick > 150));
            traffic.on_tick(MS * (tick * 10), backlog, Some(Rate::from_mbps(8)));
        }
        assert_eq!(traffic.sent(), Bytes(2_000_000));
        assert_eq!(traffic.packets(), 2000);
        assert_eq!(traffic.mean_packet(), Bytes(1000));
        // The rate is 10 kB in 10 ms.
        assert!(traffic.rate().as_bps().abs_diff(8_000_000) < 80_000, "{}", traffic.rate());
        assert_eq!(traffic.limited_for(MS * 2000), MS * 500);
        // 25 ms at 1 kB a millisecond; the last 10 ms are counted at their end.
        assert_eq!(traffic.within(MS * 2000, MS * 25, MS * 50), (Bytes(25_000), Bytes(25_000)));
    }

    #[test]
    fn handshakes_do_not_determine_the_packet_length_for_long() {
        let mut traffic = Traffic::new(Nanos::ZERO);
        for tick in 1..=100 {
            for _ in 0..if tick == 1 { 8 } else { 1 } {
                traffic.on_sent(Bytes(if tick == 1 { 74 } else { 1514 }));
            }
            traffic.on_tick(MS * (tick * 10), Bytes::ZERO, None);
        }
        // Each of 99 ticks has the weight 1/25: 1514 - 1440 * 0.96^99.
        assert!((1480..1495).contains(&traffic.mean_packet().0), "{:?}", traffic.mean_packet());
    }

    /// The queue is not empty at any of these ticks, but it was in between.
    #[test]
    fn a_queue_at_each_tick_does_not_prove_that_the_rate_limits() {
        let mut traffic = Traffic::new(Nanos::ZERO);
        let mut limited_for = |tick: u64, packets: u64| {
            for _ in 0..packets {
                traffic.on_sent(Bytes(1000));
            }
            // 8 Mbit/s are ten packets a tick.
            traffic.on_tick(MS * (tick * 10), Bytes(5000), Some(Rate::from_mbps(8)));
            traffic.limited_for(MS * (tick * 10))
        };
        assert_eq!(limited_for(1, 10), MS * 10);
        assert_eq!(limited_for(2, 0), MS * 20, "a late timer");
        assert_eq!(limited_for(3, 19), MS * 30, "the late timer sends the rest");
        assert_eq!(limited_for(4, 3), MS * 40, "six packets unused");
        assert_eq!(limited_for(5, 2), Nanos::ZERO, "thirteen, more than a tick's and two");
        assert_eq!(limited_for(6, 9), MS * 10);
    }
}
