//! What the bundle sends, counted at the sendbox itself: no feedback is needed for it.

use forebay_units::{Bytes, Nanos, Rate};

use crate::recent_max::RecentMax;
use crate::sent::SentHistory;

/// The mean packet length follows this many packets,
const PACKETS: f64 = 1024.0;
/// or the ticks with packets in this time where they are fewer: the first few may be handshakes.
const SPAN: Nanos = Nanos::from_millis(250);
/// And the send rate for the epoch size this much time, so that it does not follow bursts.
const SMOOTHING: Nanos = Nanos::from_millis(250);

/// A bundle is limited by its rate while it sends at least this share of what it may; a queue seen
/// at each tick is not proof enough, as it may have been empty in between.
const USED: f64 = 0.9;
/// What is sent by a tick is off by this many packets, and by what a late timer holds back: a tick's.
const GRAIN: f64 = 2.0;

/// Counters of one bundle, and what each tick makes of them.
#[derive(Debug)]
pub(crate) struct Traffic {
    sent: Bytes,
    packets: u64,
    /// What the counters were at the last tick, and when that was.
    last: (Nanos, Bytes, u64),
    mean_packet: f64,
    rate: f64,
    history: SentHistory,
    peak: RecentMax<Bytes>,
    /// When the bundle was last seen not to use its rate.
    unlimited_at: Nanos,
    /// By how much it lags behind [`USED`] of its rate, in bytes.
    unused: f64,
}

impl Traffic {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            sent: Bytes::ZERO,
            packets: 0,
            last: (now, Bytes::ZERO, 0),
            mean_packet: 0.0,
            rate: 0.0,
            history: SentHistory::new(),
            peak: RecentMax::default(),
            unlimited_at: now,
            unused: 0.0,
        }
    }

    /// A packet of `len` left.
    pub(crate) fn on_sent(&mut self, len: Bytes) {
        self.sent += len;
        self.packets += 1;
    }

    /// So much has left in all. Totals are asked for at different places: one that is behind what is
    /// known already says nothing new.
    pub(crate) fn on_total(&mut self, sent: Bytes, packets: u64) {
        self.sent = self.sent.max(sent);
        self.packets = self.packets.max(packets);
    }

    /// A tick, since the last of which `rate` was allowed. `now` must be later than at the tick before.
    pub(crate) fn on_tick(&mut self, now: Nanos, backlog: Bytes, rate: Option<Rate>) {
        let (last, sent, packets) = self.last;
        self.last = (now, self.sent, self.packets);
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
            let share = (packets / PACKETS).max(elapsed / SPAN.as_secs_f64());
            let weight = if first { 1.0 } else { share.min(0.5) };
            self.mean_packet += (bytes / packets - self.mean_packet) * weight;
        }
        let weight = (elapsed / SMOOTHING.as_secs_f64()).min(1.0);
        self.rate += (bytes * 8.0 / elapsed - self.rate) * weight;
    }

    /// What was sent within the last minimum RTT, and the most that was within one over the last
    /// round trips. Asked once a tick.
    pub(crate) fn within(
        &mut self,
        now: Nanos,
        min_rtt: Nanos,
        smoothed_rtt: Nanos,
    ) -> (Bytes, Bytes) {
        let just_sent = self.sent.saturating_sub(self.history.at(now.saturating_sub(min_rtt)));
        (just_sent, self.peak.update(now, just_sent, smoothed_rtt))
    }

    /// The bundle is held below what the path serves, so what it sends tells nothing of the path.
    pub(crate) fn on_held_back(&mut self, now: Nanos) {
        self.unlimited_at = now;
    }

    /// Since when the bundle's own queue has not been empty, as far as ticks tell.
    pub(crate) fn limited_since(&self) -> Nanos {
        self.unlimited_at
    }

    /// For how long the bundle's own queue has not been empty.
    pub(crate) fn limited_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.unlimited_at)
    }

    /// Asks for what the next tick needs of the history.
    pub(crate) fn prefetch(&self) {
        self.history.prefetch();
    }

    /// All bytes sent.
    pub(crate) fn sent(&self) -> Bytes {
        self.sent
    }

    /// All packets sent.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// The mean packet length, zero before the first packet.
    pub(crate) fn mean_packet(&self) -> Bytes {
        Bytes(self.mean_packet as u64)
    }

    /// The smoothed rate at which the bundle leaves the sendbox.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_bps_f64(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn counts_and_averages() {
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
        // 10 kB in 10 ms.
        assert!(traffic.rate().as_bps().abs_diff(8_000_000) < 80_000, "{}", traffic.rate());
        assert_eq!(traffic.limited_for(MS * 2000), MS * 500);
        // 25 ms of 1 kB a millisecond, the last 10 ms being noted at their end.
        assert_eq!(traffic.within(MS * 2000, MS * 25, MS * 50), (Bytes(25_000), Bytes(25_000)));
    }

    #[test]
    fn handshakes_are_soon_no_measure_of_a_packet() {
        let mut traffic = Traffic::new(Nanos::ZERO);
        for tick in 1..=100 {
            for _ in 0..if tick == 1 { 8 } else { 1 } {
                traffic.on_sent(Bytes(if tick == 1 { 74 } else { 1514 }));
            }
            traffic.on_tick(MS * (tick * 10), Bytes::ZERO, None);
        }
        // 99 ticks of a 25th each: 1514 - 1440 * 0.96^99.
        assert!((1480..1495).contains(&traffic.mean_packet().0), "{:?}", traffic.mean_packet());
    }

    /// At each of these ticks the queue is not empty, but in between it was.
    #[test]
    fn a_queue_is_no_proof_that_the_rate_limits() {
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
        assert_eq!(limited_for(2, 0), MS * 20, "a late timer,");
        assert_eq!(limited_for(3, 19), MS * 30, "which makes up for it");
        assert_eq!(limited_for(4, 3), MS * 40, "six packets unused");
        assert_eq!(limited_for(5, 2), Nanos::ZERO, "and seven more: more than a tick's and two");
        assert_eq!(limited_for(6, 9), MS * 10);
    }
}
