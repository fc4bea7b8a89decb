//! Classes with weights, guaranteed rates and ceilings against a fluid model.

use forebay_queue::{Class, Fifo, Qdisc, Share, TokenBucket, Weighted, fifo, token_bucket};
use forebay_units::{Nanos, Rate};
use proptest::prelude::*;

use crate::qdiscs::packet::{Pkt, dequeue, enqueue, frame};

/// A class of a test: its settings and the length of its packets.
#[derive(Clone, Copy, Debug)]
struct Load {
    weight: u32,
    rate: Option<u64>,
    ceil: Option<u64>,
    len: u64,
}

const fn load(weight: u32, rate: Option<u64>, ceil: Option<u64>) -> Load {
    Load { weight, rate, ceil, len: 1_500 }
}

impl Load {
    fn class(&self) -> Class {
        let share = Share { weight: self.weight, rate: self.rate.map(Rate::from_bps) };
        Class { share, ceil: self.ceil.map(Rate::from_bps) }
    }
}

/// Classes below a shaper, each with packets all the time.
struct Bench {
    queue: TokenBucket<Weighted<Pkt, Fifo<Pkt>>>,
    loads: Vec<Load>,
    waiting: Vec<u32>,
    sent: Vec<u64>,
    now: Nanos,
    id: u64,
}

impl Bench {
    fn new(bps: u64, loads: &[Load]) -> Self {
        let fifo = || Fifo::new(fifo::Config::default()).unwrap();
        let children = loads.iter().map(|load| (load.class(), fifo())).collect();
        let rate = Some(Rate::from_bps(bps));
        let config = token_bucket::Config { rate, ..Default::default() };
        Self {
            queue: TokenBucket::new(config, Weighted::new(children).unwrap()),
            loads: loads.to_vec(),
            waiting: vec![0; loads.len()],
            sent: vec![0; loads.len()],
            now: Nanos::from_secs(1),
            id: 0,
        }
    }

    fn fill(&mut self) {
        for (class, load) in self.loads.iter().enumerate() {
            while self.waiting[class] < 3 {
                self.waiting[class] += 1;
                self.id += 1;
                let packet = Pkt { class: class as u8, len: load.len, ..frame(self.id, 1) };
                enqueue(&mut self.queue, self.now, packet);
            }
        }
    }

    /// Runs for `time`, and returns the bytes that each class sent.
    fn run(&mut self, time: Nanos) -> Vec<u64> {
        let (before, end) = (self.sent.clone(), self.now + time);
        loop {
            self.fill();
            let due = self.queue.next_event(self.now).expect("packets wait");
            if due > end {
                self.now = end;
                break;
            }
            self.now = self.now.max(due);
            let packet = dequeue(&mut self.queue, self.now).0.expect("it is the time that it said");
            self.sent[usize::from(packet.class)] += packet.len;
            self.waiting[usize::from(packet.class)] -= 1;
        }
        self.sent.iter().zip(before).map(|(now, then)| now - then).collect()
    }
}

/// Divides `amount` by weight, each part at most its own bound.
fn fill_up(mut amount: f64, parts: &[(f64, f64)]) -> Vec<f64> {
    let mut got = vec![0.0; parts.len()];
    let mut open: Vec<usize> = (0..parts.len()).collect();
    while amount > 1e-6 && !open.is_empty() {
        let weights: f64 = open.iter().map(|i| parts[*i].0).sum();
        let step = open
            .iter()
            .map(|i| (parts[*i].1 - got[*i]) / parts[*i].0)
            .fold(amount / weights, f64::min);
        for i in &open {
            got[*i] += step * parts[*i].0;
        }
        amount -= step * weights;
        open.retain(|i| parts[*i].1 - got[*i] > 1e-6);
    }
    got
}

/// The rates of a fluid in bits per second: guarantees by weight, then the rest by weight below the
/// ceilings.
fn fluid(bps: u64, loads: &[Load]) -> Vec<f64> {
    let weight = |load: &Load| f64::from(load.weight);
    let bounds: Vec<_> = loads.iter().map(|l| (weight(l), l.rate.unwrap_or(0) as f64)).collect();
    let owed = fill_up(bps as f64, &bounds);
    let rest = bps as f64 - owed.iter().sum::<f64>();
    let more = loads.iter().zip(&owed).map(|(load, owed)| {
        (weight(load), load.ceil.map_or(f64::INFINITY, |ceil| ceil as f64 - owed))
    });
    let rest = fill_up(rest, &more.collect::<Vec<_>>());
    owed.iter().zip(rest).map(|(owed, rest)| owed + rest).collect()
}

