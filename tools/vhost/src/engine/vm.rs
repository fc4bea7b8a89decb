//! The state of a virtual machine on the data thread.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use forebay_units::Nanos;

use crate::config::VmConfig;
use crate::features::AcceptedOffloads;
use crate::offload::Offload;
use crate::packet::{Packet, Source};
use crate::ring::{Ring, RingError};
use crate::scheduler::Scheduler;
use crate::session::RingId;
use crate::statistics::{Counts, Occupancy, RingStatus, emit};
use crate::truncation::Watch;

/// A ring that runs, with the descriptor for errors.
#[derive(Debug)]
pub(crate) struct RunningRing {
    /// Watches the ring's memory, and is dropped before it.
    pub(crate) watch: Arc<Watch>,
    pub(crate) ring: Ring,
    pub(crate) error: Option<File>,
}

/// The one packet that is between a ring and the scheduled buffer. Packets behind it stay in the
/// ring.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// Chain to return once the whole packet is in the buffer.
    pub(crate) head: Option<u16>,
    /// Segments that are not in the buffer yet.
    pub(crate) packets: VecDeque<Packet>,
    /// Whether a part of the packet is in the buffer.
    pub(crate) begun: bool,
}

impl Staged {
    /// Whether there is such a packet.
    pub(crate) fn is_some(&self) -> bool {
        !self.packets.is_empty() || self.head.is_some()
    }
}

/// A ring of frames that the guest sends.
#[derive(Debug, Default)]
pub(crate) struct TransmitRing {
    pub(crate) running: Option<RunningRing>,
    /// Whether it may have packets. An empty ring asks for a kick.
    pub(crate) ready: bool,
    pub(crate) staged: Staged,
    /// Packets taken out of it, including chains without a frame.
    pub(crate) taken: u64,
    /// Number of times that the buffer had no room for its next packet.
    pub(crate) paused: u64,
}

/// A ring of buffers for frames that the guest receives.
#[derive(Debug, Default)]
pub(crate) struct ReceiveRing {
    pub(crate) running: Option<RunningRing>,
    /// Frames that wait until the guest has buffers for them.
    pub(crate) waiting: VecDeque<(Offload, Vec<u8>)>,
}

/// State of a virtual machine.
#[derive(Debug)]
pub(crate) struct Vm {
    pub(crate) index: u8,
    pub(crate) config: VmConfig,
    pub(crate) connected: bool,
    pub(crate) transmit: Vec<TransmitRing>,
    pub(crate) receive: Vec<ReceiveRing>,
    pub(crate) control: Option<RunningRing>,
    /// Whether the control queue must be read.
    pub(crate) control_ready: bool,
    /// Number of pairs that the driver has set through the control queue.
    pub(crate) pairs_in_use: u8,
    pub(crate) accepted: AcceptedOffloads,
    /// Whether its transmit rings must be read.
    pub(crate) ready: bool,
    /// The transmit ring that was served last.
    last: usize,
    /// Time since which it is paused.
    pub(crate) paused: Option<Nanos>,
    pub(crate) counts: Counts,
}

impl Vm {
    pub(crate) fn new(index: u8, config: VmConfig) -> Self {
        let pairs = 0..config.queues;
        Self {
            index,
            connected: false,
            transmit: pairs.clone().map(|_| TransmitRing::default()).collect(),
            receive: pairs.map(|_| ReceiveRing::default()).collect(),
            config,
            control: None,
            control_ready: false,
            pairs_in_use: 1,
            accepted: AcceptedOffloads::default(),
            ready: false,
            last: 0,
            paused: None,
            counts: Counts::default(),
        }
    }

    pub(crate) fn ring_mut(&mut self, ring: RingId) -> &mut Option<RunningRing> {
        match ring {
            RingId::Receive(pair) => &mut self.receive[usize::from(pair)].running,
            RingId::Transmit(pair) => &mut self.transmit[usize::from(pair)].running,
            RingId::Control => &mut self.control,
        }
    }

