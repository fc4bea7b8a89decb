//! Simulates a machine with many flows: a guest's queue, its ring, and the hypervisor's queue.
//!
//! CPU is not modelled; `docs/src/backpressure.md` says what that leaves out.

use forebay_queue::{Fifo, Limit, fifo};
use forebay_sim::{
    Capacity, Congestion, EgressSetup, GuestQueue, Hop, Jitter, LinkConfig, Loss, Observer, Path,
    Route, Simulation, Traffic, TrafficKind, WhenFull,
};
use forebay_units::{Bytes, Nanos, Rate};

use forebay_guest::zd::Failed;
use forebay_outcome::{Row, SEED};

/// The delay of each direction.
const DELAY: Nanos = Nanos::from_micros(50);
/// The number of slots in the ring, as in vhost-net.
const RING: u32 = 256;
/// The time before anything counts.
const WARM_UP: Nanos = Nanos::from_secs(1);

/// A machine and how it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The setting's name.
    pub name: String,
    /// The rate of the wire.
    pub rate: Rate,
    /// The number of super-packets that the guest's queue holds.
    pub guest: u32,
    /// The number of packets that the hypervisor's queue holds.
    pub hypervisor: u32,
    /// The modes that are run.
    pub modes: Vec<Mode>,
}

/// The behaviour of a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Packets are dropped as in Linux.
    Linux,
    /// Senders wait until there is room.
    Zd,
    /// The guest has Carousel, and packets are dropped as in Linux.
    Carousel,
}

impl Mode {
    /// The mode's name in files and on the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Zd => "zd",
            Self::Carousel => "carousel",
        }
    }

    fn guest(self) -> GuestQueue {
        match self {
            Self::Linux => GuestQueue::Linux,
            Self::Zd => GuestQueue::Zd,
            Self::Carousel => GuestQueue::Carousel,
        }
    }

    fn hypervisor(self) -> WhenFull {
        match self {
            Self::Linux | Self::Carousel => WhenFull::Drop,
            Self::Zd => WhenFull::Wait,
        }
    }
}

/// The observer of everything after the warm-up.
#[derive(Default)]
struct Seen {
    counts: bool,
    read: u64,
    /// Whether anything of each flow arrived.
    served: Vec<bool>,
    /// The round trips, in microseconds.
    took: Vec<u32>,
}

impl Observer for Seen {
    fn read(&mut self, _: usize, flow: u32, bytes: u64) {
        if self.counts {
            self.read += bytes;
            let flow = flow as usize;
            if flow >= self.served.len() {
                self.served.resize(flow + 1, false);
            }
            self.served[flow] = true;
        }
    }

    fn round_trip(&mut self, _: usize, _: u32, took: Nanos) {
        if self.counts {
            self.took.push(u32::try_from(took.0 / 1000).unwrap_or(u32::MAX));
        }
    }
}

