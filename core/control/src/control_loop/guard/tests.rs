use super::*;
use crate::controller::quiet;
use crate::shares::Others;

const TICK: Nanos = Nanos::from_millis(10);
const RTT: Nanos = Nanos::from_millis(40);

/// A bundle whose controller always wants the same rate, on a path that serves one rate and
/// never shows a queue: the worst that a controller can do with it.
struct Loop {
    guard: Guard,
    now: Nanos,
    served: Rate,
    /// What the receivebox says is fair; zero without other bundles.
    fair: Rate,
    /// What somebody else sends to the bundle's prefixes.
    stranger: Rate,
    wanted: Rate,
    /// Bytes sent and received by each tick.
    log: std::vec::Vec<(f64, f64)>,
    tests: std::vec::Vec<Outcome>,
    limited: bool,
}

impl Loop {
    fn new(wanted: u64, served: u64) -> Self {
        Self {
            guard: Guard::new(),
            now: Nanos::from_secs(1),
            served: Rate::from_mbps(served),
            fair: Rate::ZERO,
            stranger: Rate::ZERO,
            wanted: Rate::from_mbps(wanted),
            log: std::vec![(0.0, 0.0)],
            tests: std::vec![],
            limited: true,
        }
    }

    /// Runs for `seconds`; the mean rate set in the last of them, in Mbit/s.
    fn run(&mut self, seconds: u64) -> f64 {
        let mut sum = 0.0;
        for tick in 0..seconds * 100 {
            let m = self.measurement();
            let target = Nanos::from_millis(1);
            let (rate, outcome) = self.guard.on_tick(&m, self.wanted, target, false);
            self.tests.extend(outcome);
            self.send(rate);
            if tick >= (seconds - 1) * 100 {
                sum += rate.as_mbps_f64();
            }
        }
        sum / 100.0
    }

    fn measurement(&self) -> Measurement {
        let limited_for = if self.limited { self.now } else { Nanos::ZERO };
        Measurement {
            now: self.now,
            min_rtt: RTT,
            rtt: RTT,
            standing_rtt: RTT,
            smoothed_rtt: RTT,
            limited_for,
            ..quiet()
        }
    }

    fn send(&mut self, rate: Rate) {
        self.now += TICK;
        let (sent, received) = *self.log.last().unwrap();
        let share = TICK.as_secs_f64();
        let sent = sent + rate.as_bytes_per_sec_f64() * share;
        // What waits at the bottleneck comes later, and is not seen as delay.
        let received = sent.min(received + self.served.as_bytes_per_sec_f64() * share);
        self.log.push((sent, received));
        let ago = (RTT.0 / TICK.0) as usize;
        if let Some(index) = self.log.len().checked_sub(ago + 1) {
            let (sent, received) = self.log[index];
            let sent_at = self.now.saturating_sub(RTT);
            // Other bundles, if there are any, take the rest of the path.
            let all = self.now.as_secs_f64() * self.served.as_bytes_per_sec_f64();
            let others = if self.fair == Rate::ZERO { 0.0 } else { all - received };
            let stranger = self.now.as_secs_f64() * self.stranger.as_bytes_per_sec_f64();
            let sample = BoundarySample {
                others: Others { bytes: Bytes(others as u64), fair: self.fair },
                sent_at,
                sent: Bytes(sent as u64),
                received_at: sent_at,
                received: Bytes((received + stranger) as u64),
                queued: false,
            };
            self.guard.on_sample(sample, RTT);
        }
    }
}

#[test]
fn a_controller_that_wants_too_little_is_overruled() {
    let mut path = Loop::new(5, 48);
    let rate = path.run(15);
    assert!((40.0..60.0).contains(&rate), "{rate} of 48 Mbit/s");
    assert!(path.tests.iter().any(|test| test.followed));
}

#[test]
fn loss_at_any_rate_does_not_lower_the_floor() {
    let mut guard = Guard::new();
    guard.floor = 5e6;
    let mut m = Measurement { now: Nanos::from_secs(1), min_rtt: RTT, ..quiet() };
    for n in 0..400 {
        m.now = Nanos::from_secs(1) + TICK * n;
        // A tenth of 500 packets of 100 bytes is lost each time.
        let (sent, received) = (500 * n as u32, 450 * n as u32);
        guard.on_packets(m.now, sent, received);
        let bytes = |packets: u32| Bytes(u64::from(packets) * 100);
        let sample = BoundarySample {
            sent_at: m.now,
            sent: bytes(sent),
            received_at: m.now,
            received: bytes(received),
            others: Others::default(),
            queued: false,
        };
        guard.on_sample(sample, RTT);
        guard.on_tick(&m, Rate::from_mbps(5), Nanos::from_millis(1), false);
    }
    assert_eq!(guard.floor, 5e6, "4.5 MB/s arrive of 5 MB/s, as 10 % of packets are lost");
}

#[test]
fn a_bundle_takes_nothing_from_other_bundles_but_its_fair_share() {
    for (fair, taken) in [(5, false), (24, true)] {
        let mut path = Loop::new(5, 48);
        path.fair = Rate::from_mbps(fair);
        let rate = path.run(15);
        assert_eq!(path.tests.iter().any(|test| test.followed), taken, "fair {fair}");
        assert!(path.tests.iter().all(|test| !test.contested), "fair {fair}");
        assert_eq!(rate > 15.0, taken, "{rate} of a fair {fair} Mbit/s");
        assert!(rate < 30.0, "{rate} of a fair {fair} Mbit/s");
    }
}

