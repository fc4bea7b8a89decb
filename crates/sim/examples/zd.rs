//! Machines with many flows, by Linux and with backpressure, in zD's three settings:
//! `zd [SECONDS [FLOWS...]]`. One line for each: goodput, drops, what was sent again, round trips.
//!
//! Zhao's thesis, section 4.5.2: the guest's queue holds 1000; the hypervisor's (a) 100 at 10 Gbit/s,
//! (b) 1000 at 10 Gbit/s, (c) 1000 at 1 Gbit/s. The path adds 0.1 ms. No CPU is modelled.
//!
//! `cargo run --release -p forebay-sim --example zd -- 2 500 4000 16000`

use forebay_queue::{Fifo, Limit, fifo};
use forebay_sim::{
    Capacity, Congestion, EgressSetup, Hop, Jitter, LinkConfig, Loss, Observer, Path, Route,
    Simulation, Traffic, TrafficKind, WhenFull,
};
use forebay_units::{Bytes, Nanos, Rate};

type Error = Box<dyn std::error::Error>;

/// What counts after the warm-up.
#[derive(Default)]
struct Seen {
    counts: bool,
    read: u64,
    /// Round trips, in microseconds.
    took: Vec<u32>,
}

impl Observer for Seen {
    fn read(&mut self, _: usize, _: u32, bytes: u64) {
        self.read += u64::from(self.counts) * bytes;
    }

    fn round_trip(&mut self, _: usize, _: u32, took: Nanos) {
        if self.counts {
            self.took.push(u32::try_from(took.0 / 1000).unwrap_or(u32::MAX));
        }
    }
}

fn run(
    name: &str,
    mbps: u64,
    slots: u32,
    flows: u32,
    full: WhenFull,
    seconds: u64,
) -> Result<(), Error> {
    let mut sim = Simulation::new(1, Seen::default());
    let delay = Nanos::from_micros(50);
    let limit = Limit::packets(slots);
    let (loss, jitter) = (Loss::None, Jitter::default());
    let wire = sim.add_link(LinkConfig {
        capacity: Capacity::Constant(Rate::from_mbps(mbps)),
        delay,
        queue: Some(Box::new(Fifo::new(fifo::Config { limit })?)),
        loss,
        jitter,
    })?;
    let capacity = Capacity::Unlimited;
    let back = sim.add_link(LinkConfig { capacity, delay, queue: None, loss, jitter })?;
    let way = |link| Route { hops: vec![Hop::Link(link)], source: 0, class: 0 };
    let (forward, backward) = (sim.add_route(way(wire))?, sim.add_route(way(back))?);
    let path = Path { forward, backward, rtt: delay * 2 };
    let warm = Nanos::from_secs(1);
    let stop = warm + Nanos::from_secs(seconds);
    let kind = TrafficKind::Bulk { flows, congestion: Congestion::Cubic };
    sim.add_traffic(Traffic { path, start: Nanos::ZERO, stop, ecn: None, kind })?;
    sim.add_egress(EgressSetup {
        route: forward,
        link: wire,
        slots: 1000,
        ring: 256,
        guest: full,
        hypervisor: full,
    })?;
    sim.run_until(warm);
    let before = (sim.totals(), sim.egress(forward).ok_or("it has one")?);
    sim.observer_mut().counts = true;
    sim.run_until(stop);
    let (totals, egress) = (sim.totals(), sim.egress(forward).ok_or("it has one")?);
    let seen = std::mem::take(sim.observer_mut());
    let mut took = seen.took;
    took.sort_unstable();
    let at = |part: f64| {
        let index = ((took.len() as f64 * part) as usize).min(took.len().saturating_sub(1));
        took.get(index).map_or(0.0, |&us| f64::from(us) / 1000.0)
    };
    let segments: u64 = (1..).zip(egress.sizes).map(|(n, count): (u64, u64)| n * count).sum();
    let goodput = Rate::from_bytes_over(Bytes(seen.read), Nanos::from_secs(seconds));
    println!(
        "{name} {flows:6} {:5} {:8.0} {:9} {:9} {:9} {:8} {:8.2} {:8.2} {:8.2} {:6.2}",
        if full == WhenFull::Wait { "zd" } else { "linux" },
        goodput.as_mbps_f64(),
        egress.virtual_drops - before.1.virtual_drops,
        egress.physical_drops - before.1.physical_drops,
        totals.retransmissions - before.0.retransmissions,
        totals.timeouts - before.0.timeouts,
        at(0.5),
        at(0.99),
        at(0.9999),
        segments as f64 / egress.accepted.max(1) as f64,
    );
    Ok(())
}

fn main() -> Result<(), Error> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let seconds = numbers.next().transpose()?.unwrap_or(2);
    let mut flows = numbers.collect::<Result<Vec<_>, _>>()?;
    if flows.is_empty() {
        flows = vec![500, 1000, 2000, 4000, 8000, 16_000];
    }
    println!(
        "    flows mode   Mbit/s   virtual  physical    resent timeouts  RTT p50      p99   p99.99  \
         segments"
    );
    for (name, mbps, slots) in [("a", 10_000, 100), ("b", 10_000, 1000), ("c", 1000, 1000)] {
        for &flows in &flows {
            for full in [WhenFull::Drop, WhenFull::Wait] {
                run(name, mbps, slots, flows, full, u64::from(seconds))?;
            }
        }
    }
    Ok(())
}