/// Runs `flows` backlogged flows of Cubic for `length` after the warm-up.
///
/// # Errors
/// If the simulator cannot run it.
pub fn run(
    setting: &Setting,
    mode: Mode,
    flows: u32,
    seed: u64,
    length: Nanos,
) -> Result<Row, Failed> {
    let failed = |e: &dyn std::error::Error| Failed(format!("{}: {e}", setting.name));
    let mut sim = Simulation::new(seed, Seen::default());
    let limit = Limit::packets(setting.hypervisor);
    let queue = Fifo::new(fifo::Config { limit }).map_err(|e| failed(&e))?;
    let link = |capacity, queue| LinkConfig {
        capacity,
        delay: DELAY,
        queue,
        loss: Loss::None,
        jitter: Jitter::default(),
        ..LinkConfig::default()
    };
    let wire = link(Capacity::Constant(setting.rate), Some(Box::new(queue) as _));
    let wire = sim.add_link(wire).map_err(|e| failed(&e))?;
    let back = sim.add_link(link(Capacity::Unlimited, None)).map_err(|e| failed(&e))?;
    let route = |link| Route { hops: vec![Hop::Link(link)], source: 0, class: 0 };
    let forward = sim.add_route(route(wire)).map_err(|e| failed(&e))?;
    let backward = sim.add_route(route(back)).map_err(|e| failed(&e))?;
    let path = Path { forward, backward, rtt: DELAY * 2 };
    let stop = WARM_UP + length;
    let kind = TrafficKind::Bulk { flows, congestion: Congestion::Cubic };
    sim.add_traffic(Traffic { path, start: Nanos::ZERO, stop, ecn: None, kind })
        .map_err(|e| failed(&e))?;
    sim.add_egress(EgressSetup {
        route: forward,
        link: wire,
        slots: setting.guest,
        ring: RING,
        guest: mode.guest(),
        hypervisor: mode.hypervisor(),
    })
    .map_err(|e| failed(&e))?;
    sim.run_until(WARM_UP);
    let egress = |sim: &Simulation<Seen>| {
        sim.egress(forward).ok_or_else(|| Failed("the machine has no egress".to_owned()))
    };
    let (totals, inside) = (sim.totals(), egress(&sim)?);
    sim.observer_mut().counts = true;
    sim.run_until(stop);
    let (totals_after, after) = (sim.totals(), egress(&sim)?);
    let seen = std::mem::take(sim.observer_mut());
    let goodput = Rate::from_bytes_over(Bytes(seen.read), length);
    let served = seen.served.iter().filter(|served| **served).count();
    let times = Times::of(seen.took);
    // Over the whole run: the packets before the end of the warm-up are a small part of it.
    let segments: u64 = (1..).zip(after.sizes).map(|(n, count): (u64, u64)| n * count).sum();
    let since = |now: u64, then: u64| (now - then) as f64;
    Ok(Row::new(
        &[("setting", &setting.name), ("flows", &flows), ("mode", &mode.name()), (SEED, &seed)],
        &[
            ("mbps", goodput.as_mbps_f64()),
            ("served", 100.0 * served as f64 / f64::from(flows)),
            ("local_drops", since(after.virtual_drops, inside.virtual_drops)),
            ("drops", since(after.physical_drops, inside.physical_drops)),
            ("resent", since(totals_after.retransmissions, totals.retransmissions)),
            ("timeouts", since(totals_after.timeouts, totals.timeouts)),
            ("rtt_p50", times.at(0.5)),
            ("rtt_p99", times.at(0.99)),
            ("rtt_p999", times.at(0.999)),
            ("rtt_p9999", times.at(0.9999)),
            ("segments", segments as f64 / after.accepted.max(1) as f64),
        ],
    ))
}

/// Round trips in ascending order, in microseconds.
struct Times(Vec<u32>);

impl Times {
    fn of(mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The percentile `share`, 0 to 1, by the nearest rank, in milliseconds.
    fn at(&self, share: f64) -> f64 {
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.max(1) - 1).map_or(f64::NAN, |&us| f64::from(us) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The third setting of the thesis at a tenth of its size.
    #[test]
    fn zd_loses_no_packet_and_linux_does() {
        let setting = Setting {
            name: "small".to_owned(),
            rate: Rate::from_mbps(100),
            guest: 1000,
            hypervisor: 50,
            modes: vec![Mode::Linux, Mode::Zd],
        };
        let of = |mode, what: &str| {
            run(&setting, mode, 100, 1, Nanos::from_secs(1)).unwrap().values[what]
        };
        assert_eq!(of(Mode::Zd, "drops") + of(Mode::Zd, "resent"), 0.0);
        assert!(of(Mode::Linux, "drops") > 100.0);
        assert!(of(Mode::Zd, "mbps") >= 0.99 * of(Mode::Linux, "mbps"));
    }

    #[test]
    fn percentiles_are_by_the_nearest_rank() {
        let times = Times::of((1..=200).rev().map(|ms| ms * 1000).collect());
        assert_eq!((times.at(0.5), times.at(0.99), times.at(0.999)), (100.0, 198.0, 200.0));
        assert!(Times::of(Vec::new()).at(0.5).is_nan());
    }
}
