//! Tests of whole networks: throughput, delay, counters and repeatability.

mod network;
mod requests;
mod tcp;
mod topology;

use forebay_sim::{Congestion, Connections, Pattern, ScheduledRequest, TrafficKind};
use forebay_units::{Bytes, Nanos, Rate};

use network::{Dumbbell, fifo_queue, fq_codel_queue, requests, sfq_queue};

const S: Nanos = Nanos::from_secs(1);

fn bdp(mbps: u64, rtt_ms: u64) -> Bytes {
    Rate::from_mbps(mbps).bytes_in(Nanos::from_millis(rtt_ms))
}

fn bulk(flows: u32) -> TrafficKind {
    TrafficKind::Bulk { flows, congestion: Congestion::Cubic }
}

#[test]
fn an_answer_on_an_empty_path_takes_its_round_trips() {
    let mut net = Dumbbell::new(96, 50, fifo_queue(bdp(96, 50))).build();
    let schedule = vec![
        ScheduledRequest { at: S, connection: 0, size: 1000 },
        ScheduledRequest { at: S * 3, connection: 0, size: 100_000 },
    ];
    net.add(requests(schedule, Connections::Persistent(1)), S * 9);
    net.sim.run_until(S * 9);
    let seen = net.sim.observer();
    let took: Vec<_> = seen.answered.iter().zip([S, S * 3]).map(|(a, s)| (a.1 - s).0).collect();
    // A round trip and 1066 B at 96 Mbit/s; the second answer takes three round trips.
    let first = net.rtt.0 + net.rate.time_for(Bytes(1066)).0;
    assert!(took[0].abs_diff(first) < 20_001, "{took:?}");
    assert!((150_000_000..170_000_000).contains(&took[1]), "10 + 20 + 40 segments: {took:?}");
    net.check_accounts();
}

#[test]
fn two_runs_of_a_seed_are_equal() {
    let run = |seed| {
        let mut net = Dumbbell { seed, ..Dumbbell::new(24, 20, fifo_queue(bdp(24, 40))) }
            .with_sendbox(sfq_queue(1000))
            .build();
        net.add(bulk(3), S * 5);
        net.add(TrafficKind::UdpBulk { flows: 1 }, S * 5);
        net.add(TrafficKind::UdpLoops { flows: 2 }, S * 5);
        net.sim.run_until(S * 5);
        net.check_accounts();
        (net.sim.totals(), std::mem::take(net.sim.observer_mut()))
    };
    let first = run(7);
    assert!(first.1.loops.len() > 100 && first.1.queue.len() > 5_000);
    assert_eq!(first, run(7));
    assert_ne!(first.1, run(8).1);
}

#[test]
fn counters_add_up_and_the_link_is_used_with_every_queue() {
    for (name, queue) in [
        ("fifo", fifo_queue(bdp(48, 50))),
        ("sfq", sfq_queue(1000)),
        ("fq_codel", fq_codel_queue()),
    ] {
        let mut net = Dumbbell::new(48, 50, queue).build();
        net.add(bulk(5), S * 20);
        net.sim.run_until(S * 20);
        net.check_accounts();
        let read: u64 = net.sim.observer().read.iter().sum();
        let goodput = Rate::from_bytes_over(Bytes(read), S * 20).as_mbps_f64();
        assert!(goodput > 41.0 && goodput < 48.0 * 1448.0 / 1514.0, "{name}: {goodput}");
    }
}

#[test]
fn the_boxes_move_the_queue_to_the_sendbox() {
    let wait = |boxes: bool| {
        let mut dumbbell = Dumbbell::new(48, 50, fifo_queue(bdp(48, 100)));
        if boxes {
            dumbbell = dumbbell.with_sendbox(sfq_queue(1000));
        }
        let mut net = dumbbell.build();
        net.add(bulk(2), S * 30);
        net.sim.run_until(S * 30);
        net.check_accounts();
        let read: u64 = net.sim.observer().read.iter().sum();
        let goodput = Rate::from_bytes_over(Bytes(read), S * 30).as_mbps_f64();
        (net.sim.observer().mean_wait_ms(S * 5), goodput)
    };
    let (before, after) = (wait(false), wait(true));
    assert!(before.0 > 30.0, "{before:?}");
    assert!(after.0 < 6.0, "{after:?}");
    assert!(after.1 > 0.93 * before.1, "{before:?} {after:?}");
}

#[test]
fn datagrams_keep_their_rate() {
    let mut net = Dumbbell::new(10, 10, fifo_queue(bdp(10, 100))).build();
    let pattern = Pattern::Constant { rate: Rate::from_mbps(4), size: Bytes(1000) };
    net.add(TrafficKind::Datagrams(pattern), S * 10);
    net.add(TrafficKind::UdpLoops { flows: 1 }, S * 10);
    net.sim.run_until(S * 11);
    assert_eq!(net.sim.observer().read[0], 5_000_000);
    // 10 ms, 82 B at 10 Mbit/s, and up to the length of a datagram.
    for (start, end) in &net.sim.observer().loops {
        let took = (end.unwrap() - *start).0;
        assert!((10_065_600..10_930_000).contains(&took), "{took}");
    }
    net.check_accounts();
    assert_eq!(net.sim.totals().live, 0);
}
