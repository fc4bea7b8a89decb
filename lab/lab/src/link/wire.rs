//! The simulator's wire in real time: its time counts from the start of the run.
//!
//! Before the run starts, while traffic programs connect, the wire has a constant rate and delay
//! and loses nothing.

use std::collections::VecDeque;

use forebay_sim::{Capacity, DelayTrace, Propagation, PropagationConfig, Random, SetupError, Wire};
use forebay_units::{Bytes, Nanos, Rate};

/// The sending end of the wire.
#[derive(Debug)]
pub(super) struct RunWire {
    before: Wire,
    run: Wire,
    start: Option<Nanos>,
}

impl RunWire {
    /// Creates a wire that has `rate` before the run and `capacity` in the run.
    pub(super) fn new(rate: Rate, capacity: Capacity) -> Result<Self, SetupError> {
        let before = Wire::new(Capacity::Constant(rate))?;
        Ok(Self { before, run: Wire::new(capacity)?, start: None })
    }

    /// Sets the start of the run.
    pub(super) fn start_at(&mut self, start: Nanos) {
        self.start = Some(start);
    }

    /// Returns when the next packet can start, at `since` or later.
    pub(super) fn ready(&mut self, since: Nanos) -> Nanos {
        let ready = self.before.ready(since);
        match self.start {
            Some(start) if ready >= start => start.saturating_add(self.run.ready(ready - start)),
            _ => ready,
        }
    }

    /// Sends a packet of `len` from `begin` on, a time that [`RunWire::ready`] returned. Returns
    /// when it has been sent.
    pub(super) fn send(&mut self, begin: Nanos, len: Bytes) -> Nanos {
        match self.start {
            Some(start) if begin >= start => {
                start.saturating_add(self.run.send(begin - start, len))
            }
            _ => self.before.send(begin, len),
        }
    }
}

/// The way from the sending end of the wire to the other end.
#[derive(Debug)]
pub(super) struct RunPropagation {
    /// The delay before the run.
    before: Nanos,
    /// The shortest delay of the run.
    shortest: Nanos,
    run: Propagation,
    /// Later delays and their times from the start of the run, the next one first.
    changes: VecDeque<(Nanos, Nanos)>,
    start: Option<Nanos>,
}

impl RunPropagation {
    /// Creates the way that `config` describes, whose random numbers come from `random`, with later
    /// delays and their times, ascending.
    pub(super) fn new(
        config: PropagationConfig,
        random: Random,
        changes: impl IntoIterator<Item = (Nanos, Nanos)>,
    ) -> Result<Self, SetupError> {
        let traced = config.delay_trace.as_ref().map_or(Nanos::ZERO, DelayTrace::shortest);
        let before = config.delay.saturating_add(traced);
        let changes: VecDeque<_> = changes.into_iter().collect();
        let shortest = changes.iter().map(|(_, delay)| *delay).chain([before]).min();
        let shortest = shortest.unwrap_or(before);
        let run = Propagation::new(config, random)?;
        Ok(Self { before, shortest, run, changes, start: None })
    }

    /// Sets the start of the run.
    pub(super) fn start_at(&mut self, start: Nanos) {
        self.start = Some(start);
    }

    /// Returns the shortest time that a packet takes.
    pub(super) fn shortest(&self) -> Nanos {
        self.shortest
    }

    /// Returns when the packet whose last bit is sent at `end` arrives; `None` if it is lost.
    pub(super) fn arrival(&mut self, end: Nanos) -> Option<Nanos> {
        match self.start {
            Some(start) if end >= start => {
                let end = end - start;
                while let Some(&(at, delay)) = self.changes.front()
                    && at <= end
                {
                    self.changes.pop_front();
                    self.run.set_delay(delay);
                }
                Some(start.saturating_add(self.run.arrival(end)?))
            }
            _ => Some(end.saturating_add(self.before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_sim::{Loss, Trace};

    use super::*;

    const fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn the_trace_begins_with_the_run() {
        let trace = Trace::parse("t", "5\n5\n10\n").unwrap();
        // At 12.112 Mbit/s a full frame takes a millisecond.
        let mut wire = RunWire::new(Rate::from_bps(12_112_000), Capacity::Trace(trace)).unwrap();
        let send = |wire: &mut RunWire, since| {
            let begin = wire.ready(since);
            (begin, wire.send(begin, Bytes(1514)))
        };
        assert_eq!(send(&mut wire, ms(100)), (ms(100), ms(101)));
        wire.start_at(ms(102));
        assert_eq!(send(&mut wire, ms(100)), (ms(101), ms(102)), "before the run");
        assert_eq!(send(&mut wire, ms(102)), (ms(107), ms(107)));
        assert_eq!(send(&mut wire, ms(103)), (ms(107), ms(107)), "the second chance");
        assert_eq!(send(&mut wire, ms(107)), (ms(112), ms(112)));
        assert_eq!(send(&mut wire, ms(113)), (ms(117), ms(117)), "the trace repeats");
    }

    #[test]
    fn nothing_is_lost_before_the_run() {
        let loss = Loss::Burst { begin: 1.0, end: 1.0 };
        let config = PropagationConfig { delay: ms(5), loss, ..PropagationConfig::default() };
        let mut way = RunPropagation::new(config, Random::new(1, 1), []).unwrap();
        way.start_at(ms(10));
        assert!((0..10).all(|at| way.arrival(ms(at)) == Some(ms(at + 5))));
        let lost = (10..20).filter(|at| way.arrival(ms(*at)).is_none()).count();
        assert_eq!(lost, 5, "every second packet");
    }

    #[test]
    fn a_delay_changes_at_its_time() {
        let config = PropagationConfig { delay: ms(20), ..PropagationConfig::default() };
        let changes = [(ms(100), ms(5)), (ms(200), ms(40))];
        let mut way = RunPropagation::new(config, Random::new(1, 1), changes).unwrap();
        assert_eq!((way.arrival(ms(0)), way.shortest()), (Some(ms(20)), ms(5)));
        way.start_at(ms(10));
        assert_eq!(way.arrival(ms(109)), Some(ms(129)));
        assert_eq!(way.arrival(ms(110)), Some(ms(129)), "it would overtake at 115 ms");
        assert_eq!(way.arrival(ms(150)), Some(ms(155)));
        assert_eq!(way.arrival(ms(210)), Some(ms(250)));
    }
}
