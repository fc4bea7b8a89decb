use forebay_units::Nanos;

use super::tick_input::TickInput;

/// The number of steps by which the window grows in a round.
///
/// It is one in the first round without a queue and doubles each round (Copa section 2.1). The
/// effect of a step shows within a round, so the velocity does not wind up.
#[derive(Debug)]
pub(super) struct Velocity {
    steps: f64,
    double_at: Nanos,
}

impl Velocity {
    pub(super) fn new() -> Self {
        Self { steps: 1.0, double_at: Nanos::ZERO }
    }

    /// Resets the velocity, since there is a queue.
    pub(super) fn rest(&mut self, s: &TickInput) {
        self.steps = 1.0;
        self.double_at = s.after_rounds(1.0);
    }

    /// Lets a tick pass without growth. A queue that `shows` resets the velocity; otherwise it is
    /// kept.
    pub(super) fn pause(&mut self, s: &TickInput, shows: bool) {
        if shows {
            self.steps = 1.0;
        }
        self.double_at = self.double_at.saturating_add(Nanos::from_secs_f64(s.dt));
    }

    /// Returns the steps of this tick, at a rate of at most `most` a round.
    pub(super) fn step(&mut self, s: &TickInput, most: f64) -> f64 {
        if s.now >= self.double_at {
            self.steps = (self.steps * 2.0).min(most.max(1.0));
            self.double_at = s.after_rounds(1.0);
        }
        self.steps * s.dt / s.round
    }
}
