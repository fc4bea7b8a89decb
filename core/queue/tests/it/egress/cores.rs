//! Engines of several cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

use forebay_queue::egress::cores::{Board, Config, Seat};
use forebay_queue::egress::{
    Answer, Ask, Departure, Engine, FlowId, Hint, Next, Policy, Settings, Transport,
};
use forebay_units::{Bytes, Nanos};
use proptest::prelude::*;

use crate::egress::world::small;

/// Flows that always have a packet, or a number of packets at most.
struct Counted {
    sent: Vec<u64>,
    most: u64,
    turns: Vec<FlowId>,
}

impl Transport for Counted {
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        let sent = &mut self.sent[ask.flow.index() as usize];
        *sent += 1;
        self.turns.push(ask.flow);
        let more = *sent < self.most;
        let next = if more { Next::Ready(Hint::default()) } else { Next::Idle };
        Answer { bytes: Bytes(1500), packets: 1, next }
    }
}

struct Core {
    engine: Engine,
    flows: Counted,
}

impl Core {
    fn new(seat: Seat, flows: u32, most: u64) -> Self {
        let mut engine = Engine::new(small(flows), Policy::FAIR).unwrap().with_seat(seat);
        for _ in 0..flows {
            let flow = engine.open(Settings::default()).unwrap().unwrap();
            engine.wake(Nanos(1), flow, Hint::default());
        }
        Self { engine, flows: Counted { sent: vec![0; flows as usize], most, turns: Vec::new() } }
    }

    /// Polls once; returns the turns and when to poll again.
    fn poll(&mut self, now: Nanos) -> (u32, Option<Nanos>) {
        let polled = self.engine.poll(now, &mut self.flows);
        for flow in self.flows.turns.drain(..) {
            let departure = Departure { packets: 1, bytes: Bytes(1500), asked: now };
            self.engine.departed(now, flow, departure);
        }
        (polled.turns, polled.next)
    }
}

/// The numbers of flows of the two cores: 30 000 together.
const FLOWS: [u32; 2] = [20_000, 10_000];