/// The burst of a ceiling, in bytes: eight frames.
const BURST: f64 = 8.0 * 1_514.0;

/// Checks that each class sends as the fluid does, to within 0.1 % and some packets.
///
/// A class whose share is just above its ceiling empties the burst of the ceiling slowly, so some
/// of it may be left when the measurement begins. Then the ceiling is higher by what is left.
fn agrees(bps: u64, loads: &[Load], time: Nanos) -> Result<(), TestCaseError> {
    let mut bench = Bench::new(bps, loads);
    bench.run(Nanos::from_millis(500));
    let sent = bench.run(time);
    let seconds = time.0 as f64 / 1e9;
    let raised = |load: &Load| {
        let ceil = load.ceil.map(|ceil| ceil + (BURST * 8.0 / seconds) as u64);
        Load { ceil, ..*load }
    };
    let with_bursts = fluid(bps, &loads.iter().map(raised).collect::<Vec<_>>());
    let fluids = fluid(bps, loads).into_iter().zip(with_bursts);
    for ((load, bytes), (bps, with_burst)) in loads.iter().zip(&sent).zip(fluids) {
        let wanted = [bps.min(with_burst), bps.max(with_burst)].map(|bps| bps / 8.0 * seconds);
        // Two packets of each class may be in or out of the interval.
        let slack = 0.001 * wanted[1] + 2.0 * loads.iter().map(|l| l.len as f64).sum::<f64>();
        let range = wanted[0] - slack..=wanted[1] + slack;
        prop_assert!(range.contains(&(*bytes as f64)), "{load:?}: {bytes} for {wanted:?}");
        if let Some(ceil) = load.ceil {
            let most = ceil as f64 / 8.0 * seconds + BURST + 1_514.0;
            prop_assert!(*bytes as f64 <= most, "{load:?}: {bytes} of {most}");
        }
    }
    Ok(())
}

#[test]
fn a_fluid_is_divided_as_by_hand() {
    let mbps = |of: &[f64]| of.iter().map(|mbps| mbps * 1e6).collect::<Vec<_>>();
    let near = |bps: u64, loads: &[Load], wanted: &[f64]| {
        let all = fluid(bps, loads).into_iter().zip(mbps(wanted));
        all.for_each(|(got, wanted)| assert!((got - wanted).abs() < 1.0, "{got} for {wanted}"));
    };
    near(
        12_000_000,
        &[load(1, None, None), load(2, None, None), load(3, None, None)],
        &[2.0, 4.0, 6.0],
    );
    let ceil = [load(9, None, Some(500_000)), load(1, Some(3_000_000), None)];
    near(10_000_000, &ceil, &[0.5, 9.5]);
    let most =
        [load(1, Some(1_000_000), None), load(1, Some(20_000_000), None), load(5, None, None)];
    near(9_000_000, &most, &[1.0, 8.0, 0.0]);
}

#[test]
fn three_classes_share_by_weight_within_one_per_mille() {
    let loads = [load(1, None, None), load(2, None, None), load(3, None, None)];
    let mut bench = Bench::new(96_000_000, &loads);
    let sent = bench.run(Nanos::from_secs(10));
    let total: u64 = sent.iter().sum();
    for (index, bytes) in sent.iter().enumerate() {
        let ratio = *bytes as f64 / total as f64 / ((index + 1) as f64 / 6.0);
        assert!((ratio - 1.0).abs() < 0.001, "class {index}: {ratio}");
    }
}

#[test]
fn a_guarantee_holds_while_the_shaper_s_rate_is_above_the_sum() {
    let loads =
        [load(1, Some(8_000_000), None), load(50, None, None), load(100, Some(1_000_000), None)];
    for mbps in [10, 40, 96] {
        let sent = Bench::new(mbps * 1_000_000, &loads).run(Nanos::from_secs(10));
        let of = |class: usize| sent[class] as f64 * 8.0 / 10.0 / 1e6;
        assert!(of(0) > 8.0 * 0.999 && of(2) > 0.999, "{sent:?} at {mbps} Mbit/s");
    }
}

