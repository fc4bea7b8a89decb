use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use forebay_queue::egress::FlowId;
use forebay_units::Rate;
use proptest::prelude::*;
use quinn::udp::Transmit;

use super::state::Work;
use super::*;

const MS: Nanos = Nanos::from_millis(1);

/// At this rate 1000 B take a millisecond.
fn config() -> Config {
    Config {
        rate: Rate::from_mbps(8),
        flows: 4,
        granularity: Nanos(1 << 10),
        credit: Nanos::ZERO,
        ..Config::default()
    }
}

fn message(len: usize, segment: Option<usize>) -> Message {
    Message::of(&Transmit {
        destination: "192.0.2.1:443".parse().unwrap(),
        ecn: None,
        contents: &vec![7; len],
        segment_size: segment,
        src_ip: None,
    })
}

#[derive(Default)]
struct Counted(AtomicU32);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls at the times that the state gives, up to `end`. Returns the lengths and times of messages.
fn drive(state: &mut State, mut now: Nanos, end: Nanos) -> Vec<(FlowId, usize, Nanos)> {
    let (mut work, mut left) = (Work::default(), Vec::new());
    loop {
        let next = state.poll(now, &mut work);
        work.wake.drain(..).for_each(Waker::wake);
        left.extend(work.messages.iter().map(|l| (l.flow, l.message.len(), now)));
        let any = !work.messages.is_empty();
        let refused = vec![false; work.messages.len()];
        state.departed(now, &mut work, &refused);
        match next {
            _ if any => {}
            Some(next) if next <= end => now = next.max(now + Nanos(1)),
            _ => return left,
        }
    }
}

#[test]
fn each_connection_has_its_own_rate() {
    let mut state = State::new(&Config { waiting: 3, ..config() }).unwrap();
    let flows = [state.open().unwrap(), state.open().unwrap()];
    for flow in flows {
        for _ in 0..3 {
            state.put(MS, flow, message(1000, None));
        }
    }
    let left = drive(&mut state, MS, MS * 10);
    for flow in flows {
        let own = left.iter().filter(|(of, ..)| *of == flow).map(|(.., at)| at.0);
        let at: Vec<u64> = own.collect();
        assert_eq!(at.len(), 3);
        // To a granularity.
        let since: Vec<_> = at.iter().map(|at| (at - MS.0 + 1024) / 1_000_000).collect();
        assert_eq!(since, [0, 1, 2]);
    }
    assert_eq!(state.backlog(), 0);
}

#[test]
fn a_connection_with_enough_waiting_is_woken_when_one_leaves() {
    let mut state = State::new(&config()).unwrap();
    let flow = state.open().unwrap();
    let woken = Arc::new(Counted::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(state.wait(flow, &waker).is_err());
    assert!(state.put(MS, flow, message(1000, None)) && !state.put(MS, flow, message(900, None)));
    assert!(state.wait(flow, &waker).is_ok_and(|before| before.is_none()));
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    assert_eq!(drive(&mut state, MS, MS * 9).len(), 2);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(state.wait(flow, &waker).is_err());
}

#[test]
fn a_connection_is_woken_when_half_of_its_transmits_are_left() {
    let mut state = State::new(&Config { waiting: 4, ..config() }).unwrap();
    let flow = state.open().unwrap();
    let woken = Arc::new(Counted::default());
    for _ in 0..4 {
        state.put(MS, flow, message(1000, None));
    }
    assert!(state.wait(flow, &Waker::from(Arc::clone(&woken))).is_ok());
    assert_eq!(drive(&mut state, MS, MS).len(), 1);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    assert_eq!(drive(&mut state, MS, MS * 2 + Nanos(2048)).len(), 1);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
}

#[test]
fn what_a_connection_left_behind_is_sent_and_its_place_is_used_again() {
    let mut state = State::new(&Config { flows: 1, ..config() }).unwrap();
    let flow = state.open().unwrap();
    assert!(state.open().is_none());
    state.put(MS, flow, message(1000, None));
    state.close(flow);
    assert!(state.open().is_none(), "its last message waits");
    assert_eq!(drive(&mut state, MS, MS * 9).len(), 1);
    let again = state.open().unwrap();
    assert_ne!(again, flow);
    state.close(again);
    let Statistics { flows, unpaced, taken, sent, .. } = state.statistics();
    assert_eq!((flows, unpaced, taken, sent), (0, 2, 1, 1));
}

#[test]
fn segments_of_a_transmit_count_each() {
    let mut state = State::new(&config()).unwrap();
    let flow = state.open().unwrap();
    state.put(MS, flow, message(2500, Some(1000)));
    assert_eq!(state.backlog(), 3);
    assert_eq!(drive(&mut state, MS, MS * 9), [(flow, 2500, MS)]);
    let Statistics { sent, sent_bytes, .. } = state.statistics();
    assert_eq!((sent, sent_bytes), (3, 2500));
}

#[test]
fn settings_out_of_range_are_refused() {
    let refused = |config: Config| State::new(&config).err().map(|e| e.to_string());
    assert!(refused(Config { waiting: 0, ..config() }).unwrap().contains("waiting"));
    assert!(refused(Config { flows: 0, ..config() }).unwrap().contains("flows"));
    assert!(refused(Config { rate: Rate::from_bps(9), ..config() }).unwrap().contains("rate"));
}

proptest! {
    /// Nothing is lost, nothing overtakes, and no connection is faster than its rate.
    #[test]
    fn messages_leave_in_order_at_the_rate(
        lens in prop::collection::vec((0u32..3, 1usize..5000), 1..60),
    ) {
        let config = Config { waiting: 255, ..config() };
        let mut state = State::new(&config).unwrap();
        let flows: Vec<_> = (0..3).map(|_| state.open().unwrap()).collect();
        for (flow, len) in &lens {
            state.put(MS, flows[*flow as usize], message(*len, None));
        }
        let left = drive(&mut state, MS, MS * 1000);
        for (n, flow) in (0..).zip(flows) {
            let put: Vec<_> = lens.iter().filter(|(of, _)| *of == n).map(|(_, l)| *l).collect();
            let own: Vec<_> = left.iter().filter(|(of, ..)| *of == flow).collect();
            let lengths: Vec<_> = own.iter().map(|(_, len, _)| *len).collect();
            prop_assert_eq!(&lengths, &put);
            // What has left before the last turn took its time at the rate.
            let last = own.last().map_or(MS, |(.., at)| *at);
            let before: usize = own.iter().filter(|(.., at)| *at < last).map(|(_, l, _)| l).sum();
            let least = config.rate.time_for(forebay_units::Bytes(before as u64));
            prop_assert!(last.0 + 2048 >= MS.0 + least.0, "{last:?} {least:?}");
        }
        prop_assert_eq!(state.backlog(), 0);
    }
}
