//! Building a box's queue from a policy of the configuration.

use forebay_dataplane::Packet;
use forebay_discipline::{BuildError, Discipline};
use forebay_queue::{Backlog, DropSink, DualPi2, Qdisc, Room, StrictPriority, Weighted};
use forebay_units::Nanos;

use crate::Error;
use crate::classes;
use crate::config::Policy;

/// The queue of a bundle, or of one direction of a link.
pub(crate) enum Queue {
    /// DualPI2, as its own type for its statistics.
    DualPi2(Box<DualPi2<Packet>>),
    /// Weighted classes, as their own type since their shares change.
    Weighted(Box<Weighted<Packet>>),
    /// Any other discipline.
    Other(Box<dyn Qdisc<Packet>>),
}

impl Queue {
    /// Builds the queue of `policy`, which is the policy of `of`. The seed is for hashes and random
    /// drops.
    pub(crate) fn build(of: &str, policy: &Policy, seed: u64) -> Result<Self, Error> {
        let refused = |source: BuildError| Error::Policy { of: of.to_owned(), source };
        let discipline = &policy.discipline;
        if let Some(dualpi2) = discipline.build_dualpi2(seed, classes::DUALPI2) {
            return Ok(Self::DualPi2(Box::new(dualpi2.map_err(|e| refused(e.into()))?)));
        }
        if !discipline.kind.is_classful() {
            return discipline.build(seed).map(Self::Other).map_err(refused);
        }
        let built = policy.classes.iter().map(|c| c.policy.build(seed).map_err(refused));
        let built: Vec<Box<dyn Qdisc<Packet>>> = built.collect::<Result<_, _>>()?;
        if policy.is_weighted() {
            let classes = policy.classes.iter().map(|class| class.share.into()).zip(built);
            let weighted = Weighted::new(classes.collect()).map_err(|e| refused(e.into()))?;
            return Ok(Self::Weighted(Box::new(weighted)));
        }
        Ok(Self::Other(Box::new(StrictPriority::new(built).map_err(|e| refused(e.into()))?)))
    }

    /// Sets the shares of weighted classes to those of `policy`; packets that wait stay.
    pub(crate) fn set_shares(&mut self, now: Nanos, policy: &Policy) {
        if let Self::Weighted(weighted) = self {
            for (index, class) in policy.classes.iter().enumerate() {
                weighted.set(now, index, class.share.into());
            }
        }
    }

    /// Removes limits below that of the whole queue, so that everything that waits can leave.
    pub(crate) fn lift_ceilings(&mut self, now: Nanos) {
        if let Self::Weighted(weighted) = self {
            weighted.lift_ceilings(now);
        }
    }

    fn qdisc(&self) -> &dyn Qdisc<Packet> {
        match self {
            Self::DualPi2(qdisc) => &**qdisc,
            Self::Weighted(qdisc) => &**qdisc,
            Self::Other(qdisc) => &**qdisc,
        }
    }

    fn qdisc_mut(&mut self) -> &mut dyn Qdisc<Packet> {
        match self {
            Self::DualPi2(qdisc) => &mut **qdisc,
            Self::Weighted(qdisc) => &mut **qdisc,
            Self::Other(qdisc) => &mut **qdisc,
        }
    }
}

impl Qdisc<Packet> for Queue {
    fn enqueue(&mut self, now: Nanos, packet: Packet, drops: &mut dyn DropSink<Packet>) {
        self.qdisc_mut().enqueue(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<Packet>) -> Option<Packet> {
        self.qdisc_mut().dequeue(now, drops)
    }

    fn peek(&self) -> Option<&Packet> {
        self.qdisc().peek()
    }

    fn backlog(&self) -> Backlog {
        self.qdisc().backlog()
    }

    fn probe(&self, now: Nanos, packet: &Packet) -> bool {
        self.qdisc().probe(now, packet)
    }

    fn room(&self, class: u8) -> Room {
        self.qdisc().room(class)
    }

    fn classes(&self) -> usize {
        self.qdisc().classes()
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.qdisc().next_event(now)
    }

    fn prefetch(&self, packet: &Packet) {
        self.qdisc().prefetch(packet);
    }
}

/// Returns the number of packets that a queue of this policy can hold.
pub(crate) fn capacity(policy: &Policy) -> u64 {
    let classes = policy.classes.iter().map(|c| &c.policy);
    std::iter::once(&policy.discipline).chain(classes).map(Discipline::capacity).sum()
}

#[cfg(test)]
pub(crate) mod tests;
