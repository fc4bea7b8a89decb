//! Tests of TCP with losses, reordering, marks and full queues.

use forebay_queue::Ecn;
use forebay_sim::{
    Congestion, Connections, Jitter, Loss, RequestTiming, ScheduledRequest, SetupError, Traffic,
    TrafficKind,
};
use forebay_units::{Bytes, Nanos, Rate};

use crate::dumbbell::network::{Dumbbell, Seen, dualpi2_queue, fifo_queue, fq_codel_queue};

const S: Nanos = Nanos::from_secs(1);

fn bulk(flows: u32, congestion: Congestion) -> TrafficKind {
    TrafficKind::Bulk { flows, congestion }
}

fn goodput(seen: &Seen, time: Nanos) -> f64 {
    Rate::from_bytes_over(Bytes(seen.read.iter().sum()), time).as_mbps_f64()
}

#[test]
fn every_byte_arrives_with_any_loss() {
    for (seed, loss) in [
        (1, Loss::Random(0.02)),
        (2, Loss::Random(0.2)),
        (3, Loss::Burst { begin: 0.005, end: 0.2 }),
        (4, Loss::Burst { begin: 0.01, end: 0.1 }),
    ] {
        for congestion in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr] {
            let dumbbell = Dumbbell::new(20, 30, fifo_queue(Bytes(60_000)));
            let mut net = Dumbbell { seed, loss, ..dumbbell }.build();
            let schedule: Vec<_> = (0..40)
                .map(|n| ScheduledRequest {
                    at: S / 10 * n,
                    connection: (n % 4) as u32,
                    size: 30_000 + n,
                })
                .collect();
            let sizes: u64 = schedule.iter().map(|a| a.size).sum();
            let (timing, connections) =
                (RequestTiming::Scheduled(schedule), Connections::Persistent(4));
            net.add(TrafficKind::Requests { timing, connections, congestion }, S * 5);
            net.sim.run_until(S * 400);
            let seen = net.sim.observer();
            assert_eq!(seen.answered.len(), 40, "{loss:?} {congestion:?}");
            assert_eq!(seen.read, [sizes]);
            let totals = net.sim.totals();
            assert!(totals.retransmissions > 0, "{totals:?}");
            assert_eq!(totals.live, 0, "no packet is left in the end");
            net.check_accounts();
        }
    }
}

#[test]
fn the_states_of_flows_are_those_of_their_senders() {
    // Seven full packets in a round trip of 40 ms are 2.1 Mbit/s, so that no queue forms.
    let mut net = Dumbbell::new(10, 40, fifo_queue(Bytes(60_000))).build();
    net.add(bulk(1, Congestion::Fixed(7)), S * 10);
    net.add(bulk(1, Congestion::Fixed(3)), S * 10);
    assert_eq!(net.sim.flows().count(), 0, "none has sent data yet");
    net.sim.run_until(S * 5);
    let mut states: Vec<_> = net.sim.flows().collect();
    states.sort_by_key(|state| state.traffic);
    let windows: Vec<_> = states.iter().map(|s| (s.traffic, s.flow, s.window)).collect();
    assert_eq!(windows, [(0, 0, 7), (1, 0, 3)]);
    for state in states {
        assert!(state.in_flight <= state.window, "{state:?}");
        assert_eq!(state.retransmissions, 0);
        let rtt = state.rtt.unwrap();
        assert!((Nanos::from_millis(40)..Nanos::from_millis(60)).contains(&rtt), "{state:?}");
    }
}

#[test]
fn reno_follows_the_square_root_law() {
    let p = 0.002;
    let dumbbell = Dumbbell::new(1000, 40, fifo_queue(Bytes(10_000_000)));
    let mut net = Dumbbell { loss: Loss::Random(p), ..dumbbell }.build();
    net.add(bulk(4, Congestion::Reno), S * 200);
    net.sim.run_until(S * 200);
    // Mathis et al. 1997: W = sqrt(3 / 2p) for one acknowledgement per segment. Linux counts
    // delayed acknowledgements by bytes.
    let window = (1.5_f64 / p).sqrt();
    let expected = 4.0 * window * 1448.0 * 8.0 / 0.040 / 1e6;
    let got = goodput(net.sim.observer(), S * 200);
    assert!((0.85..1.15).contains(&(got / expected)), "{got} of {expected}");
}

#[test]
fn cubic_flows_share_a_queue_without_timeouts() {
    let mut net = Dumbbell::new(48, 20, fifo_queue(Bytes(120_000))).build();
    net.add(bulk(4, Congestion::Cubic), S * 60);
    net.sim.run_until(S * 60);
    let totals = net.sim.totals();
    assert!(totals.retransmissions > 10, "{totals:?}");
    assert!(totals.timeouts <= 2, "{totals:?}");
    let read = &net.sim.observer().read;
    let (least, most) = (read.iter().min().unwrap(), read.iter().max().unwrap());
    assert!(*most < 3 * least, "{read:?}");
}

