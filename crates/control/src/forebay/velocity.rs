use forebay_units::Nanos;

use super::tick_input::TickInput;

/// How many steps a round the window grows: one in the first round without a queue, then twice as
/// many each round (Copa section 2.1). A round is what it takes to see the effect, so it does not
/// wind up.
#[derive(Debug)]
pub(super) struct Velocity {
    steps: f64,
    double_at: Nanos,
}

impl Velocity {
    pub(super) fn new() -> Self {
        Self { steps: 1.0, double_at: Nanos::ZERO }
    }

    /// A queue stands: the next growth begins slowly.
    pub(super) fn rest(&mut self, s: &TickInput) {
        self.steps = 1.0;
        self.double_at = s.after_rounds(1.0);
    }

    /// Nothing is learnt now. A queue that `shows` ends the growth, otherwise it goes on later.
    pub(super) fn pause(&mut self, s: &TickInput, shows: bool) {
        if shows {
            self.steps = 1.0;
        }
        self.double_at = self.double_at.saturating_add(Nanos::from_secs_f64(s.dt));
    }

    /// The steps of this tick, at `most` that many a round.
    pub(super) fn step(&mut self, s: &TickInput, most: f64) -> f64 {
        if s.now >= self.double_at {
            self.steps = (self.steps * 2.0).min(most.max(1.0));
            self.double_at = s.after_rounds(1.0);
        }
        self.steps * s.dt / s.round
    }
}
