//! The state of flows.

use alloc::boxed::Box;
use alloc::vec;

use forebay_prefetch::prefetch_at;
use forebay_units::Bytes;

use super::config::Settings;
use super::ranking::Account;
use crate::ffs::Position;

/// A flow of an engine.
///
/// The number of a closed flow is used again, with another generation, so that reports about the
/// closed flow do not reach the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl FlowId {
    /// Returns the flow's number, below [`Config::flows`](super::Config::flows), for tables of the
    /// transport.
    #[inline]
    pub fn index(self) -> u32 {
        self.index
    }
}

/// Where a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No flow has this number.
    Free,
    /// The flow has nothing to send.
    Idle,
    /// The flow waits for its time or for its turn.
    Queued,
    /// The flow is about to be queued.
    Moving,
    /// The flow has too many packets in the host's queue. A departure ends this.
    Held,
}

/// The state of a flow, which fills one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Flow {
    pub(super) account: Account,
    /// The pacing time: when the flow may send next, in nanoseconds.
    pub(super) at: u64,
    /// The rank under the policy, of a flow that waits for its turn.
    pub(super) rank: u64,
    /// The inverse of the pacing rate; see [`Settings::time_per_byte`].
    pub(super) time_per_byte: u64,
    /// The bytes of a segment.
    pub(super) segment: u32,
    /// The position in the queues, or the next free number.
    position: u32,
    pub(super) generation: u32,
    /// Packets in the host's queue.
    pub(super) in_host: u16,
    pub(super) place: Place,
}

const _: () = assert!(size_of::<Flow>() == 64);

impl Flow {
    #[inline]
    pub(super) fn position(&self) -> Position {
        Position::from_bits(self.position)
    }

    #[inline]
    pub(super) fn set_position(&mut self, position: Position) {
        self.position = position.to_bits();
    }
}

const NONE: u32 = u32::MAX;

/// The flows by number.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    flows: Box<[Flow]>,
    /// The first number of the list of free ones.
    free: u32,
    /// Numbers from here on were never used.
    fresh: u32,
    open: u32,
}

impl Flows {
    pub(super) fn new(flows: u32) -> Self {
        let flow = Flow {
            account: Account::new(1),
            at: 0,
            rank: 0,
            time_per_byte: 0,
            segment: 0,
            position: 0,
            generation: 0,
            in_host: 0,
            place: Place::Free,
        };
        Self { flows: vec![flow; flows as usize].into(), free: NONE, fresh: 0, open: 0 }
    }

    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.flows)
    }

    pub(super) fn open_count(&self) -> u32 {
        self.open
    }

    pub(super) fn open(&mut self, settings: &Settings, segment: Bytes) -> Option<FlowId> {
        let index = match self.free {
            NONE if self.fresh as usize == self.flows.len() => return None,
            NONE => {
                self.fresh += 1;
                self.fresh - 1
            }
            index => {
                self.free = self.flows[index as usize].position;
                index
            }
        };
        self.open += 1;
        let flow = &mut self.flows[index as usize];
        *flow = Flow {
            account: Account::new(settings.weight),
            at: 0,
            rank: 0,
            time_per_byte: settings.time_per_byte(),
            segment: segment.0 as u32,
            position: 0,
            generation: flow.generation,
            in_host: 0,
            place: Place::Idle,
        };
        Some(FlowId { index, generation: flow.generation })
    }

    /// Gives the number of an open flow back.
    pub(super) fn close(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        debug_assert!(matches!(flow.place, Place::Idle | Place::Held), "a flow that is not queued");
        flow.place = Place::Free;
        flow.generation = flow.generation.wrapping_add(1);
        flow.position = self.free;
        self.free = index;
        self.open -= 1;
    }

    /// Returns the flow, or `None` if it is closed.
    #[inline]
    pub(super) fn get(&self, id: FlowId) -> Option<&Flow> {
        let flow = self.flows.get(id.index as usize)?;
        (flow.generation == id.generation && flow.place != Place::Free).then_some(flow)
    }

    /// Returns the flow, or `None` if it is closed.
    #[inline]
    pub(super) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        let flow = self.flows.get_mut(id.index as usize)?;
        (flow.generation == id.generation && flow.place != Place::Free).then_some(flow)
    }

    /// Returns the open flow of a number.
    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Flow {
        &mut self.flows[index as usize]
    }

    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        prefetch_at(&self.flows, index);
    }
}
