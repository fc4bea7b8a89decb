//! When a source of datagrams sends, and how large they are: pure arithmetic, so that whoever
//! simulates and whoever really sends does so at the same instants.
//!
//! Times come from counts and not from gap to gap, so that rounding does not add up.

use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

/// The largest payload of a datagram: what one IPv4 packet has room for.
const LARGEST: Bytes = Bytes(65_507);
/// More frames a second than any screen shows.
const MOST_FRAMES: u32 = 1_000;

/// A pattern of datagrams, from its beginning on without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Evenly.
    Constant {
        /// UDP payload per second.
        rate: Rate,
        /// UDP payload of each.
        size: Bytes,
    },
    /// Evenly for a while, then not at all for a while.
    OnOff {
        /// UDP payload per second while it is on.
        rate: Rate,
        /// UDP payload of each.
        size: Bytes,
        /// How long it is on,
        on: Nanos,
        /// and off.
        off: Nanos,
    },
    /// Frames at even distances, each as many datagrams at once as it needs: an application that
    /// limits itself, in bursts.
    Video {
        /// UDP payload per second.
        rate: Rate,
        /// Frames per second.
        fps: u32,
        /// UDP payload of each datagram but a frame's last, which has what is left.
        size: Bytes,
    },
}

/// Why a pattern makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing would be sent, or all of it at once.
    #[error("traffic needs a rate above zero")]
    Rate,
    /// A datagram that cannot be.
    #[error("datagrams carry 1 to 65507 bytes")]
    Size,
    /// Phases without length.
    #[error(
        "on-off traffic needs an on time and an off time above zero; without an off time it is `cbr`"
    )]
    OnOff,
    /// Frames that cannot be.
    #[error("video has 1 to 1000 frames a second, and at least a byte in each")]
    Frames,
}

/// A datagram of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// When it is sent, after the pattern's beginning; [`Nanos::MAX`] for after the end of time.
    pub at: Nanos,
    /// Its UDP payload.
    pub size: Bytes,
}

impl Pattern {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// If it does not.
    pub fn check(&self) -> Result<(), PatternError> {
        let (Self::Constant { rate, size }
        | Self::OnOff { rate, size, .. }
        | Self::Video { rate, size, .. }) = *self;
        if rate == Rate::ZERO {
            return Err(PatternError::Rate);
        }
        if size == Bytes::ZERO || size > LARGEST {
            return Err(PatternError::Size);
        }
        match *self {
            Self::OnOff { on, off, .. } if on.min(off) == Nanos::ZERO => Err(PatternError::OnOff),
            Self::Video { rate, fps, .. }
                if !(1..=MOST_FRAMES).contains(&fps) || rate.as_bps() < 8 * u64::from(fps) =>
            {
                Err(PatternError::Frames)
            }
            _ => Ok(()),
        }
    }

    /// Its datagrams in their order. The pattern must make sense.
    pub fn datagrams(self) -> Datagrams {
        Datagrams { pattern: self, number: 0, left: Bytes::ZERO }
    }
}

/// The datagrams of a pattern; there is always another one.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams {
    pattern: Pattern,
    /// Of the next datagram, or of the next frame of a video.
    number: u64,
    /// What the present frame still has to send.
    left: Bytes,
}

impl Iterator for Datagrams {
    type Item = Datagram;

    fn next(&mut self) -> Option<Datagram> {
        Some(match self.pattern {
            Pattern::Constant { rate, size } => {
                Datagram { at: evenly(rate, size, self.count()), size }
            }
            Pattern::OnOff { rate, size, on, off } => {
                // Those before the end of the time on, which are sent at its beginning or after it.
                let per_cycle = rate.bytes_in(on - Nanos(1)).0 / size.0 + 1;
                let number = self.count();
                let (cycle, place) = (number / per_cycle, number % per_cycle);
                let start = on.0.saturating_add(off.0).saturating_mul(cycle);
                Datagram { at: evenly(rate, size, place).saturating_add(Nanos(start)), size }
            }
            Pattern::Video { rate, fps, size } => {
                while self.left == Bytes::ZERO {
                    let end = frames_end(rate, fps, self.number + 1);
                    self.left = end - frames_end(rate, fps, self.number);
                    self.number += 1;
                }
                let size = size.min(self.left);
                self.left -= size;
                let at = u128::from(self.number - 1) * 1_000_000_000 / u128::from(fps);
                Datagram { at: Nanos(u64::try_from(at).unwrap_or(u64::MAX)), size }
            }
        })
    }
}

impl Datagrams {
    fn count(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }
}

fn evenly(rate: Rate, size: Bytes, number: u64) -> Nanos {
    rate.time_for(Bytes(size.0.saturating_mul(number)))
}