/// The smaller guarantee is whole, and the greater one has the rest.
#[test]
fn guarantees_above_the_shaper_s_rate_are_served_by_weight_and_others_get_nothing() {
    let small = load(1, Some(1_000_000), None);
    let loads = [small, load(1, Some(20_000_000), None), load(100, None, None)];
    let sent = Bench::new(9_000_000, &loads).run(Nanos::from_secs(10));
    let mbps: Vec<f64> = sent.iter().map(|bytes| *bytes as f64 * 8.0 / 10.0 / 1e6).collect();
    assert!((mbps[0] - 1.0).abs() < 0.005 && (mbps[1] - 8.0).abs() < 0.02, "{mbps:?}");
    assert!(mbps[2] < 0.01, "{mbps:?}");
    // By weight where both could have more.
    let loads = [load(1, Some(20_000_000), None), load(3, Some(20_000_000), None)];
    let sent = Bench::new(8_000_000, &loads).run(Nanos::from_secs(10));
    let ratio = sent[1] as f64 / sent[0] as f64;
    assert!((ratio - 3.0).abs() < 0.003, "{sent:?}");
}

#[test]
fn what_a_class_does_not_use_goes_to_the_others_at_once() {
    let loads = [load(1, None, None), load(1, Some(5_000_000), None)];
    let mut bench = Bench::new(10_000_000, &loads);
    bench.loads.truncate(1);
    let sent = bench.run(Nanos::from_secs(1));
    let wanted = 10e6 / 8.0;
    assert!((sent[0] as f64 / wanted - 1.0).abs() < 0.002 && sent[1] == 0, "{sent:?}");
    bench.loads = loads.to_vec();
    let sent = bench.run(Nanos::from_secs(1));
    // 7.5 and 2.5 Mbit/s; the guarantee reaches back 10 ms, which are 6250 bytes.
    assert!(sent[1].abs_diff(937_500 + 6_250 / 2) <= 3_125 + 3_000, "{sent:?}");
}

#[test]
fn settings_change_while_packets_wait_and_none_is_lost() {
    let loads = [load(1, None, None), load(3, None, Some(6_000_000))];
    let mut bench = Bench::new(12_000_000, &loads);
    let by = |sent: &[u64]| sent[1] as f64 / sent[0] as f64;
    let first = bench.run(Nanos::from_secs(4));
    assert!((by(&first) - 1.0).abs() < 0.01, "half each, by the ceiling: {first:?}");
    let waiting = bench.queue.backlog();
    let now = bench.now;
    for (index, weight) in [(0, 3), (1, 1), (7, 9)] {
        bench.queue.child_mut().set(now, index, load(weight, None, None).class());
    }
    assert_eq!(bench.queue.backlog(), waiting);
    let turned = bench.run(Nanos::from_secs(4));
    assert!((by(&turned) - 1.0 / 3.0).abs() < 0.002, "{turned:?}");
    bench.queue.child_mut().set(now, 1, load(1, None, Some(100_000)).class());
    let slow = bench.run(Nanos::from_secs(4));
    // And the burst, of eight frames.
    assert!((50_000..=50_000 + 9 * 1_514).contains(&slow[1]), "{slow:?}");
    // Without ceilings and the shaper everything leaves at once.
    let now = bench.now;
    bench.queue.set_rate(now, None);
    bench.queue.child_mut().lift_ceilings(now);
    let waiting = bench.queue.backlog().packets;
    let left = std::iter::from_fn(|| dequeue(&mut bench.queue, now).0).count();
    assert_eq!(left as u64, waiting);
}

/// Settings of classes whose ceilings are above their guarantees.
fn loads() -> impl Strategy<Value = Vec<Load>> {
    let class = (
        1u32..=100,
        prop::option::of(100_000u64..=10_000_000),
        prop::option::of(0u64..=10_000_000),
        64u64..=1_514,
    );
    let class = class.prop_map(|(weight, rate, above, len)| {
        let ceil = above.map(|above| rate.unwrap_or(100_000) + above);
        Load { weight, rate, ceil, len }
    });
    prop::collection::vec(class, 1..=8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn classes_send_as_a_fluid_does(loads in loads(), mbps in 5u64..=60) {
        agrees(mbps * 1_000_000, &loads, Nanos::from_secs(4))?;
    }
}
