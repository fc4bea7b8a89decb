//! A sendbox that starts again under load, with and without what it knew of the path.

use crate::common::path::{Change, Known, Outcome, World};
use crate::common::seeds::{Seeds, tests_over_seeds};
use forebay_control::Mode;
use forebay_units::{Nanos, Rate};

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

/// Returns after how many seconds from `start` on all ticks to the end are `right`.
fn after(o: &Outcome, start: f64, right: impl Fn(&Known) -> bool) -> Option<f64> {
    let ticks: Vec<_> = o.known[0].iter().filter(|tick| tick.at >= s(start)).collect();
    let wrong = ticks.iter().rposition(|tick| !right(tick));
    let first = ticks.get(wrong.map_or(0, |n| n + 1))?;
    Some(first.at.as_secs_f64() - start)
}

/// Whether the minimum RTT is that of a path of `ms`, for packets of a slow link too.
fn knows(ms: u64) -> impl Fn(&Known) -> bool {
    let range = Nanos::from_millis(ms - ms / 20)..Nanos::from_millis(ms + ms / 10 + 6);
    move |tick| tick.min_rtt.is_some_and(|rtt| range.contains(&rtt))
}

/// Four flows over 6 Mbit/s and 50 ms, whose buffer holds `queue` seconds. The sendbox is down
/// until the buffer is full.
fn into_queue(queue: u64, remembers: bool, (seed, guard): (u64, bool)) -> (Outcome, f64) {
    let mut w = World::new(6, 50);
    (w.seed, w.config.guard) = (seed, guard);
    w.buffer = Rate::from_mbps(6).bytes_in(Nanos::from_secs(queue) + Nanos::from_millis(100));
    let start = (18 + 3 * queue) as f64;
    w.changes = vec![(s(8.0), Change::Down(0)), (s(start), Change::Up(0, remembers))];
    w.duration = s(start + (3 * queue) as f64 + 20.0);
    let o = w.run();
    let stood = o.queue(0.5, s(start - 1.0), s(start)).as_secs_f64();
    assert!(stood > 0.7 * queue as f64, "{stood} s of {queue} s stood");
    (o, start)
}

/// The first sample cannot come before the queue's length has passed, and the queue needs as long
/// again to drain.
fn a_restart_into_a_standing_queue_keeps_the_minimum_rtt(seeds: Seeds) {
    let cases = [(1, true), (2, true), (3, true), (1, false)];
    let cases = cases.into_iter().filter(|(seed, _)| seeds.contains(seed));
    for (case, queue) in cases.flat_map(|case| [1, 5, 12].map(|queue| (case, queue))) {
        let [without, with] = [false, true].map(|remembers| {
            let (o, start) = into_queue(queue, remembers, case);
            let right = after(&o, start, knows(50));
            let controlled = after(&o, start, |tick| tick.mode == Mode::DelayControl);
            let drained = o.sojourns.iter().filter(|(t, _)| *t >= s(start));
            let drained = drained.filter(|(_, wait)| *wait > s(0.1)).map(|(t, _)| *t).max();
            let drained = drained.map_or(0.0, |t| t.as_secs_f64() - start);
            let end = o.world.duration.as_secs_f64();
            let used = o.utilisation(s(start + drained + 2.0), s(end));
            println!(
                "{queue} s of queue, seed and guard {case:?}, remembers {remembers}: the minimum RTT \
                 is right after {right:.2?} s, delay control holds after {controlled:.2?} s, the \
                 queue is below 0.1 s after {drained:.1} s, then {:.1} % used",
                used * 100.0
            );
            (right, controlled, drained, used)
        });
        let what = format!("{queue} s, {case:?}");
        let (right, controlled, drained, used) = with;
        assert!(right.is_some_and(|t| t < 0.02), "{what}: {right:?}");
        assert!(controlled.is_some_and(|t| t < queue as f64 + 1.0), "{what}: {controlled:?}");

        assert!(drained < 2.2 * queue as f64 + 1.0, "{what}: {drained}");
        assert!(used > 0.9, "{what}: {used}");
        // Without memory the queue has to go first, which takes less than twice its length.
        assert!(without.0.is_none_or(|t| t > 1.7 * queue as f64), "{what}: {without:?}");
    }
}

/// Eight flows over 24 Mbit/s and a buffer of 200 ms. While the sendbox is down, the path of 50 ms
/// becomes one of `ms`.
fn into_other_path(ms: u64, seed: u64, guard: bool, jitter: f64) -> (Outcome, f64) {
    let start = 12.0;
    let mut w = World::new(24, 50).bundles(1, 8);
    (w.seed, w.config.guard, w.duration) = (seed, guard, s(start + 40.0));
    w.spikes = (jitter, Nanos::from_millis(8));
    let rtt = Change::Rtt(Nanos::from_millis(ms));
    w.changes = vec![(s(10.0), Change::Down(0)), (s(10.5), rtt), (s(start), Change::Up(0, true))];
    (w.run(), start)
}

fn a_path_that_changed_while_the_box_was_down_is_learned(seeds: Seeds) {
    for guard in [true, false] {
        for seed in seeds.clone() {
            for ms in [10, 25, 50, 80, 120, 300, 600] {
                let (o, start) = into_other_path(ms, seed, guard, 0.01);
                let right = after(&o, start, knows(ms));
                let end = o.world.duration.as_secs_f64();
                let used = o.utilisation(s(start + 15.0), s(end));
                let queue = o.queue(0.5, s(start + 15.0), s(end)).as_millis_f64();
                let what = format!(
                    "50 -> {ms} ms, guard {guard}, seed {seed}: learned after {right:.2?} s, then \
                     {:.1} % used, median queue {queue:.1} ms",
                    used * 100.0
                );
                println!("{what}");
                assert!(right.is_some_and(|t| t < 5.0), "{what}");
                assert!(used > 0.9, "{what}");
            }
        }
    }
}

/// Jitter looks like a queue that moves, so a longer path is not recognised by its constant delay.
fn a_longer_path_with_jitter_is_learned_when_the_memory_expires(seeds: Seeds) {
    for guard in [true, false] {
        for seed in seeds.clone() {
            let (o, start) = into_other_path(90, seed, guard, 0.5);
            let right = after(&o, start, knows(90));
            println!("guard {guard}, seed {seed}: learned after {right:.2?} s");
            assert!(right.is_some_and(|t| t < 12.0), "guard {guard}, seed {seed}: {right:?}");
        }
    }
}

tests_over_seeds! {
    a_restart_into_a_standing_queue_keeps_the_minimum_rtt: 3;
    a_path_that_changed_while_the_box_was_down_is_learned: 3;
    a_longer_path_with_jitter_is_learned_when_the_memory_expires: 3;
}
