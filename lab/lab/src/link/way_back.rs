//! The bottleneck of the way back.

use forebay_dataplane::{Frame, Packet, Pool};
use forebay_discipline::QueueSpec;
use forebay_queue::{DropReason, Fifo, Limit, Qdisc, fifo};
use forebay_sim::Capacity;
use forebay_units::{Nanos, Rate};

use super::LinkError;
use super::bottleneck::Bottleneck;
use super::bottleneck_queue;
use super::wire::RunWire;
use crate::scenario::Back;

/// A queue in front of a wire. Its packets are counted and not recorded.
pub(super) struct WayBack {
    bottleneck: Bottleneck<Box<dyn Qdisc<Packet>>>,
    /// The number of packets that the queue dropped.
    pub(super) drops: u64,
}

impl WayBack {
    /// Creates the bottleneck that `back` describes, with `queue` or a FIFO; none if its rate is
    /// unlimited.
    pub(super) fn new(
        back: Option<Back>,
        queue: Option<&QueueSpec>,
    ) -> Result<Option<Self>, LinkError> {
        let Some((rate, limit)) = back.and_then(|back| Some((back.rate?, back.limit))) else {
            return Ok(None);
        };
        let queue = match queue {
            Some(queue) => queue.build().map_err(|e| LinkError::WayBack(e.to_string()))?,
            None => {
                let config = fifo::Config { limit: Limit::bytes(limit) };
                Box::new(Fifo::new(config).map_err(|e| LinkError::WayBack(e.to_string()))?)
            }
        };
        Ok(Some(Self { bottleneck: Bottleneck::new(queue, wire(rate)?), drops: 0 }))
    }

    /// Takes a frame that arrives. The caller must have taken out all frames that leave until
    /// `now`.
    pub(super) fn enter(&mut self, now: Nanos, frame: Frame, pool: &mut Pool) {
        let packet = bottleneck_queue::packet(now, frame, 0, pool);
        let mut dropped = Vec::new();
        self.bottleneck.arrive(now, packet, &mut |p, _: DropReason| dropped.push(p));
        self.release(dropped, pool);
    }

    fn release(&mut self, dropped: Vec<Packet>, pool: &mut Pool) {
        self.drops += dropped.len() as u64;
        for packet in dropped {
            let frame = packet.into_frame(pool);
            pool.release(frame);
        }
    }

    /// Returns the next frame that left by `now`, and the time of its last bit.
    pub(super) fn leave(&mut self, now: Nanos, pool: &mut Pool) -> Option<(Frame, Nanos)> {
        let mut dropped = Vec::new();
        let gone = self.bottleneck.depart(now, &mut |p, _: DropReason| dropped.push(p));
        self.release(dropped, pool);
        let gone = gone?;
        Some((gone.packet.into_frame(pool), gone.end))
    }

    /// Returns the time at which the next frame leaves.
    pub(super) fn next_event(&mut self) -> Option<Nanos> {
        self.bottleneck.next_event::<Packet>()
    }

    /// The number of frames that wait.
    pub(super) fn queued(&self) -> u64 {
        self.bottleneck.backlog::<Packet>().packets
    }
}

fn wire(rate: Rate) -> Result<RunWire, LinkError> {
    Ok(RunWire::new(rate, Capacity::Constant(rate))?)
}
