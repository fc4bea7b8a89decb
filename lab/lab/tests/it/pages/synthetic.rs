//! Synthetic runs that resemble real ones. They come from formulas and a seeded generator, so they
//! never change.

use forebay_lab::demo::Arm;
use forebay_lab::results::{Event, HopCounters, Progress, Request, Run, Tick};
use forebay_records::packet_log::{Fate, Record};
use forebay_units::{Bytes, Nanos, Rate};

/// The random number generator SplitMix64.
struct Random(u64);

impl Random {
    /// Returns a uniform random number in [0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

const RATE: Rate = Rate::from_mbps(96);
const BASE_RTT: Nanos = Nanos::from_millis(50);
const WARM_UP: f64 = 5.0;

/// Returns the delays of the bottleneck's and the sendbox's queues at time `t`, in seconds.
fn delays(arm: Arm, t: f64, load: f64, r: f64) -> (f64, Option<f64>) {
    // A sawtooth of 7 s like that of Cubic, and a slowly varying load.
    let saw = 0.055 + 0.09 * ((t / 7.0).fract()).powf(0.6);
    let big = (saw * load).max(0.0);
    let small = 0.001 + 0.003 * r * r + 0.002 * (t * 1.7).sin().max(0.0);
    match arm {
        Arm::StatusQuo => (big + 0.002 * r, None),
        Arm::InNetworkSfq => ((big * 1.6 * r.powi(3)) + 0.0005, None),
        Arm::ForebaySfq => (small, Some(big * 1.8 * r.powi(3) + 0.0003)),
        Arm::ForebayFifo => (small, Some(big + 0.002 * r)),
    }
}

/// Returns a run of `arm` over `seconds`, measured after a warm-up.
pub(crate) fn run(arm: Arm, seed: u64, seconds: f64) -> Run {
    let mut random = Random(seed);
    let secs = |s: f64| Nanos::from_secs_f64(s + 1000.0);
    let mut run = Run {
        arm: arm.key().to_owned(),
        seed,
        start: secs(WARM_UP),
        end: secs(WARM_UP + seconds),
        rate: RATE,
        base_rtt: BASE_RTT,
        ..Run::default()
    };
    let mut load = 0.8f64;
    let mut t = 0.0;
    while t < WARM_UP + seconds {
        t += 1514.0 * 8.0 / 90e6;
        load = (load + 0.02 * (random.unit() - 0.5)).clamp(0.3, 1.1);
        let (bottleneck, sendbox) = delays(arm, t, load, random.unit());
        let record = |delay| Record {
            time: secs(t),
            sojourn: Nanos::from_secs_f64(delay),
            len: Bytes(1514),
            source: 1,
            flow: 0,
            fate: Fate::Sent,
            l4s: false,
            marked: false,
        };
        run.bottleneck.push(record(bottleneck));
        run.sendbox.extend(sendbox.map(record));
    }
    requests(&mut run, arm, seconds, Random(seed ^ 1));
    if matches!(arm, Arm::ForebaySfq | Arm::ForebayFifo) {
        ticks(&mut run, Random(seed ^ 2));
    }
    hops(&mut run);
    events(&mut run);
    run
}

/// Adds the control loop's events at the start, and a change of the epoch size in the measured
/// interval.
fn events(run: &mut Run) {
    let Some(first) = run.ticks.first() else { return };
    let mut push = |time, kind: &str, text: &str| {
        run.events.push(Event {
            time,
            bundle: "to-b".to_owned(),
            kind: kind.to_owned(),
            values: [].into(),
            text: text.to_owned(),
        });
    };
    push(first.time, "mode_changed", "mode open -> delay control: first measured");
    push(first.time, "rate_set", "rate unlimited -> 96 Mbit/s");
    let middle = (run.start.0 + run.end.0) / 2;
    push(middle, "epoch_changed", "epoch 64 -> 128 packets");
}

fn requests(run: &mut Run, arm: Arm, seconds: f64, mut random: Random) {
    let stretch = match arm {
        Arm::StatusQuo => 1.5,
        Arm::InNetworkSfq => 0.05,
        Arm::ForebaySfq => 0.11,
        Arm::ForebayFifo => 1.7,
    };
    let mut t = 0.0;
    let mut bytes = 0u64;
    for id in 0.. {
        t -= random.unit().max(1e-12).ln() / 480.0;
        if t > WARM_UP + seconds {
            break;
        }
        let (u, v, w) = (random.unit(), random.unit(), random.unit());
        let size = match u {
            u if u < 0.976 => (u / 0.976 * 10_000.0) as u64 + 1,
            u if u < 0.999 => 10_000 + ((u - 0.976) / 0.023).powi(2).mul_add(990_000.0, 0.0) as u64,
            _ => 1_000_000 + (v * v * 20e6) as u64,
        };
        let tail = if w > 0.985 { 25.0 * (w - 0.985) / 0.015 } else { 0.0 };
        let slowdown = 1.0 + stretch * (0.3 + v) + tail * (0.4 + stretch) * (0.2 + v);
        let start = Nanos::from_secs_f64(1000.0 + t).0;
        let end = start + (run.ideal(size).0 as f64 * slowdown) as u64;
        bytes += size;
        run.requests.push(Request {
            id,
            connection: (id % 200) as u32,
            size,
            start,
            end: (end < run.end.0).then_some(end),
        });
    }
    let slots = ((WARM_UP + seconds) * 10.0) as u64;
    for slot in 1..=slots {
        run.progress.push(Progress {
            traffic: "requests".to_owned(),
            flow: 0,
            time: Nanos::from_secs(1000).0 + slot * 100_000_000,
            bytes: bytes / slots,
        });
    }
}

fn ticks(run: &mut Run, mut random: Random) {
    let mut rtt = 0;
    for tick in 0..(run.end.0 - Nanos::from_secs(1000).0) / 10_000_000 {
        let time = Nanos::from_secs(1000).0 + tick * 10_000_000;
        if random.unit() < 0.7 {
            rtt = 51_800_000 + (random.unit() * 2e6) as u64;
        }
        run.ticks.push(Tick {
            time,
            bundle: "to-b".to_owned(),
            mode: "delay_control".to_owned(),
            rate: Some(95_000_000),
            rtt: Some(rtt),
            min_rtt: Some(50_100_000),
            send_rate: Some(90_000_000),
            receive_rate: Some(88_500_000 + (random.unit() * 3e6) as u64),
            response: None,
            contrast: None,
            epoch: 64,
            backlog: 0,
            accepted: 0,
            out_of_order: 0,
        });
    }
}

fn hops(run: &mut Run) {
    let forward = run.bottleneck.len() as u64;
    for (hop, policy_drops, local) in [("sendbox", 0, 900), ("link", 412, 0), ("receivebox", 0, 12)]
    {
        run.hops.push(HopCounters {
            hop: hop.to_owned(),
            received: forward * 3 / 2 + policy_drops + local + 7,
            sent: forward * 3 / 2,
            policy_drops,
            local,
            queued: 7,
            lost: 0,
            marked: None,
            late: None,
        });
    }
}
