//! The way of a packet from the sending end of a wire to its other end: loss, delay and jitter.

use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::delay::DelayTrace;
use crate::network::SetupError;
use crate::random::Random;

/// The longest delay that is accepted, longer than that of any real path.
const MAX_DELAY: Nanos = Nanos::from_secs(100);

/// The packet loss of a wire, after the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// A wire without loss.
    #[default]
    None,
    /// Independent loss of each packet with this probability.
    Random(f64),
    /// Loss in bursts (Gilbert's model). After each packet a good state becomes bad with
    /// probability `begin`, and a bad state good with probability `end`; packets in the bad state
    /// are lost.
    Burst {
        /// The probability of the change from good to bad.
        begin: f64,
        /// The probability of the change from bad to good.
        end: f64,
    },
}

/// The variation of the propagation delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jitter {
    /// The largest additional delay; it is distributed uniformly from zero.
    pub up_to: Nanos,
    /// Whether a packet may overtake another.
    pub reorders: bool,
}

/// The configuration of a [`Propagation`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PropagationConfig {
    /// The propagation delay.
    pub delay: Nanos,
    /// A delay over time, which is added to `delay`.
    pub delay_trace: Option<DelayTrace>,
    /// The packet loss.
    pub loss: Loss,
    /// The largest number of packets that are lost one after the other, if it is limited. The next
    /// packet then arrives whatever `loss` says.
    #[serde(default)]
    pub most_lost_in_a_row: Option<u32>,
    /// The variation of the delay.
    pub jitter: Jitter,
}

impl PropagationConfig {
    fn check(&self) -> Result<(), SetupError> {
        let refuse = |what, must| Err(SetupError::Range { what, must });
        if self.delay.max(self.jitter.up_to) > MAX_DELAY {
            return refuse("a link's delay and its jitter", "at most 100 s each");
        }
        let some = |p: f64| p > 0.0 && p <= 1.0;
        match self.loss {
            Loss::Random(p) if !(0.0..1.0).contains(&p) => {
                refuse("a link's loss", "a probability below one: nothing would arrive")
            }
            Loss::Burst { begin, end } if !((0.0..=1.0).contains(&begin) && some(end)) => {
                refuse("a link's bursts of loss", "two probabilities, that of an end above zero")
            }
            _ => Ok(()),
        }
    }
}

/// Decides when each packet reaches the other end of a wire, or that it is lost.
#[derive(Debug)]
pub struct Propagation {
    config: PropagationConfig,
    random: Random,
    /// Whether a burst of loss is in progress.
    bad: bool,
    /// The number of packets that were lost since the latest one that arrived.
    lost_in_a_row: u32,
    last_arrival: Nanos,
}

impl Propagation {
    /// Creates the wire of `config`, whose random numbers come from `random`.
    ///
    /// # Errors
    /// Fails if no packet could pass it, or a parameter is out of range.
    pub fn new(config: PropagationConfig, random: Random) -> Result<Self, SetupError> {
        config.check()?;
        Ok(Self { config, random, bad: false, lost_in_a_row: 0, last_arrival: Nanos::ZERO })
    }

    /// Returns whether no packet overtakes another.
    pub fn keeps_order(&self) -> bool {
        !(self.config.jitter.reorders && self.config.jitter.up_to > Nanos::ZERO)
    }

    /// Sets the delay of packets from now on. Without `reorders` none overtakes an earlier packet.
    pub fn set_delay(&mut self, delay: Nanos) {
        self.config.delay = delay.min(MAX_DELAY);
    }

    /// Returns the shortest time that a packet sent at `time` takes.
    pub fn delay(&self, time: Nanos) -> Nanos {
        let traced = self.config.delay_trace.as_ref().map_or(Nanos::ZERO, |trace| trace.at(time));
        self.config.delay.saturating_add(traced)
    }

    /// Returns when the packet whose last bit is sent at `end` reaches the other end; `None` if it
    /// is lost. Packets are given in the order in which they are sent.
    pub fn arrival(&mut self, end: Nanos) -> Option<Nanos> {
        let limit = self.config.most_lost_in_a_row.unwrap_or(u32::MAX);
        if self.is_lost() && self.lost_in_a_row < limit {
            self.lost_in_a_row = self.lost_in_a_row.saturating_add(1);
            return None;
        }
        self.lost_in_a_row = 0;
        let mut arrival = end.saturating_add(self.delay(end));
        if self.config.jitter.up_to > Nanos::ZERO {
            arrival = arrival.saturating_add(Nanos(self.random.below(self.config.jitter.up_to.0)));
        }
        if self.keeps_order() {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        Some(arrival)
    }

    pub(super) fn is_lost(&mut self) -> bool {
        match self.config.loss {
            Loss::None => false,
            Loss::Random(p) => self.random.chance(p),
            Loss::Burst { begin, end } => {
                let change = if self.bad { end } else { begin };
                let lost = self.bad;
                self.bad ^= self.random.chance(change);
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_in_a_row_have_a_limit() {
        let row = |most_lost_in_a_row| {
            let loss = Loss::Random(0.6);
            let config =
                PropagationConfig { loss, most_lost_in_a_row, ..PropagationConfig::default() };
            let mut wire = Propagation::new(config, Random::new(1, 1)).unwrap();
            let lost = (0..10_000).map(|n| wire.arrival(Nanos(n)).is_none());
            let rows = lost.scan(0, |row, lost| {
                *row = if lost { *row + 1 } else { 0 };
                Some(*row)
            });
            rows.max().unwrap()
        };
        assert_eq!([row(Some(1)), row(Some(3)), row(Some(0))], [1, 3, 0]);
        assert!(row(None) > 10);
    }

    #[test]
    fn the_delay_follows_its_trace_and_packets_keep_their_order() {
        let ms = Nanos::from_millis;
        let trace = DelayTrace::parse("d", "20\n5\n").unwrap();
        let config = PropagationConfig {
            delay: ms(1),
            delay_trace: Some(trace),
            ..PropagationConfig::default()
        };
        let mut wire = Propagation::new(config, Random::new(1, 1)).unwrap();
        assert_eq!(wire.arrival(ms(0)), Some(ms(21)));
        assert_eq!(wire.arrival(ms(9)), Some(ms(30)));
        assert_eq!(wire.arrival(ms(10)), Some(ms(30)), "it would arrive at 16 ms");
        assert_eq!(wire.arrival(ms(19)), Some(ms(30)));
        assert_eq!(wire.arrival(ms(20)), Some(ms(41)), "the trace starts again");
    }
}