#[test]
fn bbr_keeps_a_deep_queue_short() {
    let wait = |congestion| {
        let mut net = Dumbbell::new(48, 40, fifo_queue(Bytes(2_400_000))).build();
        net.add(bulk(1, congestion), S * 30);
        net.sim.run_until(S * 30);
        (net.sim.observer().mean_wait_ms(S * 5), goodput(net.sim.observer(), S * 30))
    };
    let (cubic, bbr) = (wait(Congestion::Cubic), wait(Congestion::Bbr));
    assert!(cubic.0 > 80.0, "{cubic:?}");
    assert!(bbr.0 < 30.0 && bbr.1 > 42.0, "{bbr:?}");
}

#[test]
fn dctcp_is_marked_and_not_dropped() {
    let mut net = Dumbbell::new(48, 20, fq_codel_queue()).build();
    net.add(bulk(2, Congestion::Dctcp), S * 20);
    net.sim.run_until(S * 20);
    let totals = net.sim.totals();
    assert_eq!((totals.retransmissions, totals.dropped), (0, 0), "{totals:?}");
    assert!(goodput(net.sim.observer(), S * 20) > 42.0);
    assert!(net.sim.observer().mean_wait_ms(S * 5) < 15.0);
}

#[test]
fn reordering_is_detected_and_not_taken_for_loss() {
    let dumbbell = Dumbbell::new(48, 40, fifo_queue(Bytes(2_400_000)));
    let jitter = Jitter { up_to: Nanos::from_millis(4), reorders: true };
    let mut net = Dumbbell { jitter, ..dumbbell }.build();
    net.add(bulk(1, Congestion::Fixed(120)), S * 20);
    net.sim.run_until(S * 20);
    let totals = net.sim.totals();
    // The jitter of 4 ms is within a quarter of the round trip.
    assert!(totals.retransmissions < totals.made / 1000, "{totals:?}");
    assert_eq!(totals.timeouts, 0);
}

#[test]
fn flows_with_ecn_are_marked_instead_of_dropped() {
    for congestion in [Congestion::Cubic, Congestion::Reno, Congestion::Prague] {
        let mut net = Dumbbell::new(48, 20, fq_codel_queue()).build();
        net.sim.set_ecn(true);
        net.add(bulk(2, congestion), S * 20);
        net.sim.run_until(S * 20);
        let totals = net.sim.totals();
        assert_eq!((totals.retransmissions, totals.dropped), (0, 0), "{congestion:?} {totals:?}");
        let got = goodput(net.sim.observer(), S * 20);
        assert!(got > 38.0, "{congestion:?} {got}");
        assert!(net.sim.observer().mean_wait_ms(S * 5) < 15.0);
    }
}

/// A scalable control does not take late packets for losses, measured in time and not in packets
/// (RFC 9331 section 4.3 item 6).
#[test]
fn prague_does_not_take_reordering_for_loss() {
    let dumbbell = Dumbbell::new(48, 40, dualpi2_queue());
    let jitter = Jitter { up_to: Nanos::from_millis(4), reorders: true };
    let mut net = Dumbbell { jitter, ..dumbbell }.build();
    net.add(bulk(1, Congestion::Prague), S * 20);
    net.sim.run_until(S * 20);
    let totals = net.sim.totals();
    assert!(totals.retransmissions < totals.made / 1000, "{totals:?}");
    assert_eq!((totals.timeouts, totals.dropped), (0, 0));
}

/// DCTCP with ECT(1) is queued and marked as L4S. It waits about a millisecond next to a classic
/// flow that waits fifteen.
#[test]
fn a_flow_with_ect1_is_queued_as_l4s() {
    let mut net = Dumbbell::new(48, 10, dualpi2_queue()).build();
    net.add_with_ecn(bulk(1, Congestion::Dctcp), S * 20, Some(Ecn::Ect1));
    net.add_with_ecn(bulk(1, Congestion::Cubic), S * 20, None);
    net.sim.run_until(S * 20);
    let seen = net.sim.observer();
    // A full frame takes a quarter of a millisecond at 48 Mbit/s.
    let quick = seen.queue.iter().filter(|p| p.sojourn < Nanos::from_millis(2)).count();
    let marked = seen.queue.iter().filter(|p| p.marked).count();
    assert!((2 * quick).abs_diff(seen.queue.len()) < seen.queue.len() / 3, "about half: {quick}");
    assert!(marked > quick / 100, "{marked} of {quick}");
}

#[test]
fn codepoints_that_a_flow_may_not_send_are_refused() {
    let mut net = Dumbbell::new(48, 10, dualpi2_queue()).build();
    for (congestion, ecn) in [
        (Congestion::Cubic, Ecn::Ect1),
        (Congestion::Prague, Ecn::Ect0),
        (Congestion::Dctcp, Ecn::NotEct),
        (Congestion::Reno, Ecn::Ce),
    ] {
        let kind = bulk(1, congestion);
        let traffic = Traffic { path: net.path, start: Nanos::ZERO, stop: S, ecn: Some(ecn), kind };
        let error = net.sim.add_traffic(traffic).unwrap_err();
        assert_eq!(error, SetupError::Ecn, "{congestion:?} {ecn:?}");
    }
}
