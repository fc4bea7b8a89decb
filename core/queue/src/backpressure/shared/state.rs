//! The state that sources and the scheduler share.

use alloc::boxed::Box;

use crate::sync::{Apart, AtomicU32, Ordering, fence};

/// The flow waits in the inbox or in the scheduler's queue. Set by the source, cleared by the
/// scheduler.
pub(super) const QUEUED: u32 = 1;
/// The flow is at its limit of packets in the buffer and waits for one to leave. Set by the source,
/// replaced with `QUEUED` by the scheduler.
pub(super) const AT_LIMIT: u32 = 2;
/// The flow was resumed and has a slot. Set by the scheduler, cleared by the source.
pub(super) const GRANTED: u32 = 4;
/// The flow has no source.
pub(super) const CLOSED: u32 = 8;
pub(super) const FLAGS: u32 = QUEUED | AT_LIMIT | GRANTED | CLOSED;
/// One packet in the buffer, above the flags.
pub(super) const PACKET: u32 = 1 << 16;

/// The link that means "no flow".
pub(super) const NONE: u32 = u32::MAX;

/// The shared state of a flow.
#[derive(Debug)]
pub(super) struct Flow {
    /// The flags and, in the upper half, the number of packets in the buffer.
    pub(super) word: AtomicU32,
    /// The flow below this one in the inbox.
    next: AtomicU32,
}

/// The shared state of the scheduled buffer.
#[derive(Debug)]
pub(super) struct State {
    /// The number of free slots.
    free: Apart<AtomicU32>,
    /// The number of queued flows, in the inbox or in the scheduler's queue.
    waiting: Apart<AtomicU32>,
    /// The top of the stack through which flows queue.
    inbox: Apart<AtomicU32>,
    flows: Box<[Flow]>,
    pub(super) slots: u32,
    pub(super) in_buffer: u32,
    pub(super) turn: u8,
}

impl State {
    /// Creates the state of a buffer whose slots are all free, for flows without a source.
    pub(super) fn new(flows: u32, slots: u32, in_buffer: u16, turn: u8) -> Self {
        let flow = |_| Flow { word: AtomicU32::new(CLOSED), next: AtomicU32::new(NONE) };
        Self {
            free: Apart(AtomicU32::new(slots)),
            waiting: Apart(AtomicU32::new(0)),
            inbox: Apart(AtomicU32::new(NONE)),
            flows: (0..flows).map(flow).collect(),
            slots,
            in_buffer: u32::from(in_buffer),
            turn,
        }
    }

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

    pub(super) fn add_waiting(&self) {
        self.waiting.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove_waiting(&self) {
        self.waiting.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes a slot if one is free.
    pub(super) fn take_slot(&self) -> bool {
        let take = |free: u32| free.checked_sub(1);
        self.free.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).is_ok()
    }

    /// Returns a slot. The fence orders this write before the caller's next read, see the module
    /// documentation of `shared`.
    pub(super) fn give_slot(&self) {
        self.free.0.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Puts `flow` into the inbox. The fence orders this write before the caller's next read, see
    /// the module documentation of `shared`.
    pub(super) fn post_to_inbox(&self, flow: u32) {
        let mut top = self.inbox.0.load(Ordering::Relaxed);
        loop {
            self.flow(flow).next.store(top, Ordering::Relaxed);
            // Release, so that the thread that takes the stack sees the links.
            match self.inbox.0.compare_exchange_weak(top, flow, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(other) => top = other,
            }
        }
        fence(Ordering::SeqCst);
    }

    /// Returns whether the inbox contains flows.
    pub(super) fn inbox_has_flows(&self) -> bool {
        self.inbox.0.load(Ordering::Relaxed) != NONE
    }

    /// Empties the inbox and returns its flows, the latest first.
    pub(super) fn take_inbox(&self) -> impl Iterator<Item = u32> {
        let mut top = self.inbox.0.swap(NONE, Ordering::AcqRel);
        core::iter::from_fn(move || {
            let flow = (top != NONE).then_some(top)?;
            // Read first: once returned, the flow may be resumed and put into the inbox again.
            top = self.flow(flow).next.load(Ordering::Relaxed);
            Some(flow)
        })
    }
}
