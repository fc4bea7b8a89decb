use forebay_units::Nanos;

use crate::controller::Measurement;

/// The longest probe in rounds. In three rounds, three quarters of the rate drain a queue of three
/// quarters of a round trip.
const MAX_PROBE_ROUNDS: u64 = 3;
/// Smoothed round trips at the full rate that follow a probe, since S and R of the probe do not
/// show what the path serves.
const AFTER: u64 = 2;
/// Rounds before the first probe, since the path may have been full when the bundle began.
const FIRST: u64 = 4;
/// The share of the rate that is sent during a probe.
const KEEP: f64 = 0.75;

/// A short time below the bottleneck's rate, which drains the queue and so shows the minimum RTT.
#[derive(Debug)]
pub(super) struct MinRttProbe {
    interval: Nanos,
    next: Option<Nanos>,
    first: bool,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Off,
    /// A probe since this time, and the rate before it in bits per second.
    Down {
        since: Nanos,
        rate: f64,
    },
    /// The time after a probe until this time, and the rate before the probe.
    After {
        until: Nanos,
        rate: f64,
    },
}

impl MinRttProbe {
    pub(super) fn new(interval: Nanos) -> Self {
        Self { interval, next: None, first: true, state: State::Off }
    }

    /// Returns the rate to send at in bits per second during a probe and the time after it.
    ///
    /// `served` is the rate at which the bundle is served. `queued` is whether there is a queue at
    /// the bottleneck.
    pub(super) fn on_tick(&mut self, m: &Measurement, served: f64, queued: bool) -> Option<f64> {
        let round = m.standing_rtt.saturating_add(m.sample_interval);
        match self.state {
            State::Off => self.consider(m, round, served, queued),
            State::Down { since, rate } => {
                let lasted = m.now.saturating_sub(since);
                let seen = lasted > round && m.min_rtt_age < round / 2;
                if seen || lasted > round * MAX_PROBE_ROUNDS {
                    let until = m.now.saturating_add(m.smoothed_rtt * AFTER);
                    self.state = State::After { until, rate };
                }
            }
            State::After { until, .. } if m.now >= until => {
                self.state = State::Off;
                self.next = Some(m.now.saturating_add(self.interval));
                self.first = false;
            }
            State::After { .. } => {}
        }
        match self.state {
            State::Off => None,
            State::Down { rate, .. } => Some(rate * KEEP),
            State::After { rate, .. } => Some(rate),
        }
    }

    /// Starts a probe if the minimum RTT is too old.
    fn consider(&mut self, m: &Measurement, round: Nanos, served: f64, queued: bool) {
        let soon = m.now.saturating_add(round * FIRST);
        let next = *self.next.get_or_insert(soon);
        let unseen = if self.first { round } else { self.interval };
        if m.now >= next && m.min_rtt_age > unseen && queued {
            self.state = State::Down { since: m.now, rate: served };
        }
    }
}
