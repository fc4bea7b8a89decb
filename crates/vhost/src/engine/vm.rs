//! The state of a virtual machine on the data thread.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use forebay_units::Nanos;

use crate::config::VmConfig;
use crate::features::AcceptedOffloads;
use crate::offload::Offload;
use crate::packet::Packet;
use crate::ring::{Ring, RingError};
use crate::session::RingKind;
use crate::statistics::{Counts, Occupancy, emit};
use crate::truncation::Watch;

/// A ring that runs, with the descriptor for errors.
#[derive(Debug)]
pub(crate) struct RunningRing {
    /// Watches the ring's memory, and is dropped before it.
    pub(crate) watch: Arc<Watch>,
    pub(crate) ring: Ring,
    pub(crate) error: Option<File>,
}

/// The one packet that is between the ring and the scheduled buffer. Packets behind it stay in the
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

/// State of a virtual machine.
#[derive(Debug)]
pub(crate) struct Vm {
    pub(crate) index: u8,
    pub(crate) config: VmConfig,
    pub(crate) connected: bool,
    pub(crate) transmit: Option<RunningRing>,
    pub(crate) receive: Option<RunningRing>,
    pub(crate) accepted: AcceptedOffloads,
    /// Whether its transmit ring must be read.
    pub(crate) ready: bool,
    /// Time since which it is paused.
    pub(crate) paused: Option<Nanos>,
    pub(crate) staged: Staged,
    /// Frames that wait until the guest has buffers for them.
    pub(crate) waiting: VecDeque<(Offload, Vec<u8>)>,
    pub(crate) counts: Counts,
}

impl Vm {
    pub(crate) fn new(index: u8, config: VmConfig) -> Self {
        Self {
            index,
            config,
            connected: false,
            transmit: None,
            receive: None,
            accepted: AcceptedOffloads::default(),
            ready: false,
            paused: None,
            staged: Staged::default(),
            waiting: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn ring_mut(&mut self, kind: RingKind) -> &mut Option<RunningRing> {
        match kind {
            RingKind::Receive => &mut self.receive,
            RingKind::Transmit => &mut self.transmit,
        }
    }

    /// Ends the pause, if it was paused.
    pub(crate) fn resumed(&mut self, now: Nanos) {
        if let Some(since) = self.paused.take() {
            self.counts.paused_ns += now.saturating_sub(since).0;
        }
    }

    /// Pauses it, if it was not paused.
    pub(crate) fn pause(&mut self, now: Nanos) {
        self.ready = false;
        if self.paused.is_none() {
            self.paused = Some(now);
            self.counts.paused += 1;
        }
    }

    /// Gives up an invalid ring until its driver sets it up again. Other virtual machines are not
    /// affected.
    pub(crate) fn give_up(&mut self, kind: RingKind, error: RingError) {
        let Some(mut running) = self.ring_mut(kind).take() else { return };
        self.counts.broken += 1;
        if let Some(file) = &mut running.error {
            // A front end that does not read the descriptor does not need the error.
            let _ = file.write(&1u64.to_ne_bytes());
        }
        let ring = match kind {
            RingKind::Receive => "receive",
            RingKind::Transmit => "transmit",
        };
        emit(&serde_json::json!({
            "event": "broken", "vm": self.config.name, "ring": ring, "why": error.to_string(),
        }));
    }

    /// Occupancy of its transmit ring.
    pub(crate) fn occupancy(&self) -> Option<Occupancy> {
        let ring = &self.transmit.as_ref()?.ring;
        Some(Occupancy { waiting: ring.waiting().unwrap_or(0), size: ring.size() })
    }
}
