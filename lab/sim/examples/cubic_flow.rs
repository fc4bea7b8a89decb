//! Simulates a Cubic flow over a bottleneck of 20 Mbit/s, with a FIFO and with FQ-CoDel, and prints
//! its goodput and queueing delay.
//!
//! `cargo run -p forebay-sim --example cubic_flow`

use std::error::Error;

use forebay_queue::{Fifo, FqCodel, Limit, fifo, fq_codel};
use forebay_sim::{
    At, Capacity, Congestion, Hop, Jitter, LinkConfig, Loss, Observer, Passage, Path, Queue, Route,
    Simulation, Traffic, TrafficKind,
};
use forebay_units::{Bytes, Nanos, Rate};

const RATE: Rate = Rate::from_mbps(20);
const RTT: Nanos = Nanos::from_millis(40);
const LENGTH: Nanos = Nanos::from_secs(20);

/// Sums up what the flow received and how long its packets waited.
#[derive(Default)]
struct Summary {
    received: Bytes,
    packets: u64,
    waited: Nanos,
}

impl Observer for Summary {
    fn passed(&mut self, _: At, passage: &Passage) {
        if !passage.dropped {
            self.packets += 1;
            self.waited += passage.sojourn;
        }
    }

    fn read(&mut self, _: usize, _: u32, bytes: u64) {
        self.received += Bytes(bytes);
    }
}

fn run(name: &str, queue: Queue) -> Result<(), Box<dyn Error>> {
    let mut sim = Simulation::new(1, Summary::default());
    let link = |capacity, queue| LinkConfig {
        capacity,
        delay: RTT / 2,
        queue,
        loss: Loss::None,
        jitter: Jitter::default(),
        ..LinkConfig::default()
    };
    let bottleneck = sim.add_link(link(Capacity::Constant(RATE), Some(queue)))?;
    let reverse = sim.add_link(link(Capacity::Unlimited, None))?;
    let mut route = |link| sim.add_route(Route { hops: vec![Hop::Link(link)], ..Route::default() });
    let path = Path { forward: route(bottleneck)?, backward: route(reverse)?, rtt: RTT };
    let kind = TrafficKind::Bulk { flows: 1, congestion: Congestion::Cubic };
    sim.add_traffic(Traffic { path, start: Nanos::ZERO, stop: LENGTH, ecn: None, kind })?;
    sim.run_until(LENGTH);

    let summary = sim.observer();
    let goodput = Rate::from_bytes_over(summary.received, LENGTH);
    let delay = summary.waited / summary.packets.max(1);
    let dropped = sim.link(bottleneck).dropped;
    println!("{name:9} goodput {goodput}, mean queueing delay {delay}, {dropped} packets dropped");
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let limit = Limit::bytes(RATE.bytes_in(Nanos::from_millis(100)));
    run("FIFO", Box::new(Fifo::new(fifo::Config { limit })?))?;
    run("FQ-CoDel", Box::new(FqCodel::new(fq_codel::Config::default())?))
}
