//! Deficit round robin: weighted shares for classes (Shreedhar and Varghese, SIGCOMM 1995).
//!
//! Each class is a child qdisc of any kind. While several children have packets, each sends bytes
//! in proportion to its weight. The others share what one child does not use.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use forebay_units::{Bytes, Nanos};

use crate::children::Children;
use crate::error::within;
use crate::round::{MAX_QUANTUM, MIN_QUANTUM, cost, next_turn};
use crate::{Backlog, ConfigError, DropSink, Packet, Qdisc, Room};

/// The configuration of a [`Drr`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes that a child of weight one may send in its turn. The default is a full Ethernet frame,
    /// 1514. A smaller quantum interleaves more finely and takes more rounds for each packet.
    pub quantum: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self { quantum: Bytes(1514) }
    }
}

/// The state of a child in the round; credit and quantum are in bytes.
#[derive(Clone, Copy, Debug)]
struct Share {
    quantum: i32,
    credit: i32,
    /// Whether the child is in the round.
    active: bool,
}

/// A qdisc that serves its child qdiscs by deficit round robin.
///
/// The class is [`Packet::class`]; classes past the last child share the last. The round skips a
/// child that holds its packets back (a shaper), and the child keeps its credit.
#[derive(Clone, Debug)]
pub struct Drr<P, Q = Box<dyn Qdisc<P>>> {
    children: Children<P, Q>,
    shares: Box<[Share]>,
    /// Classes in the order of their turns. It contains every child with packets.
    round: VecDeque<u8>,
}

impl<P: Packet, Q: Qdisc<P>> Drr<P, Q> {
    /// Creates the qdisc over `children`, each with its weight, in the order of their classes.
    ///
    /// # Errors
    /// Fails if there are no children or more than 256, or if a child's quantum (`config.quantum`
    /// times its weight) is below 256 bytes or above a megabyte.
    pub fn new(config: Config, children: Vec<(u32, Q)>) -> Result<Self, ConfigError> {
        let mut shares = Vec::with_capacity(children.len());
        for (weight, _) in &children {
            let quantum = config.quantum.0.saturating_mul(u64::from(*weight));
            within("quantum times weight", quantum, MIN_QUANTUM, MAX_QUANTUM)?;
            shares.push(Share { quantum: cost(Bytes(quantum)), credit: 0, active: false });
        }
        let children = Children::new(children.into_iter().map(|(_, child)| child).collect())?;
        let round = VecDeque::with_capacity(shares.len());
        let mut drr = Self { children, shares: shares.into(), round };
        (0..drr.shares.len()).for_each(|class| drr.activate(class));
        Ok(drr)
    }

    /// Returns the children in the order of their classes.
    pub fn children(&self) -> &[Q] {
        self.children.as_slice()
    }

    /// Puts a child that has packets into the round, with a full quantum of credit.
    fn activate(&mut self, class: usize) {
        let share = &mut self.shares[class];
        if !share.active && !self.children.is_idle(class) {
            share.active = true;
            share.credit = share.quantum;
            self.round.push_back(class as u8);
        }
    }

    /// Moves the child that is first in the round to its end.
    fn rotate(&mut self) {
        self.round.rotate_left(1);
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Drr<P, Q> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        let class = self.children.class_of(&packet);
        self.children.enqueue(class, now, packet, drops);
        self.activate(class);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        // Consecutive children that have credit and hold their packets back.
        let mut held = 0;
        while held < self.round.len() {
            let class = usize::from(self.round[0]);
            let share = &mut self.shares[class];
            if share.credit <= 0 {
                share.credit += share.quantum;
                self.rotate();
                held = 0;
                continue;
            }
            let sent = self.children.dequeue(class, now, drops);
            if let Some(packet) = &sent {
                share.credit = share.credit.saturating_sub(cost(packet.len()));
            }
            if self.children.is_idle(class) {
                share.active = false;
                self.round.pop_front();
            } else if sent.is_none() {
                self.rotate();
                held += 1;
            }
            if sent.is_some() {
                return sent;
            }
        }
        None
    }

    /// Returns the next packet of the child whose turn it is, even if that child holds it back.
    fn peek(&self) -> Option<&P> {
        let busy = self.round.iter().map(|&class| usize::from(class));
        let turn = next_turn(
            busy.filter(|&class| !self.children.is_idle(class))
                .map(|class| (class, self.shares[class].credit, self.shares[class].quantum)),
        )?;
        self.children()[turn].peek()
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
        let children = self.round.iter().map(|&class| &self.children()[usize::from(class)]);
        children.filter_map(|child| child.next_event(now)).min()
    }

    fn prefetch(&self, packet: &P) {
        self.children.prefetch(packet);
    }
}
