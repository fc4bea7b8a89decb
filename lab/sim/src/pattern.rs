//! Patterns of datagrams: when a source sends and how large the datagrams are.
//!
//! The patterns are pure arithmetic, so the simulator and real programs send at the same times.
//! Each time is calculated from a count, not from the time before, so that rounding does not
//! accumulate.

use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

/// The largest payload of a datagram in one IPv4 packet.
const MAX_PAYLOAD: Bytes = Bytes(65_507);
/// The largest number of video frames per second, more than screens show.
const MAX_FRAMES: u32 = 1_000;

/// An infinite pattern of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Datagrams at a constant rate.
    Constant {
        /// The rate of UDP payload.
        rate: Rate,
        /// The UDP payload of each datagram.
        size: Bytes,
    },
    /// Datagrams at a constant rate with pauses.
    OnOff {
        /// The rate of UDP payload during the on time.
        rate: Rate,
        /// The UDP payload of each datagram.
        size: Bytes,
        /// The time during which it sends.
        on: Nanos,
        /// The time during which it pauses.
        off: Nanos,
    },
    /// Video frames at a constant frame rate, each sent as a burst of datagrams: an application
    /// that limits its own rate.
    Video {
        /// The mean rate of UDP payload.
        rate: Rate,
        /// The number of frames per second.
        fps: u32,
        /// The UDP payload of each datagram; the last one of a frame has the rest.
        size: Bytes,
    },
}

/// The reason why a pattern is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The rate is zero.
    #[error("traffic needs a rate above zero")]
    Rate,
    /// The size of a datagram is out of range.
    #[error("datagrams carry 1 to 65507 bytes")]
    Size,
    /// The on time or the off time is zero.
    #[error(
        "on-off traffic needs an on time and an off time above zero; without an off time it is `cbr`"
    )]
    OnOff,
    /// The frame rate is out of range, or a frame is empty.
    #[error("video has 1 to 1000 frames a second, and at least a byte in each")]
    Frames,
}

/// A datagram of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The time at which it is sent, from the start of the pattern; [`Nanos::MAX`] means never.
    pub at: Nanos,
    /// The UDP payload.
    pub size: Bytes,
}

impl Pattern {
    /// Checks that the pattern is possible.
    ///
    /// # Errors
    /// Returns the reason if it is not.
    pub fn check(&self) -> Result<(), PatternError> {
        let (Self::Constant { rate, size }
        | Self::OnOff { rate, size, .. }
        | Self::Video { rate, size, .. }) = *self;
        if rate == Rate::ZERO {
            return Err(PatternError::Rate);
        }
        if size == Bytes::ZERO || size > MAX_PAYLOAD {
            return Err(PatternError::Size);
        }
        match *self {
            Self::OnOff { on, off, .. } if on.min(off) == Nanos::ZERO => Err(PatternError::OnOff),
            Self::Video { rate, fps, .. }
                if !(1..=MAX_FRAMES).contains(&fps) || rate.as_bps() < 8 * u64::from(fps) =>
            {
                Err(PatternError::Frames)
            }
            _ => Ok(()),
        }
    }

    /// Returns the datagrams in order. The pattern must pass [`Pattern::check`].
    pub fn datagrams(self) -> Datagrams {
        Datagrams { pattern: self, number: 0, left: Bytes::ZERO }
    }
}

/// An infinite iterator over the datagrams of a pattern.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams {
    pattern: Pattern,
    /// The number of the next datagram, or of the next video frame.
    number: u64,
    /// The bytes of the current frame that are left to send.
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
                // The datagrams sent from the beginning of the on time until before its end.
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

/// Returns the bytes of the first `number` frames.
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
    fn on_off_traffic_pauses() {
        // A datagram per millisecond for 2.5 ms, then a pause of 7.5 ms.
        let rate = Rate::from_mbps(8);
        let (on, off) = (Nanos(2_500_000), Nanos(7_500_000));
        let pattern = Pattern::OnOff { rate, size: Bytes(1000), on, off };
        let expected = [0, 1_000_000, 2_000_000, 10_000_000, 11_000_000].map(|t| (t, 1000));
        assert_eq!(times(pattern, 5), expected);
        // A datagram due exactly at the end of the on time is not sent.
        let pattern = Pattern::OnOff { rate, size: Bytes(1000), on: Nanos(2_000_000), off };
        assert_eq!(times(pattern, 3)[2], (9_500_000, 1000));
    }

    #[test]
    fn video_frames_are_bursts() {
        // 3125 bytes per frame, 30 frames per second.
        let pattern = Pattern::Video { rate: Rate::from_bps(750_000), fps: 30, size: Bytes(1400) };
        let third = 33_333_333;
        let expected = [(0, 1400), (0, 1400), (0, 325), (third, 1400), (third, 1400), (third, 325)];
        assert_eq!(times(pattern, 6), expected);
    }

    #[test]
    fn impossible_patterns_are_refused() {
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
        fn datagrams_keep_the_rate(pattern in patterns(), count in 1usize..2000) {
            prop_assert_eq!(pattern.check(), Ok(()));
            let sent: Vec<_> = pattern.datagrams().take(count + 1).collect();
            prop_assert!(sent.is_sorted_by_key(|d| d.at));
            prop_assert_eq!(sent[0].at, Nanos::ZERO);
            let (next, sent) = sent.split_last().unwrap();
            let bytes: u64 = sent.iter().map(|d| d.size.0).sum();
            match pattern {
                // The next datagram comes when those before have taken their time at the rate.
                Pattern::Constant { rate, .. } => {
                    prop_assert_eq!(next.at, rate.time_for(Bytes(bytes)));
                }
                Pattern::OnOff { on, off, .. } => {
                    let cycle = on.0 + off.0;
                    prop_assert!(sent.iter().all(|d| d.at.0 % cycle < on.0));
                }
                // The frames sent up to now exceed the rate by at most one frame.
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
