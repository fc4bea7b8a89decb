//! The child qdiscs of a classful qdisc, one for each class.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;

use forebay_units::Nanos;

use crate::error::within;
use crate::{Backlog, ConfigError, DropSink, Packet, Qdisc, Room};

/// The number of values of [`Packet::class`].
const MAX_CHILDREN: u64 = 256;

/// Child qdiscs by class, and the backlog of all of them together.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Children<P, Q> {
    children: Box<[Q]>,
    backlog: Backlog,
    packets: PhantomData<fn(P)>,
}

impl<P: Packet, Q: Qdisc<P>> Children<P, Q> {
    pub(crate) fn new(children: Vec<Q>) -> Result<Self, ConfigError> {
        within("children", children.len() as u64, 1, MAX_CHILDREN)?;
        let mut backlog = Backlog::default();
        for child in &children {
            backlog.packets += child.backlog().packets;
            backlog.bytes += child.backlog().bytes;
        }
        Ok(Self { children: children.into(), backlog, packets: PhantomData })
    }

    /// Returns the child for `packet`: the one of its class, or the last.
    pub(crate) fn class_of(&self, packet: &P) -> usize {
        self.index(packet.class())
    }

    fn index(&self, class: u8) -> usize {
        usize::from(class).min(self.children.len() - 1)
    }

    pub(crate) fn probe(&self, now: Nanos, packet: &P) -> bool {
        self.children[self.class_of(packet)].probe(now, packet)
    }

    pub(crate) fn room(&self, class: u8) -> Room {
        self.children[self.index(class)].room(class)
    }

    pub(crate) fn prefetch(&self, packet: &P) {
        self.children[self.class_of(packet)].prefetch(packet);
    }

    pub(crate) fn as_slice(&self) -> &[Q] {
        &self.children
    }

    /// Returns a child for a change that moves no packets.
    pub(crate) fn get_mut(&mut self, class: usize) -> Option<&mut Q> {
        self.children.get_mut(class)
    }

    /// Returns the number of classes with separate room, see [`Qdisc::classes`].
    ///
    /// Each child before the last holds one class. The last child holds all other classes and may
    /// itself have separate room for each.
    pub(crate) fn classes(&self) -> usize {
        self.children.last().map_or(1, Q::classes).max(self.children.len())
    }

    pub(crate) fn is_idle(&self, class: usize) -> bool {
        self.children[class].backlog().packets == 0
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    pub(crate) fn enqueue(
        &mut self,
        class: usize,
        now: Nanos,
        packet: P,
        drops: &mut dyn DropSink<P>,
    ) {
        self.with(class, |child| child.enqueue(now, packet, drops));
    }

    pub(crate) fn dequeue(
        &mut self,
        class: usize,
        now: Nanos,
        drops: &mut dyn DropSink<P>,
    ) -> Option<P> {
        self.with(class, |child| child.dequeue(now, drops))
    }

    fn with<T>(&mut self, class: usize, act: impl FnOnce(&mut Q) -> T) -> T {
        let child = &mut self.children[class];
        let before = child.backlog();
        let result = act(child);
        let after = child.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        result
    }
}
