use forebay_units::Nanos;

/// Doubling begins when the window moved one way for this many round trips (Copa section 2.1).
const SAME: u32 = 3;

/// Which way the window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// How fast the window moves: once every round trip its direction is looked at, and the velocity
/// doubles where it stays the same and falls back to one where it turns. Doubling is what makes Copa's
/// spells of a full bottleneck queue, above all where two share it: `fig13-1to1.claim.toml` has what
/// they are without it.
#[derive(Debug)]
pub(super) struct Velocity {
    most: f64,
    value: f64,
    direction: Direction,
    /// For how many round trips the direction has been the same.
    same: u32,
    /// When the round trip began, and the window then.
    since: Option<(Nanos, f64)>,
}

impl Velocity {
    pub(super) fn new(most: f64) -> Self {
        Self { most, value: 1.0, direction: Direction::Up, same: 0, since: None }
    }

    /// The velocity at `now`, the window being `window` bytes long.
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
