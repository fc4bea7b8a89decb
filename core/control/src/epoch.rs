//! The epoch size N: the mean number of packets from one boundary packet to the next.

use forebay_units::{Bytes, Nanos, Rate};

use crate::config::EpochConfig;

/// The epoch in minimum RTTs (Bundler section 4.5).
const SHARE_OF_RTT: f64 = 0.25;
/// The longest wanted epoch in seconds. Where the minimum RTT contains a queue, a quarter of it
/// would leave too few samples to see the queue go.
const MAX_EPOCH_S: f64 = 0.1;
/// N doubles only if a fifth more than twice its size is wanted and halves only if a fifth less
/// than its size is wanted. So a rate near a power of two does not change N all the time.
const HYSTERESIS: f64 = 1.2;
/// The same for the feedback budget. It is smaller, since full-size frames need 62.1 of 64.
const BUDGET_HYSTERESIS: f64 = 1.02;
/// How long N stays after a change, except when the feedback budget asks for more. It falls again
/// after a minimum RTT, if that is shorter, since a load may have begun.
const DWELL: Nanos = Nanos::from_millis(250);
/// The shortest time after which an announcement is repeated; normally it is a round-trip time.
const RESEND_FLOOR: Nanos = Nanos::from_millis(50);
/// The longest time between announcements. The receivebox may be down for days.
const RESEND_CEILING: Nanos = Nanos::from_secs(1);
/// The feedback budget applies from this many packets on, or from the first measurement if that is
/// earlier. Until then the small initial size gives a new bundle its first samples quickly.
const BUDGET_AFTER: u64 = 512;
/// Boundaries need not lie closer together than this, however short the path is.
const LEAST_APART: Nanos = Nanos::from_millis(5);

/// The values that the epoch size depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochInput {
    pub(crate) min_rtt: Option<Nanos>,
    /// The rate at which the bundle leaves the sendbox.
    pub(crate) send_rate: Rate,
    /// The mean length of the bundle's packets.
    pub(crate) packet: Bytes,
    /// Number of packets sent since the start.
    pub(crate) packets: u64,
    /// Whether there have been the two samples that a measurement takes.
    pub(crate) is_measured: bool,
}

/// A change of the epoch size, as events report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochChange {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) wanted: u32,
    pub(crate) least: u32,
}

/// A repeated announcement of the epoch size.
#[derive(Clone, Copy, Debug)]
struct Announcement {
    /// When to send it next.
    due: Nanos,
    /// The wait after that.
    wait: Nanos,
}

/// Chooses N and announces it to the receivebox.
///
/// The sendbox uses a new size at once. This is safe because sizes are powers of two (Bundler
/// section 4.5): the receivebox answers a superset of the marks, and the rest is ignored, or a
/// subset, and the rest expires.
#[derive(Debug)]
pub(crate) struct Epoch {
    config: EpochConfig,
    size: u32,
    /// The size at [`EpochConfig::overhead`], where that may be above the size in use; else 1.
    sparse: u32,
    changed_at: Option<Nanos>,
    /// The announcement that is under way.
    announce: Option<Announcement>,
}

impl Epoch {
    pub(crate) fn new(config: EpochConfig, now: Nanos) -> Self {
        Self {
            config,
            size: config.initial,
            sparse: 1,
            changed_at: None,
            announce: Some(Announcement { due: now, wait: RESEND_FLOOR }),
        }
    }

    /// Goes on with the size of another loop, if it is one.
    pub(crate) fn resume(&mut self, size: u32) {
        if size.is_power_of_two() && (self.config.min..=self.config.max).contains(&size) {
            self.size = size;
        }
    }

    /// Returns the size in packets, a power of two.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Returns whether a packet with this fingerprint is a boundary, if only every `thinning`th
    /// boundary is marked. `thinning` is a power of two.
    pub(crate) fn is_boundary(&self, fingerprint: u32, thinning: u32) -> bool {
        fingerprint & (self.size.saturating_mul(thinning) - 1) == 0
    }

    /// Returns whether a boundary packet would also be one at [`EpochConfig::overhead`]. The
    /// multipath test counts only these, since its thresholds were set for that distance.
    pub(crate) fn is_sparse_boundary(&self, fingerprint: u32) -> bool {
        fingerprint & (self.sparse.max(self.size) - 1) == 0
    }

