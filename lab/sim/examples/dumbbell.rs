//! The dumbbell of `bench/ns3`: 50 Cubic flows, 96 Mbit/s, 50 ms, FQ-CoDel. Prints a line of JSON.
//!
//! `cargo run --release -p forebay-sim --example dumbbell -- SECONDS`
#![allow(clippy::unwrap_used, reason = "all settings are written here")]

use std::time::Instant;

use forebay_queue::{FqCodel, fq_codel};
use forebay_sim::{
    At, Capacity, Congestion, Hop, Jitter, LinkConfig, Loss, Observer, Passage, Path, Route,
    Simulation, Traffic, TrafficKind,
};
use forebay_units::{Bytes, Nanos, Rate};

const FLOWS: u32 = 50;
const RATE: Rate = Rate::from_mbps(96);
const RTT: Nanos = Nanos::from_millis(50);
const SEED: u64 = 1;

#[derive(Default)]
struct Seen {
    waited: Nanos,
    waits: u64,
    drops: u64,
    read: u64,
}

impl Observer for Seen {
    fn passed(&mut self, _: At, passage: &Passage) {
        if passage.dropped {
            self.drops += 1;
        } else {
            self.waited += passage.sojourn;
            self.waits += 1;
        }
    }

    fn read(&mut self, _: usize, _: u32, bytes: u64) {
        self.read += bytes;
    }
}

fn dumbbell() -> Simulation<Seen> {
    let mut sim = Simulation::new(SEED, Seen::default());
    let link = |capacity, queue| LinkConfig {
        capacity,
        delay: RTT / 2,
        queue,
        loss: Loss::None,
        jitter: Jitter { up_to: Nanos::from_micros(20), reorders: false },
        ..LinkConfig::default()
    };
    let queue = FqCodel::new(fq_codel::Config::default()).unwrap();
    let forward = link(Capacity::Constant(RATE), Some(Box::new(queue)));
    let forward = sim.add_link(forward).unwrap();
    let backward = sim.add_link(link(Capacity::Unlimited, None)).unwrap();
    let mut route =
        |link| sim.add_route(Route { hops: vec![Hop::Link(link)], source: 0, class: 0 }).unwrap();
    let path = Path { forward: route(forward), backward: route(backward), rtt: RTT };
    let kind = TrafficKind::Bulk { flows: FLOWS, congestion: Congestion::Cubic };
    sim.add_traffic(Traffic { path, start: Nanos::ZERO, stop: Nanos::MAX, ecn: None, kind })
        .unwrap();
    sim
}

/// Returns the CPU time of this thread in seconds, or zero if the kernel does not report it.
fn on_processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let time: Option<f64> = stat.split_whitespace().next().and_then(|n| n.parse().ok());
    time.unwrap_or(0.0) / 1e9
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(60);
    let length = Nanos::from_secs(seconds);
    let mut sim = dumbbell();
    let (begin, on) = (Instant::now(), on_processor());
    sim.run_until(length);
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), on_processor() - on);
    let (events, seen) = (sim.totals().events, sim.observer());
    let goodput = Rate::from_bytes_over(Bytes(seen.read), length).as_mbps_f64();
    let wait = seen.waited.as_millis_f64() / seen.waits.max(1) as f64;
    println!(
        "{{\"simulator\": \"forebay\", \"seconds\": {seconds}, \"wall_s\": {wall}, \"cpu_s\": {cpu}, \
         \"goodput_mbps\": {goodput}, \"mean_wait_ms\": {wait}, \"packets\": {}, \"drops\": {}, \
         \"events\": {events}}}",
        seen.waits, seen.drops,
    );
}
