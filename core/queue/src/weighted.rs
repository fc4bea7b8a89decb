use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::{Bytes, Nanos, Rate};

use crate::children::Children;
use crate::shares::{Share, Shares};
use crate::token_bucket::{self, Burst, TokenBucket};
use crate::{Backlog, ConfigError, DropSink, Packet, Qdisc, Room};

/// The settings of a class of [`Weighted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Its weight and its guaranteed rate.
    pub share: Share,
    /// The highest rate at which it sends.
    pub ceil: Option<Rate>,
}

impl Class {
    /// The frames that a class below a ceiling may send at once: one for the turn of each other
    /// class of a policy that has eight, so that waiting for its turn costs a class nothing.
    const BURST: Bytes = Bytes(8 * 1_514);

    /// Returns the shaper for the ceiling.
    fn ceiling(&self) -> token_bucket::Config {
        let config = token_bucket::Config::default();
        let usual =
            self.ceil.map_or(Bytes::ZERO, |rate| rate.bytes_in(token_bucket::Config::BURST));
        let burst = Burst::Bytes(usual.max(Self::BURST));
        token_bucket::Config { rate: self.ceil, burst, ..config }
    }
}

/// A qdisc that serves classes by guaranteed rates and weights, each below a ceiling.
///
/// The class is [`Packet::class`]; classes past the last child share the last. [`Shares`] decides
/// which class is next. With a shaper above, guaranteed rates hold while the shaper's rate is above
/// their sum. Below that, classes with a guaranteed rate divide the shaper's rate by weight.
#[derive(Clone, Debug)]
pub struct Weighted<P, Q = Box<dyn Qdisc<P>>> {
    children: Children<P, TokenBucket<Q>>,
    shares: Shares,
}

impl<P: Packet, Q: Qdisc<P>> Weighted<P, Q> {
    /// Creates the qdisc over `children`, each with its settings, in the order of their classes.
    ///
    /// # Errors
    /// Fails if there are no children or more than 256.
    pub fn new(children: Vec<(Class, Q)>) -> Result<Self, ConfigError> {
        let mut shares = Shares::new(None);
        let shaped = children.into_iter().enumerate().map(|(index, (class, child))| {
            shares.set(index, class.share);
            TokenBucket::new(class.ceiling(), child)
        });
        let shaped = shaped.collect();
        Ok(Self { children: Children::new(shaped)?, shares })
    }

    /// Sets the settings of class `index` from the next packet on; packets that wait stay. A class
    /// that is not there is ignored.
    pub fn set(&mut self, now: Nanos, index: usize, class: Class) {
        let Some(child) = self.children.get_mut(index) else { return };
        let token_bucket::Config { rate, burst, .. } = class.ceiling();
        child.set_burst(now, burst);
        child.set_rate(now, rate);
        self.shares.set(index, class.share);
    }

    /// Removes the ceilings, so that everything that waits can leave at once.
    pub fn lift_ceilings(&mut self, now: Nanos) {
        (0..self.children.as_slice().len()).for_each(|index| {
            if let Some(child) = self.children.get_mut(index) {
                child.set_rate(now, None);
            }
        });
    }

    /// Finds out which children may send at `now`.
    fn refresh(&mut self, now: Nanos) {
        for (index, child) in self.children.as_slice().iter().enumerate() {
            let ready = child.next_event(now).is_some_and(|due| due <= now);
            self.shares.set_ready(index, ready);
        }
    }
}

impl<P: Packet, Q: Qdisc<P>> Qdisc<P> for Weighted<P, Q> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        let class = self.children.class_of(&packet);
        self.children.enqueue(class, now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        self.refresh(now);
        while let Some(class) = self.shares.next(now) {
            if let Some(packet) = self.children.dequeue(class, now, drops) {
                self.shares.charge(now, class, packet.len());
                return Some(packet);
            }
            // Its AQM dropped what it had.
            self.shares.set_ready(class, false);
        }
        None
    }

    /// Returns the next packet of the first class that has any. Which class is next depends on the
    /// time.
    fn peek(&self) -> Option<&P> {
        self.children.as_slice().iter().find_map(TokenBucket::peek)
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
        self.children.as_slice().iter().filter_map(|child| child.next_event(now)).min()
    }

    fn prefetch(&self, packet: &P) {
        self.children.prefetch(packet);
    }
}
