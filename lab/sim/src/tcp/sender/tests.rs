//! Tests of each mechanism on one connection of 40 ms without a queue, with chosen losses.

use super::super::tests::{Fate, MS, Pair};
use super::super::{Congestion, MSS, Segment};
use super::*;
use forebay_queue::Ecn;

impl super::super::Endpoint {
    /// Asserts that the counters agree with the segments.
    pub(in super::super) fn check(&self) {
        let s = &self.sender;
        let (mut sacked, mut lost, mut retransmitted) = (0, 0, 0);
        for n in 0..s.ring.len() {
            let sent = s.ring.get(s.ring.first().wrapping_add(n));
            sacked += u32::from(sent.sacked);
            lost += u32::from(sent.lost);
            retransmitted += u32::from(sent.retransmitted);
            assert!(!sent.sacked || !sent.lost && !sent.retransmitted);
        }
        assert_eq!((s.sacked, s.lost, s.retransmitted), (sacked, lost, retransmitted));
        assert!(s.una <= s.next && s.next <= s.written && s.next <= s.edge);
    }
}

fn lose(segments: &'static [u64]) -> impl FnMut(usize, &Segment) -> Fate {
    let mut left = segments.to_vec();
    move |side, s| {
        let found = left.iter().position(|n| side == 0 && s.len > 0 && *n == s.seq / MSS);
        found.map_or(Fate::Arrives, |i| {
            left.remove(i);
            Fate::Lost
        })
    }
}

fn sender(pair: &Pair) -> &Sender {
    &pair.ends[0].sender
}

#[test]
fn slow_start_doubles_from_ten() {
    let mut pair = Pair::new(Congestion::Reno);
    pair.ends[0].write(1000 * MSS);
    pair.run(119 * MS, |_, _| Fate::Arrives);
    assert_eq!(pair.data_in(0..1).len(), 10);
    assert_eq!(pair.data_in(40..79).len(), 20);
    assert_eq!(pair.data_in(80..119).len(), 40);
}

#[test]
fn one_loss_is_repaired_in_a_round_trip_and_halves_the_window() {
    let mut pair = Pair::new(Congestion::Reno);
    pair.ends[0].write(200 * MSS);
    pair.run(5_000 * MS, lose(&[15]));
    assert_eq!(pair.read, 200 * MSS);
    assert_eq!(pair.ends[0].repairs(), (1, 0));
    let again: Vec<_> = pair.data().into_iter().filter(|s| s.1 == 15 * MSS).collect();
    // Sent at 40 ms; the segments after it are acknowledged at 80 ms.
    assert_eq!(again.len(), 2);
    assert!((80 * MS..83 * MS).contains(&again[1].0), "{again:?}");
    // The first segments of the second flight were acknowledged before the loss was detected.
    assert_eq!(sender(&pair).undo.prior_window, 25);
    assert_eq!(sender(&pair).window.threshold, 12);
}

#[test]
fn the_loss_of_the_last_segment_is_repaired_by_a_probe() {
    let mut pair = Pair::new(Congestion::Reno);
    pair.ends[0].write(5 * MSS);
    pair.run(5_000 * MS, lose(&[4]));
    assert_eq!(pair.read, 5 * MSS);
    assert_eq!(pair.ends[0].repairs(), (1, 0));
    // Four are acknowledged at 40 ms. For the last one, two round trips and a delayed
    // acknowledgement are longer than the timeout of 240 ms, which then applies.
    assert_eq!(pair.data().last().unwrap().0, 280 * MS);
}

#[test]
fn a_lost_window_waits_for_the_timer_and_backs_off() {
    let mut pair = Pair::new(Congestion::Reno);
    pair.ends[0].write(3 * MSS);
    let mut lost = 0;
    pair.run(60_000 * MS, |side, _| {
        lost += u32::from(side == 0);
        if side == 0 && lost <= 6 { Fate::Lost } else { Fate::Arrives }
    });
    assert_eq!(pair.read, 3 * MSS);
    let times: Vec<_> = pair.data().iter().skip(3).map(|s| s.0 / MS).collect();
    // A probe after two round trips, then timeouts of 240 ms (RTT + 200 ms) and twice that.
    assert_eq!(times[..3], [82, 322, 802]);
    assert_eq!(pair.ends[0].repairs().1, 3);
}

#[test]
fn a_delayed_flight_is_not_retransmitted_after_a_timeout() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        let mut pair = Pair::new(congestion);
        pair.ends[0].write(400 * MSS);
        // The path holds everything back until 700 ms.
        pair.run(20_000 * MS, |side, s| match s.timestamp / MS {
            at @ 80..680 if side == 0 => Fate::Late((680 - at) * MS),
            _ => Fate::Arrives,
        });
        assert_eq!(pair.read, 400 * MSS);
        // Only the timeout's retransmission, not the flight of forty.
        assert_eq!(pair.ends[0].repairs(), (1, 1));
        // Timestamps restored the window.
        assert!(sender(&pair).window.size >= 40, "{}", sender(&pair).window.size);
    }
}

