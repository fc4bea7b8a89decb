//! The signal probabilities of the two queues, from the base probability and the L queue's delay.

use forebay_units::Nanos;

use super::base::Control;
use super::scheduler::QueueKind;
use super::{DualPi2, Input, Saturation};
use crate::Packet;
use crate::coupled::Signals;

impl<P: Packet> DualPi2<P> {
    /// Makes the updates that have become due. For nearly every packet there are none.
    #[inline]
    pub(super) fn advance(&mut self, now: Nanos) {
        if self.control.is_due(now) {
            self.update(now);
        }
    }

    #[cold]
    fn update(&mut self, now: Nanos) {
        while let Some(at) = self.control.take(now) {
            self.control.update(self.delay(at));
            self.overload.observe(at, self.is_saturated());
        }
    }

    /// Updates a base AQM that averages the delays of departing packets, for the packet at the head
    /// of `queue`.
    #[inline]
    pub(super) fn observe_departure(&mut self, now: Nanos, queue: QueueKind) {
        let counts = queue == QueueKind::Classic || self.classic.queue.front().is_none();
        if counts && matches!(self.control, Control::CurvyRed(_)) {
            self.control.update(self.delay(now));
            self.overload.observe(now, self.is_saturated());
        }
    }

    /// Returns the queue delay that the base AQM controls.
    fn delay(&self, at: Nanos) -> Nanos {
        let low_latency = self.low_latency.queue.head_sojourn(at);
        let classic = self.classic.queue.head_sojourn(at);
        let alone = self.classic.queue.front().is_none();
        match self.config.input {
            Input::Greatest => classic.max(low_latency),
            Input::ClassicFirst if alone => low_latency,
            Input::ClassicFirst => classic,
        }
    }

    /// Returns whether the classic probability has reached its maximum.
    fn is_saturated(&self) -> bool {
        self.control.base() * self.control.base() >= self.max_classic
    }

    /// Returns the C queue's signal probabilities; zero if `exempt`, when too little waits.
    pub(super) fn classic_signals(&self, exempt: bool) -> Signals {
        if exempt {
            return Signals::default();
        }
        let base = self.control.base();
        let classic = base * base;
        let drops = self.config.on_saturation == Saturation::Drop && self.is_saturated();
        let scalable = (self.config.coupling * base).min(1.0);
        Signals { scalable, classic, overload: drops.then_some(classic) }
    }

    /// Returns the signal probabilities for the packet at the L queue's head (RFC 9332 Figure 7).
    pub(super) fn low_latency_signals(&self, now: Nanos, exempt: bool) -> Signals {
        let coupled = self.classic_signals(exempt);
        let queue = &self.low_latency.queue;
        let native =
            self.config.native.probability(queue.head_sojourn(now), queue.backlog().packets);
        let scalable = coupled.scalable.max(native);
        let base = scalable / self.config.coupling;
        Signals { scalable, classic: base * base, overload: coupled.overload }
    }
}

#[cfg(test)]
mod tests;
