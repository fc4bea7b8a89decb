use forebay_units::Nanos;

use crate::controller::Measurement;

/// A look takes this many rounds at most; so many let three quarters of the rate drain a queue of
/// three quarters of a round trip.
const LONGEST: u64 = 3;
/// And so many smoothed round trips at the full rate follow, since S and R of the look itself tell
/// of the look and not of the path.
const AFTER: u64 = 2;
/// The first look comes after this many rounds: the bundle may have begun on a path full of packets.
const FIRST: u64 = 4;
/// The share of the rate that is sent meanwhile.
const KEEP: f64 = 0.75;

/// A moment at less than the bottleneck's rate, so that its queue drains and the minimum RTT is seen
/// again.
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
    /// Since when, and the rate before in bits per second.
    Down(Nanos, f64),
    /// Until when, and the rate before.
    After(Nanos, f64),
}

impl MinRttProbe {
    pub(super) fn new(interval: Nanos) -> Self {
        Self { interval, next: None, first: true, state: State::Off }
    }

    /// The rate to send at, in bits per second, while there is a look; `served` is the rate at which
    /// the bundle is served, and `queued` whether more waits at the bottleneck than noise.
    pub(super) fn on_tick(&mut self, m: &Measurement, served: f64, queued: bool) -> Option<f64> {
        let round = m.standing_rtt.saturating_add(m.sample_interval);
        match self.state {
            State::Off => self.consider(m, round, served, queued),
            State::Down(since, rate) => {
                let lasted = m.now.saturating_sub(since);
                let seen = lasted > round && m.min_rtt_age < round / 2;
                if seen || lasted > round * LONGEST {
                    let until = m.now.saturating_add(m.smoothed_rtt * AFTER);
                    self.state = State::After(until, rate);
                }
            }
            State::After(until, _) if m.now >= until => {
                self.state = State::Off;
                self.next = Some(m.now.saturating_add(self.interval));
                self.first = false;
            }
            State::After(..) => {}
        }
        match self.state {
            State::Off => None,
            State::Down(_, rate) => Some(rate * KEEP),
            State::After(_, rate) => Some(rate),
        }
    }

    fn consider(&mut self, m: &Measurement, round: Nanos, served: f64, queued: bool) {
        let soon = m.now.saturating_add(round * FIRST);
        let next = *self.next.get_or_insert(soon);
        let unseen = if self.first { round } else { self.interval };
        if m.now >= next && m.min_rtt_age > unseen && queued {
            self.state = State::Down(m.now, served);
        }
    }
}
