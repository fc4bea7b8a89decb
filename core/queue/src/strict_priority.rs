use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::Nanos;

use crate::children::Children;
use crate::{Backlog, ConfigError, DropSink, Packet, Qdisc, Room};

/// A qdisc that serves its classes in order of urgency.
///
/// A child sends only when no child before it has a packet to send. The class is
/// [`Packet::class`]; classes past the last child share the last. A busy urgent class starves the
/// others unless its child is a shaper.
#[derive(Clone, Debug, Hash)]
pub struct StrictPriority<P, Q = Box<dyn Qdisc<P>>> {
    children: Children<P, Q>,
}

impl<P: Packet, Q: Qdisc<P>> StrictPriority<P, Q> {
    /// Creates the qdisc over `children`, the most urgent first.
    ///
    /// # Errors
    /// Fails if there are no children or more than 256.
    pub fn new(children: Vec<Q>) -> Result<Self, ConfigError> {
        Ok(Self { children: Children::new(children)? })
    }

    /// Returns the children, the most urgent first.
    pub fn children(&self) -> &[Q] {
        self.children.as_slice()
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for StrictPriority<P, Q> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        let class = self.children.class_of(&packet);
        self.children.enqueue(class, now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        (0..self.children().len()).find_map(|class| self.children.dequeue(class, now, drops))
    }

    fn peek(&self) -> Option<&P> {
        self.children().iter().find_map(Q::peek)
    }

    fn backlog(&self) -> Backlog {
        self.children.backlog()
    }

    fn probe(&self, now: Nanos, packet: &P) -> bool {
        self.children.probe(now, packet)
    }

    fn room(&self, class: u8) -> Room {
        self.children.room(class)
    }

    fn classes(&self) -> usize {
        self.children.classes()
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.children().iter().filter_map(|child| child.next_event(now)).min()
    }

    fn prefetch(&self, packet: &P) {
        self.children.prefetch(packet);
    }
}
