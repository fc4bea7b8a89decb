//! The ways from the left to the right, each with a queue, a wire and a delay.

use std::net::IpAddr;

use forebay_dataplane::{Frame, Netdev, Pool};
use forebay_sim::{Capacity, Junction, LinkId, PropagationConfig, Random};
use forebay_units::{Nanos, Rate};
use forebay_wire::Frame as Parsed;

use super::LinkError;
use super::bottleneck::Bottleneck;
use super::bottleneck_queue::BottleneckQueue;
use super::kernel::KernelQueue;
use super::spec::{BottleneckSpec, LinkSpec};
use super::wire::{RunPropagation, RunWire};

/// A way from the left to the right.
pub(super) struct Way {
    pub(super) queue: Box<dyn BottleneckQueue>,
    pub(super) to_right: RunPropagation,
}

/// The ways, and the choice among them.
pub(super) struct Ways {
    pub(super) all: Vec<Way>,
    junction: Junction,
    per_packet: bool,
    /// The source addresses by which ways are chosen, if they are.
    sites: Vec<IpAddr>,
    /// The number of packets for which a way was chosen.
    chosen: u32,
}

impl Ways {
    /// Creates the ways of `spec`.
    pub(super) fn new(spec: &LinkSpec, pool: &mut Pool) -> Result<Self, LinkError> {
        let mut all = Vec::new();
        if spec.ways.is_empty() {
            let queue: Box<dyn BottleneckQueue> = match &spec.queue {
                BottleneckSpec::Forebay { queue } => {
                    bottleneck(queue, spec.rate(), spec.capacity())?
                }
                BottleneckSpec::Kernel { entry, exit } => {
                    let [entry, exit] = [Netdev::find(entry)?, Netdev::find(exit)?];
                    Box::new(KernelQueue::new(&entry, &exit, spec.rate(), pool)?)
                }
            };
            all.push(Way { queue, to_right: propagation(spec, spec.rightward(), 1)? });
        }
        for (n, way) in (0..).zip(&spec.ways) {
            let rate = Rate::from_bps(way.rate_bps);
            let queue = bottleneck(&way.queue, rate, Capacity::Constant(rate))?;
            let config = PropagationConfig { delay: Nanos(way.delay_ns), ..spec.rightward() };
            // A stream of random numbers of its own, apart from those of the whole link.
            all.push(Way { queue, to_right: propagation(spec, config, n << 16 | 1)? });
        }
        // At most 64 ways, which the scenario's checks ensure.
        let junction = Junction::new(spec.seed, LinkId::FIRST, all.len() as u16);
        Ok(Self {
            all,
            junction,
            per_packet: spec.per_packet,
            sites: spec.sites.clone(),
            chosen: 0,
        })
    }

    /// Returns the way that `frame` takes.
    pub(super) fn choose(&mut self, frame: &Frame, pool: &Pool) -> &mut Way {
        let chosen = if self.all.len() == 1 {
            0
        } else {
            let headers = match Parsed::parse(pool.bytes(frame)) {
                Ok(Parsed::Ip(headers)) => Some(headers),
                _ => None,
            };
            if !self.sites.is_empty() {
                let source = headers.map(|headers| headers.source);
                let site = self.sites.iter().position(|address| Some(*address) == source);
                return &mut self.all[site.unwrap_or(0)];
            }
            let flow = headers.map_or(0, |headers| headers.flow_hash());
            self.chosen = self.chosen.wrapping_add(1);
            self.junction.choose(flow, self.per_packet.then_some(self.chosen))
        };
        &mut self.all[usize::from(chosen)]
    }

    /// Returns the way with the packet that leaves next.
    pub(super) fn next(&mut self) -> Option<&mut Way> {
        // Only a single way has packets that leave at unknown times.
        let times = self.all.iter_mut().map(|way| way.queue.next_event().unwrap_or(Nanos::MAX));
        let (first, _) = times.enumerate().min_by_key(|(_, time)| *time)?;
        self.all.get_mut(first)
    }

    /// Sets the start of the run.
    pub(super) fn start_at(&mut self, start: Nanos) {
        for way in &mut self.all {
            way.queue.start_at(start);
            way.to_right.start_at(start);
        }
    }

    /// Returns the earliest time at which a packet that leaves next arrives.
    pub(super) fn next_arrival(&mut self) -> Option<Nanos> {
        let arrival =
            |way: &mut Way| Some(way.queue.next_event()?.saturating_add(way.to_right.shortest()));
        self.all.iter_mut().filter_map(arrival).min()
    }
}

fn bottleneck(
    queue: &forebay_discipline::QueueSpec,
    rate: Rate,
    capacity: Capacity,
) -> Result<Box<dyn BottleneckQueue>, LinkError> {
    let queue = queue.build().map_err(LinkError::Queue)?;
    Ok(Box::new(Bottleneck::new(queue, RunWire::new(rate, capacity)?)))
}

fn propagation(
    spec: &LinkSpec,
    config: PropagationConfig,
    stream: u64,
) -> Result<RunPropagation, LinkError> {
    let changes = spec.routes.iter().map(|route| {
        let rtt = Nanos(route.rtt_ns);
        (Nanos(route.at_ns), rtt - rtt / 2)
    });
    Ok(RunPropagation::new(config, Random::new(spec.seed, stream), changes)?)
}