#[test]
fn thirty_thousand_flows_over_two_threads_get_the_same() {
    // The machine may stop a thread for any time, and the test must not take it for gone.
    let config = Config { timeout: Nanos::from_secs(3600), ..Config::default() };
    let seats = Board::seats(config).unwrap();
    // The test ends after a number of packets, not after a time.
    let rounds = 100;
    let left = Mutex::new(rounds * 30_000_i64);
    // A clock that advances with the work, the same for both.
    let clock = AtomicU64::new(1001);
    let begun = Barrier::new(2);
    let mut sent: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = FLOWS
            .into_iter()
            .zip(seats)
            .map(|(flows, seat)| {
                let (left, clock, begun) = (&left, &clock, &begun);
                scope.spawn(move || {
                    let mut core = Core::new(seat, flows, u64::MAX);
                    // A core that begins later has no claim on what was sent before.
                    core.poll(Nanos(1000));
                    begun.wait();
                    loop {
                        let now = clock.fetch_add(1000, Ordering::Relaxed);
                        let (turns, _) = core.poll(Nanos(now));
                        if turns == 0 {
                            thread::yield_now();
                        }
                        let mut left = left.lock().unwrap();
                        *left -= i64::from(turns);
                        if *left <= 0 {
                            return core.flows.sent;
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    sent.sort_unstable();
    let at = |percent: usize| sent[(sent.len() - 1) * percent / 100] as f64;
    assert!(at(1) >= 90.0, "{}", at(1));
    assert!(at(99) / at(1) <= 1.05, "{} to {}", at(1), at(99));
}

proptest! {
    /// Whatever the order in which cores poll, no flow runs ahead of one on another core by more
    /// than the slack and the packets of one poll, and cores without flows hold nobody up.
    #[test]
    fn cores_keep_step_in_any_order(
        flows in prop::collection::vec(1..40_u32, 2..4),
        turns in prop::collection::vec((0..4_usize, 0..100_000_u64), 200..1500),
    ) {
        let config = Config { cores: flows.len() as u32, ..Config::default() };
        let seats = Board::seats(config).unwrap();
        let mut cores: Vec<_> =
            flows.iter().zip(seats).map(|(&flows, seat)| Core::new(seat, flows, 60)).collect();
        let mut now = Nanos(1000);
        // All cores have begun, within the period in which none is taken for gone.
        for core in &mut cores {
            core.poll(now);
        }
        let mut last = vec![now; cores.len()];
        for (core, pause) in turns {
            let core = core % cores.len();
            // No core is silent for long enough to be taken for gone.
            now += Nanos(pause.min(9_000_000 / 1500));
            last[core] = now;
            if last.iter().any(|&at| now.saturating_sub(at) > Nanos::from_millis(9)) {
                break;
            }
            cores[core].poll(now);
            let busy = |core: &Core| core.flows.sent.iter().any(|&sent| sent < 60);
            if cores.iter().all(busy) {
                let least = cores.iter().flat_map(|core| core.flows.sent.iter()).min().unwrap();
                let most = cores.iter().flat_map(|core| core.flows.sent.iter()).max().unwrap();
                // A poll has 16 turns: with one flow, it gets all of them before the next check.
                prop_assert!(most - least <= 2 + 16 + 2, "{least} to {most}");
            }
        }
        // At each time at least one core proceeds, until all flows have sent all.
        let total: u64 = flows.iter().map(|&flows| u64::from(flows) * 60).sum();
        let sent = |cores: &[Core]| cores.iter().flat_map(|core| core.flows.sent.iter()).sum::<u64>();
        while sent(&cores) < total {
            let before = sent(&cores);
            for _ in 0..2 {
                now += config.period;
                cores.iter_mut().for_each(|core| {
                    core.poll(now);
                });
            }
            prop_assert!(sent(&cores) > before, "all cores wait for each other");
        }
    }
}

#[test]
fn a_core_that_is_gone_or_idle_holds_nobody_up() {
    for catch_up in [0, 20 * 1500] {
        let config = Config { catch_up, ..Config::default() };
        let mut seats = Board::seats(config).unwrap().into_iter();
        let mut silent = Core::new(seats.next().unwrap(), 10, u64::MAX);
        let mut active = Core::new(seats.next().unwrap(), 10, u64::MAX);
        let mut now = Nanos(1000);
        silent.poll(now);
        let mut waited = Nanos::ZERO;
        while active.flows.sent[0] < 100 {
            if let (0, Some(next)) = active.poll(now) {
                waited += next - now;
                now = next;
            }
            now += Nanos(1000);
            assert!(waited <= config.timeout + config.period, "held up by a silent core");
        }
        assert!(waited.0 >= config.timeout.0 * 9 / 10, "it did wait at first");
        // The silent core comes back. It serves until it has caught up as much as it may.
        while silent.poll(now).0 > 0 {}
        let sent = silent.flows.sent[0];
        let allowed = 2 + catch_up / 1500;
        // A poll has up to two turns of each flow, and the slack is two packets to either side.
        assert!((allowed..=allowed + 6).contains(&sent), "{sent}, of {allowed} to catch up");
        active.poll(now + config.period);
        assert!(active.flows.sent[0] <= 100 + 6);
        // When it ends, nobody waits for it.
        drop(silent);
        let before = active.flows.sent[0];
        for _ in 0..40 {
            now += config.period;
            active.poll(now);
        }
        assert!(active.flows.sent[0] >= before + 40, "held up by a core that ended");
    }
}

/// A core that calls too seldom gets nothing for it.
#[test]
fn a_core_that_is_ahead_and_sleeps_long_stays_where_it_is() {
    let config = Config::default();
    let mut seats = Board::seats(config).unwrap().into_iter();
    let mut slow = Core::new(seats.next().unwrap(), 1000, u64::MAX);
    let mut fast = Core::new(seats.next().unwrap(), 10, u64::MAX);
    let mut now = Nanos(1000);
    // Its packets do not depart, so there is no room for the rest of its flows, which wait.
    while slow.engine.poll(now, &mut slow.flows).turns > 0 {}
    assert_eq!(slow.flows.turns.len(), 1000);
    while fast.poll(now).0 > 0 {}
    let sent = fast.flows.sent[0];
    for _ in 0..100 {
        now += config.timeout;
        slow.engine.poll(now, &mut slow.flows);
        now += config.period;
        fast.poll(now);
    }
    assert!((1..=sent).contains(&fast.flows.sent[0]), "{} after {sent}", fast.flows.sent[0]);
}
