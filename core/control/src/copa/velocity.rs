use forebay_units::Nanos;

/// Round trips in one direction after which the velocity begins to double (Copa section 2.1).
const SAME: u32 = 3;

/// The direction in which the window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// The velocity v of the window (Copa section 2.1).
///
/// The direction is checked once every round trip. The velocity doubles while the direction stays
/// the same and returns to one when it changes. This doubling causes Copa's periods of a full
/// bottleneck queue, above all where two bundles share the bottleneck; `fig13-1to1.claim.toml` has
/// the figures without it.
#[derive(Debug)]
pub(super) struct Velocity {
    most: f64,
    value: f64,
    direction: Direction,
    /// Number of round trips in which the direction has been the same.
    same: u32,
    /// The time and the window at the start of the present round trip.
    since: Option<(Nanos, f64)>,
}

impl Velocity {
    pub(super) fn new(most: f64) -> Self {
        Self { most, value: 1.0, direction: Direction::Up, same: 0, since: None }
    }

    /// Returns the velocity at `now` for a window of `window` bytes.
    pub(super) fn on_tick(&mut self, now: Nanos, rtt: Nanos, window: f64) -> f64 {
        let (began, before) = *self.since.get_or_insert((now, window));
        if now.saturating_sub(began) >= rtt {
            self.since = Some((now, window));
            let direction = if window > before { Direction::Up } else { Direction::Down };
            if direction == self.direction {
                self.same += 1;
            } else {
                (self.direction, self.same, self.value) = (direction, 0, 1.0);
            }
            if self.same >= SAME {
                self.value = (self.value * 2.0).min(self.most);
            }
        }
        self.value
    }
}