/// The bytes of the first `number` frames.
fn frames_end(rate: Rate, fps: u32, number: u64) -> Bytes {
    let bytes = u128::from(rate.as_bps()) * u128::from(number) / (8 * u128::from(fps));
    Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(pattern: Pattern, count: usize) -> Vec<(u64, u64)> {
        pattern.check().unwrap();
        pattern.datagrams().take(count).map(|d| (d.at.0, d.size.0)).collect()
    }

    #[test]
    fn on_and_off() {
        // A datagram a millisecond for 2.5 ms, then 7.5 ms of nothing.
        let rate = Rate::from_mbps(8);
        let (on, off) = (Nanos(2_500_000), Nanos(7_500_000));
        let pattern = Pattern::OnOff { rate, size: Bytes(1000), on, off };
        let expected = [0, 1_000_000, 2_000_000, 10_000_000, 11_000_000].map(|t| (t, 1000));
        assert_eq!(times(pattern, 5), expected);
        // The one that would be sent at the very end of the time on is not.
        let pattern = Pattern::OnOff { rate, size: Bytes(1000), on: Nanos(2_000_000), off };
        assert_eq!(times(pattern, 3)[2], (9_500_000, 1000));
    }

    #[test]
    fn frames_are_bursts() {
        // 3125 bytes a frame, 30 a second.
        let pattern = Pattern::Video { rate: Rate::from_bps(750_000), fps: 30, size: Bytes(1400) };
        let third = 33_333_333;
        let expected = [(0, 1400), (0, 1400), (0, 325), (third, 1400), (third, 1400), (third, 325)];
        assert_eq!(times(pattern, 6), expected);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (rate, size, ms) = (Rate::from_mbps(1), Bytes(1000), Nanos::from_millis(1));
        let zero = Rate::ZERO;
        for (pattern, error) in [
            (Pattern::Constant { rate: zero, size }, PatternError::Rate),
            (Pattern::Constant { rate, size: Bytes(0) }, PatternError::Size),
            (Pattern::Constant { rate, size: Bytes(65_508) }, PatternError::Size),
            (Pattern::OnOff { rate, size, on: Nanos::ZERO, off: ms }, PatternError::OnOff),
            (Pattern::OnOff { rate, size, on: ms, off: Nanos::ZERO }, PatternError::OnOff),
            (Pattern::Video { rate, fps: 0, size }, PatternError::Frames),
            (Pattern::Video { rate, fps: 1001, size }, PatternError::Frames),
            (Pattern::Video { rate: Rate::from_bps(79), fps: 10, size }, PatternError::Frames),
        ] {
            assert_eq!(pattern.check(), Err(error), "{pattern:?}");
        }
    }

    fn patterns() -> impl Strategy<Value = Pattern> {
        let rate = (8_000u64..10_000_000_000).prop_map(Rate::from_bps);
        let size = (1u64..=65_507).prop_map(Bytes);
        let time = || (1u64..3_000_000_000).prop_map(Nanos);
        (0u8..3, rate, size, time(), time(), 1u32..=1000).prop_map(
            |(kind, rate, size, on, off, fps)| match kind {
                0 => Pattern::Constant { rate, size },
                1 => Pattern::OnOff { rate, size, on, off },
                _ => Pattern::Video { rate, fps, size },
            },
        )
    }

    proptest! {
        #[test]
        fn rates_hold(pattern in patterns(), count in 1usize..2000) {
            prop_assert_eq!(pattern.check(), Ok(()));
            let sent: Vec<_> = pattern.datagrams().take(count + 1).collect();
            prop_assert!(sent.is_sorted_by_key(|d| d.at));
            prop_assert_eq!(sent[0].at, Nanos::ZERO);
            let (next, sent) = sent.split_last().unwrap();
            let bytes: u64 = sent.iter().map(|d| d.size.0).sum();
            match pattern {
                // After n datagrams comes the next when they have had their time.
                Pattern::Constant { rate, .. } => {
                    prop_assert_eq!(next.at, rate.time_for(Bytes(bytes)));
                }
                Pattern::OnOff { on, off, .. } => {
                    let cycle = on.0 + off.0;
                    prop_assert!(sent.iter().all(|d| d.at.0 % cycle < on.0));
                }
                // What has begun by now is at most a frame more than the rate allows.
                Pattern::Video { rate, fps, .. } => {
                    let frame = rate.as_bps() / 8 / u64::from(fps) + 2;
                    prop_assert!(bytes <= rate.bytes_in(next.at).0 + frame);
                    prop_assert!(sent.iter().all(|d| d.size.0 > 0));
                    let until_last = rate.bytes_in(sent[sent.len() - 1].at).0;
                    prop_assert!(bytes + 2 >= until_last, "{} {}", bytes, until_last);
                }
            }
        }
    }
}
