//! A virtual machine, as the data thread knows it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;

use forebay_units::Nanos;

use crate::config::VmConfig;
use crate::features::Receives;
use crate::offload::Offload;
use crate::packet::Packet;
use crate::ring::{Ring, RingError};
use crate::session::Which;
use crate::statistics::{Counts, Occupancy, say};

/// A ring, and where to say that it is broken.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) ring: Ring,
    pub(crate) error: Option<File>,
}

/// The packet that is on its way from the ring into the scheduled buffer, of which there is at most one:
/// those behind it are left in the ring.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// The chain to hand back once all of it is in the buffer.
    pub(crate) head: Option<u16>,
    /// What is not in the buffer yet.
    pub(crate) packets: VecDeque<Packet>,
    /// Whether a part of it is in the buffer.
    pub(crate) begun: bool,
}

/// A virtual machine.
#[derive(Debug)]
pub(crate) struct Vm {
    pub(crate) index: u8,
    pub(crate) config: VmConfig,
    pub(crate) connected: bool,
    pub(crate) transmit: Option<Running>,
    pub(crate) receive: Option<Running>,
    pub(crate) receives: Receives,
    /// Whether its ring is to be looked at.
    pub(crate) ready: bool,
    /// Since when it is paused.
    pub(crate) paused: Option<Nanos>,
    pub(crate) staged: Staged,
    /// Frames that wait until it has buffers for them.
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
            receives: Receives::default(),
            ready: false,
            paused: None,
            staged: Staged::default(),
            waiting: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn ring_mut(&mut self, which: Which) -> &mut Option<Running> {
        match which {
            Which::Receive => &mut self.receive,
            Which::Transmit => &mut self.transmit,
        }
    }

    /// It is not paused any more.
    pub(crate) fn resumed(&mut self, now: Nanos) {
        if let Some(since) = self.paused.take() {
            self.counts.paused_ns += now.saturating_sub(since).0;
        }
    }

    /// It is paused from now on, if it was not.
    pub(crate) fn pause(&mut self, now: Nanos) {
        self.ready = false;
        if self.paused.is_none() {
            self.paused = Some(now);
            self.counts.paused += 1;
        }
    }

    /// Gives a ring up that cannot be followed, until its driver sets it up anew. The guest hurts nobody but
    /// itself by that.
    pub(crate) fn give_up(&mut self, which: Which, error: RingError) {
        let Some(mut running) = self.ring_mut(which).take() else { return };
        self.counts.broken += 1;
        if let Some(file) = &mut running.error {
            // Whoever does not read it has no use for it.
            let _ = file.write(&1u64.to_ne_bytes());
        }
        let ring = match which {
            Which::Receive => "receive",
            Which::Transmit => "transmit",
        };
        say(&serde_json::json!({
            "event": "broken", "vm": self.config.name, "ring": ring, "why": error.to_string(),
        }));
    }

    /// How full its transmit ring is.
    pub(crate) fn occupancy(&self) -> Option<Occupancy> {
        let ring = &self.transmit.as_ref()?.ring;
        Some(Occupancy { waiting: ring.waiting().unwrap_or(0), size: ring.size() })
    }
}
