use alloc::boxed::Box;
use alloc::sync::Arc;

use super::scheduler::Scheduler;
use super::source::Sources;
use super::sync::{Apart, AtomicU32, Ordering, fence};
use crate::backpressure::Hysteresis;
use crate::error::within;
use crate::{ConfigError, Limit, ffs};

/// How backpressure between threads is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Flows that there may be at a time: ids are below it. 1024 by default.
    pub flows: u32,
    /// Packets that fit into the scheduled buffer; 1000 by default, as a Linux interface's queue.
    pub slots: u32,
    /// Packets that one flow may have in the buffer, at most 65 535; two by default, see
    /// [`Config::in_buffer`](crate::backpressure::Config::in_buffer).
    pub in_buffer: u16,
    /// Packets that a flow may send in its turn while others wait; two by default, see
    /// [`Config::turn`](crate::backpressure::Config::turn).
    pub turn: u8,
    /// How many slots must be free before flows are resumed; an eighth by default.
    pub hysteresis: Hysteresis,
}

impl Default for Config {
    fn default() -> Self {
        let hysteresis = Hysteresis::OneIn(8);
        Self { flows: 1024, slots: 1000, in_buffer: 2, turn: 2, hysteresis }
    }
}

/// The flow waits in the inbox or with the scheduler. Set by the source, cleared by the scheduler.
pub(super) const QUEUED: u32 = 1;
/// The flow has as many packets in the buffer as it may, and waits for one to leave. Set by the
/// source, turned into `QUEUED` by the scheduler.
pub(super) const HELD: u32 = 2;
/// The flow was resumed, and a slot is its own. Set by the scheduler, cleared by the source.
pub(super) const GRANTED: u32 = 4;
/// No source has this flow.
pub(super) const CLOSED: u32 = 8;
pub(super) const FLAGS: u32 = QUEUED | HELD | GRANTED | CLOSED;
/// One packet in the buffer, above the flags.
pub(super) const PACKET: u32 = 1 << 16;

/// No flow.
pub(super) const NONE: u32 = u32::MAX;

/// What both sides see of a flow.
#[derive(Debug)]
pub(super) struct Flow {
    /// The flags, and above them the packets in the buffer.
    pub(super) word: AtomicU32,
    /// The flow below it in the inbox.
    next: AtomicU32,
}

#[derive(Debug)]
pub(super) struct State {
    /// Slots that nobody has.
    free: Apart<AtomicU32>,
    /// Flows that are queued, in the inbox or with the scheduler.
    waiting: Apart<AtomicU32>,
    /// The top of the stack by which flows queue.
    inbox: Apart<AtomicU32>,
    flows: Box<[Flow]>,
    pub(super) slots: u32,
    pub(super) in_buffer: u32,
    pub(super) turn: u8,
}

/// The two sides of a scheduled buffer.
///
/// # Errors
/// If a setting is zero or too large.
pub fn pair(config: Config) -> Result<(Sources, Scheduler), ConfigError> {
    within("flows", u64::from(config.flows), 1, u64::from(ffs::MAX_ITEMS))?;
    within("slots", u64::from(config.slots), 1, u64::from(Limit::MAX_PACKETS))?;
    within("in_buffer", u64::from(config.in_buffer), 1, u64::from(u16::MAX))?;
    within("turn", u64::from(config.turn), 1, u64::from(u8::MAX))?;
    let flow = |_| Flow { word: AtomicU32::new(CLOSED), next: AtomicU32::new(NONE) };
    let state = Arc::new(State {
        free: Apart(AtomicU32::new(config.slots)),
        waiting: Apart(AtomicU32::new(0)),
        inbox: Apart(AtomicU32::new(NONE)),
        flows: (0..config.flows).map(flow).collect(),
        slots: config.slots,
        in_buffer: u32::from(config.in_buffer),
        turn: config.turn,
    });
    let threshold = config.hysteresis.packets(config.slots);
    let scheduler = Scheduler::new(Arc::clone(&state), config.flows, threshold)?;
    Ok((Sources::new(state), scheduler))
}

impl State {
    #[inline]
    pub(super) fn flow(&self, flow: u32) -> &Flow {
        &self.flows[flow as usize]
    }

    pub(super) fn get(&self, flow: u32) -> Option<&Flow> {
        self.flows.get(flow as usize)
    }

    pub(super) fn free(&self) -> u32 {
        self.free.0.load(Ordering::Relaxed)
    }

    pub(super) fn waiting(&self) -> u32 {
        self.waiting.0.load(Ordering::Relaxed)
    }

    pub(super) fn wait(&self) {
        self.waiting.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stop_waiting(&self) {
        self.waiting.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes a slot, if one is free.
    pub(super) fn take_slot(&self) -> bool {
        let take = |free: u32| free.checked_sub(1);
        self.free.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).is_ok()
    }

    /// Gives a slot back. What is read of the other side after this is no older than the slot.
    pub(super) fn give_slot(&self) {
        self.free.0.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Puts `flow` into the inbox. What is read after this is no older than that.
    pub(super) fn post(&self, flow: u32) {
        let mut top = self.inbox.0.load(Ordering::Relaxed);
        loop {
            self.flow(flow).next.store(top, Ordering::Relaxed);
            // Release, so that who takes the stack sees the links.
            match self.inbox.0.compare_exchange_weak(top, flow, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(other) => top = other,
            }
        }
        fence(Ordering::SeqCst);
    }

    /// Whether the inbox has anything.
    pub(super) fn has_post(&self) -> bool {
        self.inbox.0.load(Ordering::Relaxed) != NONE
    }

    /// Empties the inbox, the latest first.
    pub(super) fn take_post(&self) -> impl Iterator<Item = u32> {
        let mut top = self.inbox.0.swap(NONE, Ordering::AcqRel);
        core::iter::from_fn(move || {
            let flow = (top != NONE).then_some(top)?;
            // Read before the flow is given out: resumed, it may be posted again.
            top = self.flow(flow).next.load(Ordering::Relaxed);
            Some(flow)
        })
    }
}