#[test]
fn an_original_that_arrives_after_a_timeout_ends_the_retransmissions() {
    let mut pair = Pair::new(Congestion::Reno);
    pair.ends[0].write(400 * MSS);
    let mut lost = false;
    pair.run(20_000 * MS, |side, s| match s.timestamp / MS {
        80..680 if side == 0 && !lost => {
            // Segment 30, the first of the flight; its retransmission is also held back.
            lost = true;
            Fate::Lost
        }
        at @ 80..680 if side == 0 => Fate::Late((680 - at) * MS),
        _ => Fate::Arrives,
    });
    assert_eq!(pair.read, 400 * MSS);
    let (retransmissions, timeouts) = pair.ends[0].repairs();
    assert_eq!(timeouts, 1);
    // F-RTO: the first SACK block of an original ends the retransmissions.
    assert!(retransmissions <= 2, "{retransmissions}");
}

#[test]
fn a_timeout_after_real_losses_retransmits_everything() {
    let mut pair = Pair::new(Congestion::Reno);
    pair.ends[0].write(400 * MSS);
    pair.run(20_000 * MS, |side, s| {
        let lost = side == 0 && (80 * MS..330 * MS).contains(&s.timestamp);
        if lost { Fate::Lost } else { Fate::Arrives }
    });
    assert_eq!(pair.read, 400 * MSS);
    let (retransmissions, timeouts) = pair.ends[0].repairs();
    assert_eq!(timeouts, 1);
    assert!((40..=44).contains(&retransmissions), "{retransmissions}");
    assert_eq!(sender(&pair).frto, Frto::Off);
}

#[test]
fn a_loss_is_not_taken_for_reordering() {
    // The segment before the loss is acknowledged alone or together with the first one after it.
    for hole in 20..24 {
        let mut pair = Pair::new(Congestion::Reno);
        pair.ends[0].write(200 * MSS);
        let mut lost = false;
        pair.run(20_000 * MS, |side, s| {
            let now = side == 0
                && s.len > 0
                && s.seq / MSS == hole
                && !std::mem::replace(&mut lost, true);
            if now { Fate::Lost } else { Fate::Arrives }
        });
        assert_eq!(pair.read, 200 * MSS);
        assert!(lost && !sender(&pair).rack.reordering, "{hole}");
        assert_eq!(pair.ends[0].repairs(), (1, 0), "{hole}");
    }
}

#[test]
fn reordering_is_detected_and_its_reductions_are_undone() {
    let mut pair = Pair::new(Congestion::Reno);
    pair.ends[0].write(2_000 * MSS);
    pair.run(20_000 * MS, |side, s| {
        // Later than a quarter of the round trip.
        let late = side == 0 && s.seq / MSS % 50 == 20;
        if late { Fate::Late(12 * MS) } else { Fate::Arrives }
    });
    assert_eq!(pair.read, 2_000 * MSS);
    assert!(sender(&pair).rack.reordering);
    // All reductions were undone, so the window kept growing.
    assert!(sender(&pair).window.size > 300, "{}", sender(&pair).window.size);
}

#[test]
fn a_backlogged_sender_waits_to_fill_a_burst() {
    let mut pair = Pair::new(Congestion::Fixed(800));
    pair.delay = 20 * MS;
    pair.ends[0].write(1 << 40);
    // The receiver's window allows 45 segments at first; the path spreads them by 50 us each.
    let mut free = 0;
    pair.run(2_000 * MS, |side, s| {
        if side == 1 {
            return Fate::Arrives;
        }
        free = (free + 50_000).max(s.timestamp);
        Fate::Late(free - s.timestamp)
    });
    let data = pair.data();
    let late: Vec<_> = data.iter().filter(|s| s.0 > 1_000 * MS).map(|s| s.0).collect();
    let bursts = late.chunk_by(|a, b| a == b).map(<[u64]>::len).collect::<Vec<_>>();
    let mean = late.len() as f64 / bursts.len() as f64;
    // 800 segments in 40 ms and a fifth more are 23 in 2^-10 s. The application writes
    // super-packets of 45 segments, each sent in two bursts, or in three if one segment is left.
    let most = bursts.iter().max().unwrap();
    assert!((22..=23).contains(most) && (14.9..=22.6).contains(&mean), "{most} {mean}");
}

#[test]
fn data_after_the_initial_window_is_paced() {
    let mut pair = Pair::new(Congestion::Bbr);
    pair.ends[0].write(1 << 40);
    pair.run(79 * MS, |_, _| Fate::Arrives);
    assert_eq!(pair.data_in(0..1).len(), 10);
    let data = pair.data();
    let second: Vec<_> = data.iter().filter(|s| s.0 >= 40 * MS).map(|s| s.0).collect();
    assert!(second.len() >= 14, "{}", second.len());
    let bursts: Vec<_> = second.chunk_by(|a, b| a == b).collect();
    assert!(bursts.iter().all(|b| b.len() <= 2));
    // 2.89 times ten segments in 40 ms, less a hundredth: two every 2.8 ms.
    let gaps = bursts.windows(2).map(|b| b[1][0] - b[0][0]);
    assert!(gaps.skip(1).all(|g| (1_300_000..2_900_000).contains(&g)));
}