    /// Adapts the size to the path and the traffic at a tick.
    pub(crate) fn on_tick(&mut self, now: Nanos, input: &EpochInput) -> Option<EpochChange> {
        if input.packet == Bytes::ZERO {
            return None;
        }
        let wanted = input.min_rtt.map_or(f64::from(self.config.initial), |rtt| {
            (SHARE_OF_RTT * rtt.as_secs_f64()).min(MAX_EPOCH_S) * packets_per_second(input)
        });
        let budget = self.at_share(self.config.overhead, input);
        if self.config.most_overhead > self.config.overhead {
            self.sparse = power_of_two_at_least(budget).min(self.config.max);
        }
        // Where the budget would set boundaries further apart than is wanted, the larger one
        // applies.
        let most = self.at_share(self.config.most_overhead.max(self.config.overhead), input);
        let apart = LEAST_APART.as_secs_f64() * packets_per_second(input);
        let least = budget.min(wanted.max(most).max(apart));
        let heed_budget = input.is_measured || input.packets >= BUDGET_AFTER;
        let size = f64::from(self.size);
        let over_budget = heed_budget && least > size;
        let has_kept = |time| self.changed_at.is_none_or(|t| now.saturating_sub(t) >= time);
        let may_grow = has_kept(DWELL);
        let may_fall = has_kept(input.min_rtt.unwrap_or(DWELL).min(DWELL));
        let too_small = wanted >= 2.0 * size * HYSTERESIS;
        let too_large = wanted < size / HYSTERESIS && least * BUDGET_HYSTERESIS <= size / 2.0
            // A bundle that stopped has no rate to adapt to.
            && input.send_rate > Rate::ZERO;
        let due = over_budget || heed_budget && (may_grow && too_small || may_fall && too_large);
        let to = if due { self.rounded(wanted, least) } else { self.size };
        if to == self.size {
            return None;
        }
        let from = core::mem::replace(&mut self.size, to);
        self.changed_at = Some(now);
        self.announce = Some(Announcement { due: now, wait: self.resend_floor(input.min_rtt) });
        Some(EpochChange { from, to, wanted: wanted as u32, least: least as u32 })
    }

    /// Records which size the receivebox uses, by feedback or an acknowledgement.
    pub(crate) fn on_receivebox_size(&mut self, now: Nanos, size: u32, rtt: Option<Nanos>) {
        if size == self.size {
            self.announce = None;
        } else if self.announce.is_none() {
            // The receivebox was restarted, or sent this message before it knew of the change.
            self.announce_again(now, rtt);
        }
    }

    /// Announces the size again after a round-trip time.
    pub(crate) fn announce_again(&mut self, now: Nanos, rtt: Option<Nanos>) {
        let wait = self.resend_floor(rtt);
        self.announce.get_or_insert(Announcement { due: now.saturating_add(wait), wait });
    }

    /// Returns the size if it must be sent to the receivebox now.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<u32> {
        let Announcement { due, wait } = self.announce.filter(|a| now >= a.due)?;
        debug_assert!(now >= due);
        let longer = Nanos(wait.0.saturating_mul(2)).min(RESEND_CEILING.max(wait));
        self.announce = Some(Announcement { due: now.saturating_add(wait), wait: longer });
        Some(self.size)
    }

    /// Returns the N at which a feedback message takes `share` of the bytes of N packets.
    fn at_share(&self, share: f64, input: &EpochInput) -> f64 {
        self.config.feedback_wire.as_f64() / (share * input.packet.as_f64())
    }

    /// Returns the power of two to use, which is at least `least` and else at most `wanted`.
    fn rounded(&self, wanted: f64, least: f64) -> u32 {
        let floor = power_of_two_at_most(wanted);
        let least = power_of_two_at_least(least);
        floor.max(least).clamp(self.config.min, self.config.max)
    }

    fn resend_floor(&self, rtt: Option<Nanos>) -> Nanos {
        rtt.unwrap_or(RESEND_FLOOR).clamp(RESEND_FLOOR, RESEND_CEILING)
    }
}

fn packets_per_second(input: &EpochInput) -> f64 {
    input.send_rate.as_bytes_per_sec_f64() / input.packet.as_f64()
}

fn power_of_two_at_most(n: f64) -> u32 {
    let n = (n as u32).clamp(1, 1 << 31);
    1 << n.ilog2()
}