#[test]
fn rate_that_other_bundles_gained_is_not_lost() {
    let mut guard = Guard::new();
    guard.highest.update(TICK, MEMORY, 6e6);
    guard.highest_of_all.update(TICK, MEMORY, 6e6);
    let lost =
        |received, others| guard.lost(StepRates { sent: received, received, others, lost: 0.0 });
    assert!(!lost(3e6, 3e6), "the others have it");
    assert!(!lost(3e6, 2e6), "they have most of it");
    assert!(lost(3e6, 1e6), "they have a third of it");
    assert!(!lost(5.5e6, 0.0), "hardly anything is missing");
}

#[test]
fn a_full_path_is_left_alone() {
    let mut path = Loop::new(48, 48);
    path.run(30);
    let followed = path.tests.iter().filter(|test| test.followed).count();
    assert_eq!((followed, path.tests.len() <= 4), (0, true), "{:?}", path.tests);
    let sent = path.log.last().unwrap().0 * 8.0 / 30.0 / 1e6;
    assert!(sent < 48.0 * 1.01, "{sent} Mbit/s on average");
}

#[test]
fn a_bundle_with_nothing_to_send_is_not_tested() {
    let mut path = Loop::new(5, 48);
    path.limited = false;
    assert!((path.run(10) - 5.0).abs() < 1e-9);
    assert!(path.tests.is_empty());
}

#[test]
fn the_return_from_a_drain_is_not_taken_for_a_test_that_followed() {
    let mut path = Loop::new(48, 48);
    path.run(5);
    (path.guard.test, path.guard.doubt_at) = (None, Nanos::ZERO);
    for tick in 0..28 {
        let draining = tick < 20;
        let wanted = Rate::from_mbps(if draining { 30 } else { 48 });
        let m = path.measurement();
        let (rate, _) = path.guard.on_tick(&m, wanted, Nanos::from_millis(1), draining);
        path.send(rate);
        assert!(path.guard.test.is_none(), "tick {tick}");
    }
    assert!(!path.tests.iter().any(|test| test.followed), "{:?}", path.tests);
}

#[test]
fn nothing_follows_from_what_a_stranger_sends() {
    let mut path = Loop::new(5, 48);
    path.stranger = Rate::from_mbps(24);
    let rate = path.run(15);
    assert!((rate - 5.0).abs() < 1e-9 && path.tests.is_empty(), "{rate}: {:?}", path.tests);
}

#[test]
fn the_floor_does_not_hold_the_queue_of_a_test_that_failed() {
    let mut path = Loop::new(48, 48);
    let failed = (0..3_000).any(|_| {
        let m = path.measurement();
        let (rate, outcome) = path.guard.on_tick(&m, path.wanted, Nanos::from_millis(1), false);
        path.send(rate);
        outcome.is_some_and(|outcome| !outcome.followed)
    });
    let m = path.measurement();
    assert_eq!((failed, path.guard.share(&m)), (true, HOLD));
}

#[test]
fn the_floor_goes_once_the_controller_wants_as_much() {
    let mut path = Loop::new(5, 48);
    path.run(15);
    path.wanted = Rate::from_mbps(60);
    path.limited = false;
    path.run(6);
    path.wanted = Rate::from_mbps(5);
    let rate = path.run(1);
    assert!((rate - 5.0).abs() < 1e-9, "{rate}");
}

#[test]
fn points_span_two_windows_and_give_the_rates_of_any_part() {
    let mut guard = Guard::new();
    for ms in 0..3000 {
        let at = Nanos::from_millis(ms);
        let sent = Bytes(ms * 1000);
        let received = Bytes(ms * 500);
        let sample = BoundarySample {
            sent_at: at,
            sent,
            received_at: at + RTT,
            received,
            others: Others::default(),
            queued: false,
        };
        guard.on_sample(sample, RTT);
    }
    let rates = guard.samples.latest(Nanos::from_millis(1900));
    let StepRates { sent, received, .. } = rates.unwrap();
    assert!((sent - 1e6).abs() < 1.0 && (received - 5e5).abs() < 1.0);
    assert_eq!(guard.samples.latest(Nanos::from_millis(2500)), None);
}

#[test]
fn loss_is_averaged_and_forgotten_with_the_path() {
    let mut guard = Guard::new();
    let at = |n: u32| TICK * u64::from(n);
    guard.on_packets(at(0), 0, 0);
    // One packet of ten is overtaken by the boundary packet and counted with the next sample.
    for n in 1..1000_u32 {
        guard.on_packets(at(n), 10 * n, 10 * n - n % 2);
        assert!(guard.loss() < 0.002, "{}", guard.loss());
    }
    // Every second packet is lost.
    for n in 1..500_u32 {
        guard.on_packets(at(999 + n), 9_990 + 10 * n, 9_989 + 5 * n);
    }
    assert!((guard.loss() - 0.5).abs() < 0.01, "{}", guard.loss());
    // After a silence in which all was lost nothing of it counts.
    guard.clear();
    guard.on_packets(at(2_000), 40_000, 20_000);
    assert_eq!(guard.loss(), 0.0);
}

#[test]
fn a_slow_bundle_forgets_loss_as_fast_as_another() {
    let mut guard = Guard::new();
    let mut received = 0;
    for n in 0..100_u32 {
        // Ten packets in 200 ms: half of them are lost for ten seconds, and none afterwards.
        received += if n < 50 { 5 } else { 10 };
        guard.on_packets(Nanos::from_millis(200) * u64::from(n), 10 * n, received);
        if n == 49 {
            assert!((guard.loss() - 0.5).abs() < 0.01, "{}", guard.loss());
        }
    }
    assert!(guard.loss() < 0.01, "{}", guard.loss());
}