    /// All rings, whether they run or not.
    pub(crate) fn ring_ids(&self) -> impl Iterator<Item = RingId> + use<> {
        let pairs = 0..self.config.queues;
        let pairs = pairs.flat_map(|pair| [RingId::Receive(pair), RingId::Transmit(pair)]);
        pairs.chain((self.config.queues > 1).then_some(RingId::Control))
    }

    /// The rings that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = (RingId, &RunningRing)> {
        self.ring_ids().filter_map(|ring| {
            let running = match ring {
                RingId::Receive(pair) => &self.receive[usize::from(pair)].running,
                RingId::Transmit(pair) => &self.transmit[usize::from(pair)].running,
                RingId::Control => &self.control,
            };
            running.as_ref().map(|running| (ring, running))
        })
    }

    /// Requests that a transmit ring is read.
    pub(crate) fn set_ready(&mut self, pair: usize) {
        self.transmit[pair].ready = true;
        self.ready = true;
    }

    /// The transmit ring whose next packet goes into the buffer: of those that may have packets,
    /// the one with the fewest packets there, and of several such rings the first after the last.
    /// So the rings share the machine's places evenly, and a ring alone may have all of them.
    pub(crate) fn next_ring(&mut self, scheduler: &Scheduler) -> Option<usize> {
        let (count, vm) = (self.transmit.len(), self.index);
        let order = (1..=count).map(|i| (self.last + i) % count);
        let ready = order.filter(|ring| self.transmit[*ring].ready);
        let ring =
            ready.min_by_key(|ring| scheduler.in_buffer(Source { vm, ring: *ring as u8 }))?;
        self.last = ring;
        Some(ring)
    }

    /// Ends the pause, if it was paused.
    pub(crate) fn resumed(&mut self, now: Nanos) {
        if let Some(since) = self.paused.take() {
            self.counts.paused_ns += now.saturating_sub(since).0;
        }
    }

    /// Pauses it, if it was not paused, because the next packet of `ring` has no room.
    pub(crate) fn pause(&mut self, now: Nanos, ring: usize) {
        self.ready = false;
        if self.paused.is_none() {
            self.paused = Some(now);
            self.counts.paused += 1;
            self.transmit[ring].paused += 1;
        }
    }

    /// Gives up an invalid ring until its driver sets it up again. Other virtual machines are not
    /// affected.
    pub(crate) fn give_up(&mut self, ring: RingId, error: RingError) {
        let Some(mut running) = self.ring_mut(ring).take() else { return };
        self.counts.broken += 1;
        if let Some(file) = &mut running.error {
            // A front end that does not read the descriptor does not need the error.
            let _ = file.write(&1u64.to_ne_bytes());
        }
        let (ring, pair) = match ring {
            RingId::Receive(pair) => ("receive", pair),
            RingId::Transmit(pair) => ("transmit", pair),
            RingId::Control => ("control", 0),
        };
        emit(&serde_json::json!({
            "event": "broken", "vm": self.config.name, "ring": ring, "pair": pair,
            "why": error.to_string(),
        }));
    }

    /// Occupancy of its transmit rings together; `None` if none runs.
    pub(crate) fn occupancy(&self) -> Option<Occupancy> {
        let rings = self.transmit.iter().filter_map(TransmitRing::occupancy);
        rings.reduce(|a, b| Occupancy { waiting: a.waiting + b.waiting, size: a.size + b.size })
    }

    /// Reports its transmit rings, if it has several.
    pub(crate) fn ring_status(&self) -> Vec<RingStatus> {
        let rings: &[_] = if self.transmit.len() > 1 { &self.transmit } else { &[] };
        rings.iter().map(TransmitRing::status).collect()
    }
}

impl TransmitRing {
    fn occupancy(&self) -> Option<Occupancy> {
        let ring = &self.running.as_ref()?.ring;
        Some(Occupancy { waiting: ring.waiting().unwrap_or(0), size: ring.size() })
    }

    fn status(&self) -> RingStatus {
        RingStatus { ring: self.occupancy(), taken: self.taken, paused: self.paused }
    }
}
