//! The state machine through its public interface, on an ideal path driven by hand.

use forebay_control::{
    ControlConfig, ControlLoop, Event, Feedback, ImpossibleClaim, Mode, ModeReason, Others,
};
use forebay_units::{Bytes, Nanos, Rate};

const MS: Nanos = Nanos::from_millis(1);

/// A path of 50 ms and any rate. The traffic is 48 Mbit/s in packets of 1500 bytes, four a
/// millisecond, all of which arrive. Every 16th is a boundary at the first epoch size, every 64th
/// later.
struct Path {
    bundle: ControlLoop,
    now_ms: u64,
    packets: u32,
    /// Feedback under way, with its time of arrival.
    under_way: Vec<(u64, Feedback)>,
    alive: bool,
    sends: bool,
    /// Whether the bundle gets totals and boundary packets only.
    totals: bool,
    received: u64,
    received_packets: u32,
    events: Vec<(u64, Event)>,
}

impl Path {
    fn new(config: ControlConfig) -> Self {
        Self {
            bundle: ControlLoop::new(config, Nanos::ZERO).expect("a valid configuration"),
            now_ms: 0,
            packets: 0,
            under_way: vec![],
            alive: true,
            sends: true,
            totals: false,
            received: 9_000_000,
            received_packets: 6_000,
            events: vec![],
        }
    }

    fn run_until(&mut self, ms: u64) {
        while self.now_ms < ms {
            self.now_ms += 1;
            self.millisecond();
        }
    }

    fn millisecond(&mut self) {
        let now = MS * self.now_ms;
        for _ in 0..if self.sends { 4 } else { 0 } {
            self.packets += 1;
            let fingerprint = self.packets;
            if !self.totals {
                self.bundle.on_sent(now, Bytes(1500), Some(fingerprint), None);
            } else if fingerprint.is_multiple_of(16) {
                let (sent, packets) = self.sent();
                self.bundle.on_boundary(now, fingerprint, sent, packets, None);
            }
            self.received += 1500;
            self.received_packets += 1;
            if self.alive && fingerprint.is_multiple_of(16) {
                let feedback = Feedback {
                    others: Others::default(),
                    fingerprint,
                    epoch: 16,
                    bytes: Bytes(self.received),
                    packets: self.received_packets,
                    received_at: Nanos::from_secs(77) + now,
                    sequence: u64::from(fingerprint),
                };
                self.under_way.push((self.now_ms + 50, feedback));
            }
        }
        while self.under_way.first().is_some_and(|f| f.0 <= self.now_ms) {
            let (_, feedback) = self.under_way.remove(0);
            if self.alive {
                self.bundle.on_feedback(now, &feedback);
            }
        }
        if self.now_ms.is_multiple_of(10) {
            if self.totals {
                let (sent, packets) = self.sent();
                self.bundle.on_total(sent, packets);
            }
            self.bundle.on_tick(now, Bytes::ZERO);
            while let Some(event) = self.bundle.poll_event() {
                self.events.push((self.now_ms, event));
            }
        }
    }

    fn sent(&self) -> (Bytes, u64) {
        (Bytes(u64::from(self.packets) * 1500), self.packets.into())
    }

    fn modes(&self) -> Vec<(u64, Mode)> {
        self.events
            .iter()
            .filter_map(|&(ms, e)| match e {
                Event::ModeChanged { to, .. } => Some((ms, to)),
                _ => None,
            })
            .collect()
    }
}

#[test]
fn totals_with_boundary_packets_give_the_same_state_as_every_packet() {
    let [mut each, mut totals] =
        [false, true].map(|totals| Path { totals, ..Path::new(ControlConfig::default()) });
    for until in [400, 1_000, 2_500, 5_000] {
        // There is a time without feedback, so that more than a steady state is compared.
        let alive = until != 2_500;
        for path in [&mut each, &mut totals] {
            path.alive = alive;
            path.run_until(until);
        }
        assert_eq!(each.bundle.snapshot(), totals.bundle.snapshot(), "at {until} ms");
    }
    assert_eq!(each.events, totals.events);
    assert!(each.bundle.snapshot().counters.accepted > 100);
}

#[test]
fn a_total_below_the_known_one_is_ignored() {
    let mut path = Path { totals: true, ..Path::new(ControlConfig::default()) };
    path.run_until(1_000);
    let before = path.bundle.snapshot();
    path.bundle.on_total(Bytes(1), 1);
    // If the count went back, the next tick would not see the packets until then.
    path.run_until(1_500);
    let after = path.bundle.snapshot();
    assert_eq!((before.mode, after.mode), (Mode::DelayControl, Mode::DelayControl));
    assert!(after.send_rate.is_some_and(|r| r > Rate::from_mbps(47)), "{after:?}");
}