fn power_of_two_at_least(n: f64) -> u32 {
    let floor = power_of_two_at_most(n);
    if f64::from(floor) < n { floor.saturating_mul(2).min(1 << 31) } else { floor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const MS: Nanos = Nanos::from_millis(1);

    fn input(mbps: u64, rtt_ms: u64, packet: u64) -> EpochInput {
        EpochInput {
            min_rtt: Some(MS * rtt_ms),
            send_rate: Rate::from_mbps(mbps),
            packet: Bytes(packet),
            packets: 10_000,
            is_measured: true,
        }
    }

    fn settled(input: EpochInput) -> u32 {
        settled_with(EpochConfig::default(), input)
    }

    /// Returns the configuration of a bundle with a guard.
    fn guarded() -> EpochConfig {
        EpochConfig { most_overhead: 0.01, ..EpochConfig::default() }
    }

    fn settled_with(config: EpochConfig, input: EpochInput) -> u32 {
        let mut epoch = Epoch::new(config, Nanos::ZERO);
        for tick in 1..100 {
            epoch.on_tick(MS * (tick * 10), &input);
        }
        epoch.size()
    }

    #[test]
    fn the_size_has_the_values_computed_by_hand() {
        // 96 Mbit/s and 50 ms are 396 packets of 1514; a quarter is 99, so 64. The budget asks for
        // 62.
        assert_eq!(settled(input(96, 50, 1514)), 64);
        // A quarter is 198 packets.
        assert_eq!(settled(input(96, 100, 1514)), 128);
        // A quarter is ten packets, but 94 / (0.001 x 1514) = 62.1.
        assert_eq!(settled(input(24, 20, 1514)), 64);
        // Small packets need 94 / (0.001 x 200) = 470.
        assert_eq!(settled(input(24, 20, 200)), 512);
        // 10 Gbit/s and 100 ms have 20 641 packets in a quarter; the most is 2^14.
        assert_eq!(settled(input(10_000, 100, 1514)), 1 << 14);
    }

    #[test]
    fn where_samples_would_be_rare_the_larger_share_applies() {
        let size = |input| settled_with(guarded(), input);
        // A quarter is 9.9 packets, and so are 5 ms. The smaller share would be 62.1 packets, the
        // larger one 6.2.
        assert_eq!(size(input(24, 20, 1514)), 16);
        // A quarter is 75 packets of 200 bytes, and the larger share 94 / (0.01 x 200) = 47.
        assert_eq!(size(input(24, 20, 200)), 128);
        // 2 Mbit/s and 20 ms have 0.8 packets in a quarter and in 5 ms: the larger share counts.
        assert_eq!(size(input(2, 20, 1514)), 8);
        // 96 Mbit/s and 60 ms have 119 packets in a quarter, more than the smaller share asks for.
        assert_eq!(size(input(96, 60, 1514)), settled(input(96, 60, 1514)));
    }

    #[test]
    fn feedback_stays_within_its_budget() {
        for packet in 64..1600 {
            let share = |n: u32| 94.0 / (f64::from(n) * packet as f64);
            let n = settled(input(50, 30, packet));
            assert!(share(n) <= 0.001, "{n} packets of {packet} bytes");
            let n = settled_with(guarded(), input(50, 30, packet));
            assert!(share(n) <= 0.01, "{n} packets of {packet} bytes with a guard");
        }
    }

    #[test]
    fn sparse_boundaries_are_those_of_the_smaller_share() {
        let count = |config, sparse: bool| {
            let mut epoch = Epoch::new(config, Nanos::ZERO);
            for tick in 1..100 {
                epoch.on_tick(MS * (tick * 10), &input(24, 20, 1514));
            }
            let is =
                |f: &u32| epoch.is_boundary(*f, 1) && (!sparse || epoch.is_sparse_boundary(*f));
            (0..4096).filter(is).count()
        };
        assert_eq!((count(guarded(), false), count(guarded(), true)), (4096 / 16, 4096 / 64));
        let plain = EpochConfig::default();
        assert_eq!((count(plain, false), count(plain, true)), (4096 / 64, 4096 / 64));
    }

    #[test]
    fn the_size_does_not_flap_around_a_power_of_two() {
        let mut epoch = Epoch::new(EpochConfig::default(), Nanos::ZERO);
        let mut changes = 0;
        for tick in 1..3000 {
            // A quarter of an RTT is 128 packets plus or minus a tenth.
            let mbps = if tick % 2 == 0 { 112 } else { 137 };
            changes += u32::from(epoch.on_tick(MS * (tick * 10), &input(mbps, 50, 1514)).is_some());
        }
        assert!(changes <= 2, "{changes} changes");
    }

    #[test]
    fn a_stopped_bundle_keeps_its_size() {
        let mut epoch = Epoch::new(EpochConfig::default(), Nanos::ZERO);
        for tick in 1..100 {
            epoch.on_tick(MS * (tick * 10), &input(1000, 50, 1514));
        }
        assert_eq!(epoch.size(), 1024);
        let stopped = EpochInput { send_rate: Rate::ZERO, ..input(0, 50, 1514) };
        assert_eq!(epoch.on_tick(MS * 5000, &stopped), None);
    }

    #[test]
    fn the_size_starts_small_until_measured_or_five_hundred_packets() {
        let mut epoch = Epoch::new(EpochConfig::default(), Nanos::ZERO);
        let young =
            EpochInput { min_rtt: None, packets: 100, is_measured: false, ..input(96, 0, 1514) };
        assert_eq!(epoch.on_tick(MS * 10, &young), None);
        assert_eq!(epoch.size(), 16);
        let unmeasured = EpochInput { packets: 512, ..young };
        let change = epoch.on_tick(MS * 20, &unmeasured).unwrap();
        assert_eq!((change.from, change.to, change.wanted, change.least), (16, 64, 16, 62));
    }

    #[test]
    fn a_size_for_small_packets_goes_within_round_trips_when_a_load_begins() {
        let mut epoch = Epoch::new(EpochConfig::default(), Nanos::ZERO);
        let thin = input(1, 40, 82);
        for tick in 1..100 {
            epoch.on_tick(MS * (tick * 10), &thin);
        }
        // 94 / (0.001 x 82) = 1146.
        assert_eq!(epoch.size(), 2048);
        let sizes: Vec<_> = [1000, 1010, 1040, 1080]
            .map(|ms| {
                // The mean length grows with the load.
                let packet = if ms < 1040 { 500 } else { 1514 };
                epoch.on_tick(MS * ms, &input(1, 40, packet));
                epoch.size()
            })
            .into();
        assert_eq!(sizes, [256, 256, 64, 64]);
    }

    #[test]
    fn the_size_is_announced_until_the_receivebox_confirms_it() {
        let mut epoch = Epoch::new(EpochConfig::default(), Nanos::ZERO);
        let rtt = Some(MS * 80);
        let polls = |epoch: &mut Epoch, from: u64, to: u64| -> Vec<u64> {
            (from..to).filter(|&ms| epoch.poll(MS * ms).is_some()).collect()
        };
        // With an unknown RTT the interval is 50 ms, then twice as long each time, up to a second.
        assert_eq!(polls(&mut epoch, 0, 4000), [0, 50, 150, 350, 750, 1550, 2550, 3550]);
        epoch.on_receivebox_size(MS * 4000, 16, rtt);
        assert_eq!(polls(&mut epoch, 4000, 9000), []);
        // The receivebox was restarted and uses another size. The next announcement is a round trip
        // later.
        epoch.on_receivebox_size(MS * 9000, 64, rtt);
        assert_eq!(polls(&mut epoch, 9000, 9500), [9080, 9160, 9320]);
        assert_eq!(epoch.poll(MS * 9700), Some(16));
        // A change is announced at once.
        epoch.on_receivebox_size(MS * 9800, 16, rtt);
        epoch.on_tick(MS * 9900, &input(96, 80, 1514));
        assert_eq!(polls(&mut epoch, 9900, 9990), [9900, 9980]);
        assert_eq!(epoch.poll(MS * 10_200), Some(128));
    }

    #[test]
    fn boundary_fingerprints_are_multiples_of_the_size() {
        let epoch = Epoch::new(EpochConfig::default(), Nanos::ZERO);
        let count = |thinning| (0..4096).filter(|&f| epoch.is_boundary(f, thinning)).count();
        assert_eq!((count(1), count(4)), (256, 64));
        assert!((0..4096).all(|f| !epoch.is_boundary(f, 4) || epoch.is_boundary(f, 1)), "a subset");
    }
}
