//! The drain of a queue that has stood since before the box started.
//!
//! The first round trips of a box that is started under load contain the queue, and nothing tells
//! them from a long path. Slow start would double the rate, and a queue of seconds would stay for
//! as long as the load. So a bundle with a long first round trip sends an eighth of what arrives
//! until the round trip no longer falls. On a path that is long itself, this costs one and a half
//! round trips.
//!
//! If an earlier process measured the path, what exceeds its minimum is the queue. Then a long path
//! is not drained, and the drain ends when the queue is gone. A path that became longer meanwhile
//! shows in a round trip that does not fall.

use forebay_units::Nanos;

use super::tick_input::TickInput;

/// The shortest queue that is drained, in seconds. Shorter ones are left to the probe of the
/// minimum RTT.
const LONG: f64 = 0.2;
/// The fewest packets in flight that can be a queue of the bundle's.
const PACKETS: f64 = 32.0;
/// The share of the rate that is sent.
const SHARE: f64 = 0.125;
/// The round trip falls if it loses this share ...
const FALL: f64 = 0.125;
/// ... within this many rounds. The first one shows nothing yet.
const ROUNDS: f64 = 1.5;
/// A packet shows the fall if it was sent this share of the round trip after the rate was cut.
/// Samples are rare at an eighth of the rate.
const SHOWN: f64 = 0.25;
/// The queue of a path that is known is gone at this share of its minimum RTT.
const GONE: f64 = 0.125;

/// The drain at the start of a bundle.
#[derive(Debug, Default)]
pub(super) enum StartDrain {
    /// The bundle has not started yet.
    #[default]
    Awaited,
    /// It sends less since `since`, when the round trip was `rtt`.
    Running { since: Nanos, rtt: f64, fell: bool },
    /// The path is known. Another start needs no drain. `longer` is the round-trip time of a path
    /// that was found to be longer than it was.
    Done { fell: bool, longer: Option<Nanos> },
}

impl StartDrain {
    /// Ends a drain if `s` shows that the round trip no longer falls, and begins one at the first
    /// call if it is long. Returns the share of the rate to send, `None` for no limit.
    pub(super) fn on_tick(&mut self, s: &TickInput) -> Option<f64> {
        // Before the path is known, its minimum RTT is the first round trip, with the queue.
        let (now, queue) = if s.path_known { (s.rtt, s.delay) } else { (s.base, s.base) };
        match self {
            Self::Awaited if queue >= LONG && s.receive * queue >= PACKETS * s.packet => {
                *self = Self::Running { since: s.now, rtt: now, fell: false };
            }
            Self::Running { since, rtt, fell } => {
                let gone = s.path_known && s.delay <= GONE * s.base;
                if now <= *rtt * (1.0 - FALL) {
                    (*since, *rtt, *fell) = (s.now, now, true);
                }
                let shown = since.saturating_add(Nanos::from_secs_f64(SHOWN * *rtt));
                let late = s.elapsed_since(Some(*since)) > ROUNDS * s.round;
                if gone || late && s.sampled >= shown {
                    let longer = (s.path_known && !gone).then(|| Nanos::from_secs_f64(s.rtt));
                    *self = Self::Done { fell: *fell, longer };
                }
            }
            Self::Awaited => *self = Self::Done { fell: false, longer: None },
            Self::Done { .. } => {}
        }
        matches!(self, Self::Running { .. }).then_some(SHARE)
    }

    /// Looks at the queue anew if a drain is running, since packets may have left without a limit,
    /// or the path is found to be another one.
    pub(super) fn begin_again(&mut self) {
        if let Self::Running { .. } = self {
            *self = Self::Awaited;
        }
    }

    /// Returns the round-trip time of a path that was found to be longer, once.
    pub(super) fn take_longer_path(&mut self) -> Option<Nanos> {
        match self {
            Self::Done { longer, .. } => longer.take(),
            Self::Awaited | Self::Running { .. } => None,
        }
    }

    /// Whether the round trip fell, so that there was a queue and the rate is the path's.
    pub(super) fn found_queue(&self) -> bool {
        matches!(self, Self::Running { fell: true, .. } | Self::Done { fell: true, .. })
    }
}