/// Returns the time and the segments of each burst from 600 ms on, of a connection that grows after
/// a loss.
fn bursts(pacing: Pacing) -> Vec<(u64, usize)> {
    let stack = Stack { congestion: Congestion::Reno, ecn: Ecn::NotEct, pacing };
    let mut pair = Pair::with_stack(stack);
    pair.ends[0].write(1 << 40);
    pair.run(1_000 * MS, lose(&[60]));
    let data = pair.data();
    let late: Vec<_> = data.iter().filter(|s| s.0 >= 600 * MS).map(|s| s.0).collect();
    late.chunk_by(|a, b| a == b).map(|b| (b[0], b.len())).collect()
}

#[test]
fn pacing_limits_the_rate_to_twelve_tenths_of_a_window_per_round_trip() {
    let longest = |bursts: &[(u64, usize)]| bursts.iter().map(|b| b.1).max();
    // On a path without a queue, a burst is acknowledged as a burst.
    assert!(longest(&bursts(Pacing::default())) > Some(40));
    for (largest_burst, seen) in [(None, 2), (Some(1), 1)] {
        let all = bursts(Pacing { always: true, largest_burst });
        let window = (0..10).map(|n| {
            let round = (600 + 40 * n) * MS..(640 + 40 * n) * MS;
            all.iter().filter(|b| round.contains(&b.0)).map(|b| b.1).sum::<usize>()
        });
        // A late timer shortens the next gap by up to half.
        let least = 40.0 * MS as f64 / (1.2 * window.max().unwrap() as f64) / 2.0;
        let keeps = |w: &[(u64, usize)]| (w[1].0 - w[0].0) as f64 >= least * w[0].1 as f64;
        assert!(all.windows(2).all(keeps), "{all:?}");
        assert_eq!(longest(&all), Some(seen));
    }
}

#[test]
fn dctcp_does_not_grow_in_the_round_trip_after_a_mark() {
    let mut pair = Pair::new(Congestion::Dctcp);
    pair.ends[0].write(1 << 40);
    let mut sent = 0_u64;
    // One segment in twenty is marked. With ten segments the reduction is less than a segment, but
    // the window does not grow in the round trip after a mark.
    pair.run(20_000 * MS, |side, _| {
        sent += u64::from(side == 0);
        if side == 0 && sent.is_multiple_of(20) { Fate::Marked } else { Fate::Arrives }
    });
    let window = pair.data_in(10_000..20_000).len() as f64 / 250.0;
    assert!((9.0..12.0).contains(&window), "{window}");
    assert_eq!(pair.ends[0].repairs(), (0, 0));
}

#[test]
fn a_blocked_application_continues_when_a_third_of_the_buffer_is_free() {
    let mut pair = Pair::new(Congestion::Fixed(20));
    pair.ends[0].write(1 << 40);
    pair.run(39 * MS, |_, _| Fate::Arrives);
    let s = sender(&pair);
    // 64 KiB, which the last super-packet may exceed.
    let taken = s.buffer.taken(s.una, s.written);
    assert!(s.buffer.is_blocked() && (65_536..2 * 65_536).contains(&taken), "{taken}");
    pair.run(2_000 * MS, |_, _| Fate::Arrives);
    // The sender always has data, although the buffer holds much less than the application has.
    assert!(pair.data_in(1_000..2_000).len() >= 20 * 24, "{}", pair.data_in(1_000..2_000).len());
    let pushed = pair.sent.iter().filter(|s| s.1 == 0 && s.2.push).count();
    let calls = pair.data().len() as u64 * MSS / 65_536;
    assert!(pushed as u64 <= calls, "only ends of super-packets are pushed: {pushed} of {calls}");
    let mut sizes = pair.sent.iter().filter(|s| s.1 == 0 && s.2.len > 0).map(|s| s.2.len);
    assert!(sizes.all(|len| u64::from(len) == MSS), "all segments are full");
}

#[test]
fn the_buffer_grows_with_the_window_and_bounds_the_data_out_during_a_repair() {
    let mut pair = Pair::new(Congestion::Reno);
    pair.ends[0].write(1 << 40);
    let mut lost = false;
    pair.run(600 * MS, |side, s| {
        // A segment and all of its retransmissions.
        let hole = side == 0 && s.len > 0 && s.seq / MSS == 900;
        lost |= hole;
        if hole { Fate::Lost } else { Fate::Arrives }
    });
    assert!(lost);
    let s = sender(&pair);
    let limit = 2 * u64::from(s.undo.prior_window) * 2_304;
    let taken = s.buffer.taken(s.una, s.written);
    assert!(s.buffer.is_blocked(), "{taken}");
    assert!(taken < limit + 2 * 65_536, "{taken} {limit}");
}