#[test]
fn the_bundle_is_open_until_two_samples_and_then_controlled() {
    let mut path = Path::new(ControlConfig::default());
    path.run_until(50);
    assert_eq!((path.bundle.mode(), path.bundle.rate()), (Mode::Open, None));
    path.run_until(1000);
    // Boundaries are at 4 and 8 ms, the second feedback at 58 ms, and the tick follows.
    assert_eq!(path.modes(), [(60, Mode::DelayControl)]);
    let s = path.bundle.snapshot();
    assert_eq!((s.rtt, s.min_rtt, s.standing_rtt), (Some(MS * 50), Some(MS * 50), Some(MS * 50)));
    assert_eq!(
        (s.send_rate, s.receive_rate),
        (Some(Rate::from_mbps(48)), Some(Rate::from_mbps(48)))
    );
    assert_eq!(s.loss, Some(0.0));
    assert_eq!(s.epoch, 64);
    // The rate is twice what is used as long as there is no queue.
    let rate = path.bundle.rate().unwrap().as_mbps_f64();
    assert!((95.0..105.0).contains(&rate), "{rate}");
}

/// A guard allows more feedback, so that epochs are shorter.
fn unguarded() -> ControlConfig {
    ControlConfig { guard: false, ..ControlConfig::default() }
}

#[test]
fn events_have_their_reasons() {
    let mut path = Path::new(unguarded());
    path.run_until(70);
    let said: Vec<_> = path.events.iter().map(|(_, e)| e.to_string()).collect();
    assert_eq!(
        said,
        [
            "minimum RTT 50.000 ms: the first sample",
            "epoch 16 -> 64 packets: a quarter of the minimum RTT is 10 packets, \
             the feedback budget allows 62 or more",
            "mode open -> delay control: first measured: RTT 50.000 ms, receive rate 48.000 Mbit/s",
            "rate unlimited -> 96.000 Mbit/s: slow start, no queue seen yet",
        ]
    );
}

#[test]
fn the_initial_rate_is_used_at_the_start() {
    let rate = Rate::from_mbps(20);
    let mut path =
        Path::new(ControlConfig { initial_rate: Some(rate), ..ControlConfig::default() });
    path.run_until(50);
    assert_eq!((path.bundle.mode(), path.bundle.rate()), (Mode::DelayControl, Some(rate)));
    path.run_until(1000);
    assert_eq!(path.modes(), []);
    assert!(path.bundle.rate().unwrap() > Rate::from_mbps(90), "measured since");
}

#[test]
fn the_bundle_opens_within_a_second_without_feedback_and_returns() {
    let mut path = Path::new(ControlConfig::default());
    path.run_until(5000);
    path.alive = false;
    path.run_until(9000);
    let died = path.modes()[1];
    assert_eq!(died.1, Mode::Open);
    assert!((5700..5800).contains(&died.0), "{died:?}");
    assert_eq!(path.bundle.rate(), None);
    path.alive = true;
    path.under_way.clear();
    path.received = 0;
    path.received_packets = 0;
    path.run_until(10_000);
    let returned = path.modes()[2];
    assert_eq!(returned.1, Mode::DelayControl);
    // 50 ms on the way and three messages: fewer boundaries are marked while those of the silence
    // await feedback.
    assert!((9050..=9160).contains(&returned.0), "{returned:?}");
    assert_eq!(path.bundle.snapshot().counters.restarts, 1);
    let reasons: Vec<_> = path
        .events
        .iter()
        .filter_map(|(_, e)| match e {
            Event::ModeChanged { reason, .. } => Some(*reason),
            _ => None,
        })
        .collect();
    assert!(matches!(reasons[1], ModeReason::NoFeedback { unanswered, .. } if unanswered > 10));
    assert!(matches!(reasons[2], ModeReason::FeedbackReturned { samples: 3.., .. }));
}

#[test]
fn an_idle_bundle_does_not_open() {
    let mut path = Path::new(ControlConfig::default());
    path.run_until(1000);
    path.sends = false;
    path.run_until(60_000);
    assert_eq!(path.modes().len(), 1);
    let rate = path.bundle.rate();
    assert!(rate > Some(Rate::from_mbps(90)), "{rate:?}: what the path was found to carry stands");
    assert_eq!(path.bundle.snapshot().marks_outstanding, 0);
}

#[test]
fn invalid_feedback_changes_only_counters() {
    let mut quiet = Path::new(ControlConfig::default());
    let mut flooded = Path::new(ControlConfig::default());
    for ms in 1..=5000 {
        quiet.run_until(ms);
        flooded.run_until(ms);
        for k in 0..20_u32 {
            let fingerprint = 0x8000_0000 | (ms as u32).wrapping_mul(0x9e37_79b9) ^ k;
            let feedback = Feedback {
                others: Others::default(),
                fingerprint,
                epoch: 16,
                bytes: Bytes(u64::MAX - u64::from(k)),
                packets: k,
                received_at: Nanos(u64::from(k)),
                sequence: 0,
            };
            flooded.bundle.on_feedback(MS * ms, &feedback);
        }
        assert_eq!(quiet.bundle.rate(), flooded.bundle.rate(), "at {ms} ms");
    }
    assert_eq!(flooded.bundle.snapshot().counters.unmatched, {
        // The path answers every 16th packet although only every 64th is marked.
        quiet.bundle.snapshot().counters.unmatched + 20 * 5000
    });
    assert_eq!(quiet.events, flooded.events);
}

