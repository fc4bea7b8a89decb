//! The drain of a queue that has stood since before the box started.
//!
//! The first round trips of a box that is started under load contain the queue, and nothing tells
//! them from a long path. Slow start would double the rate, and a queue of seconds would stay for
//! as long as the load. So a bundle with a long first round trip sends an eighth of what arrives
//! until the round trip no longer falls. On a path that is long itself, this costs one and a half
//! round trips.

use forebay_units::Nanos;

use super::tick_input::TickInput;

/// The shortest first round trip that is drained, in seconds. Shorter queues are left to the probe
/// of the minimum RTT.
const LONG: f64 = 0.2;
/// The fewest packets in flight that can be a queue of the bundle's.
const PACKETS: f64 = 32.0;
/// The share of the rate that is sent.
const SHARE: f64 = 0.125;
/// The round trip falls if it loses this share ...
const FALL: f64 = 0.125;
/// ... within this many rounds. The first one shows nothing yet.
const ROUNDS: f64 = 1.5;

/// The drain at the start of a bundle.
#[derive(Debug, Default)]
pub(super) enum StartDrain {
    /// The bundle has not started yet.
    #[default]
    Awaited,
    /// It sends less since `since`, when the round trip was `base`.
    Running { since: Nanos, base: f64, fell: bool },
    /// The path is known. Another start needs no drain.
    Done,
}

impl StartDrain {
    /// Ends a drain if `s` shows that the round trip no longer falls, and begins one at the first
    /// call if it is long. Returns the share of the rate to send, `None` for no limit.
    pub(super) fn on_tick(&mut self, s: &TickInput) -> Option<f64> {
        match self {
            Self::Awaited if s.base >= LONG && s.receive * s.base >= PACKETS * s.packet => {
                *self = Self::Running { since: s.now, base: s.base, fell: false };
            }
            Self::Running { since, base, fell } => {
                if s.base <= *base * (1.0 - FALL) {
                    (*since, *base, *fell) = (s.now, s.base, true);
                } else if s.elapsed_since(Some(*since)) > ROUNDS * s.round {
                    *self = Self::Done;
                }
            }
            Self::Awaited => *self = Self::Done,
            Self::Done => {}
        }
        matches!(self, Self::Running { .. }).then_some(SHARE)
    }

    /// Whether the round trip fell, so that there was a queue and the rate is the path's.
    pub(super) fn found_queue(&self) -> bool {
        matches!(self, Self::Running { fell: true, .. })
    }
}