#[test]
fn impossible_feedback_is_reported_once_a_second_and_ignored() {
    let mut path = Path::new(ControlConfig::default());
    path.run_until(1000);
    let before = path.bundle.snapshot();
    // A boundary is answered with far more bytes than were sent, before the right feedback comes.
    for ms in 1001..=1100 {
        path.run_until(ms);
        let fingerprint = path.packets / 64 * 64;
        let lie = Feedback {
            others: Others::default(),
            fingerprint,
            epoch: 64,
            bytes: Bytes(1 << 50),
            packets: 0,
            received_at: Nanos::from_secs(77) + MS * ms,
            sequence: 0,
        };
        // Three false messages in a row would be accepted, so a right one is between.
        if ms % 16 == 0 {
            path.bundle.on_feedback(MS * ms, &lie);
        }
    }
    path.run_until(1200);
    let after = path.bundle.snapshot();
    assert_eq!(after.counters.impossible, 6);
    assert_eq!(
        (after.rtt, after.min_rtt, after.receive_rate),
        (before.rtt, before.min_rtt, before.receive_rate)
    );
    let said: Vec<_> =
        path.events.iter().filter(|(_, e)| matches!(e, Event::ImpossibleFeedback { .. })).collect();
    assert_eq!(said.len(), 1);
    assert!(matches!(
        said[0].1,
        Event::ImpossibleFeedback { claim: ImpossibleClaim::TooManyBytes { .. } }
    ));
}

#[test]
fn the_epoch_size_is_announced_until_feedback_carries_it() {
    let mut path = Path::new(unguarded());
    assert_eq!(path.bundle.poll_epoch_update(Nanos::ZERO), Some(16));
    path.run_until(100);
    assert_eq!(path.bundle.poll_epoch_update(MS * 100), Some(64));
    assert_eq!(path.bundle.poll_epoch_update(MS * 101), None);
    // Feedback still carries 16, so the size is announced again after a round trip.
    path.run_until(160);
    assert_eq!(path.bundle.poll_epoch_update(MS * 160), Some(64));
    path.bundle.on_epoch_ack(MS * 161, 64);
    assert_eq!(path.bundle.poll_epoch_update(MS * 5000), None);
}

#[test]
fn packets_without_fingerprints_are_only_counted() {
    let mut bundle = ControlLoop::new(unguarded(), Nanos::ZERO).unwrap();
    for ms in 1..=3000 {
        bundle.on_sent(MS * ms, Bytes(1500), None, None);
        if ms % 10 == 0 {
            bundle.on_tick(MS * ms, Bytes::ZERO);
        }
    }
    let s = bundle.snapshot();
    assert_eq!((s.mode, s.marks_outstanding, s.counters.marks_expired), (Mode::Open, 0, 0));
    assert_eq!(s.epoch, 64, "the mean packet is known");
}

#[test]
fn one_fingerprint_for_all_packets_gives_no_samples() {
    let mut path = Path::new(ControlConfig::default());
    path.run_until(1000);
    let accepted = path.bundle.snapshot().counters.accepted;
    path.sends = false;
    path.run_until(1100);
    for ms in 1101..=4000 {
        let now = MS * ms;
        path.bundle.on_sent(now, Bytes(1500), Some(0), None);
        if ms > 1151 {
            let feedback = Feedback {
                others: Others::default(),
                fingerprint: 0,
                epoch: 64,
                bytes: Bytes(ms * 1500),
                packets: ms as u32,
                received_at: Nanos::from_secs(77) + now,
                sequence: ms,
            };
            path.bundle.on_feedback(now, &feedback);
        }
        if ms % 10 == 0 {
            path.bundle.on_tick(now, Bytes::ZERO);
        }
    }
    let s = path.bundle.snapshot();
    assert!(s.counters.accepted < accepted + 8, "only what was still under way: {s:?}");
    assert!(s.counters.ambiguous > 2800);
    assert_eq!(s.mode, Mode::Open, "a bundle without samples is not limited");
}

#[test]
fn ticks_that_do_not_advance_change_nothing() {
    let mut path = Path::new(ControlConfig::default());
    path.run_until(1000);
    let before = path.bundle.snapshot();
    path.bundle.on_tick(MS * 1000, Bytes(1_000_000));
    path.bundle.on_tick(MS * 900, Bytes(1_000_000));
    assert_eq!(path.bundle.snapshot(), before);
}
