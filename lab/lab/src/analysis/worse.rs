//! Goodput over time, and the time for which it is worse than in another run.

use forebay_units::Nanos;

use crate::results::Run;

/// The length of a compared span: long enough for a sawtooth of TCP, and several of the recorded
/// 100 ms.
const SPAN: Nanos = Nanos::from_millis(400);
/// The share of another run's goodput that counts as equal: two runs of TCP differ by this much at
/// random.
const AS_GOOD: f64 = 0.85;

/// The bytes that all receivers of a run read, by span of the measured time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intake(Vec<u64>);

impl Intake {
    /// Counts the bytes of `run`. The rest of the measured time after the last whole span does not
    /// count.
    pub fn of(run: &Run) -> Self {
        let mut spans = vec![0_u64; (run.duration().0 / SPAN.0) as usize];
        for progress in &run.progress {
            // An interval that ends at a border belongs before it.
            let since = progress.time.checked_sub(run.start.0 + 1);
            if let Some(bytes) = since.and_then(|since| spans.get_mut((since / SPAN.0) as usize)) {
                *bytes = bytes.saturating_add(progress.bytes);
            }
        }
        Self(spans)
    }

    /// The longest uninterrupted time for which this run's goodput is below 85 % of `other`'s, in
    /// spans of 0.4 s.
    pub fn worse_for(&self, other: &Self) -> Nanos {
        let worse = |(&own, &other): (&u64, &u64)| (own as f64) < AS_GOOD * other as f64;
        let spans: Vec<bool> = self.0.iter().zip(&other.0).map(worse).collect();
        let longest = spans.split(|worse| !worse).map(<[bool]>::len).max().unwrap_or(0);
        SPAN * longest as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Progress;

    #[test]
    fn what_was_read_counts_in_its_span() {
        let read = |at_ms: u64, bytes| Progress {
            traffic: "bulk".to_owned(),
            flow: 0,
            time: Nanos::from_millis(at_ms).0,
            bytes,
        };
        let run = Run {
            start: Nanos::from_secs(1),
            end: Nanos::from_millis(1_900),
            progress: [(1_000, 1), (1_100, 2), (1_400, 4), (1_500, 8), (1_900, 16)]
                .map(|(at, bytes)| read(at, bytes))
                .to_vec(),
            ..Run::default()
        };
        assert_eq!(Intake::of(&run), Intake(vec![6, 8]));
    }

    #[test]
    fn the_longest_stretch_of_worse_spans_counts() {
        let other = Intake(vec![100; 8]);
        let worse_for = |own: [u64; 8]| Intake(own.to_vec()).worse_for(&other).as_millis_f64();
        assert_eq!(worse_for([100; 8]), 0.0);
        assert_eq!(worse_for([85; 8]), 0.0, "as good");
        assert_eq!(worse_for([84, 100, 84, 84, 0, 300, 84, 84]), 1_200.0, "no span makes up");
        assert_eq!(worse_for([0; 8]), 3_200.0);
        assert_eq!(Intake(vec![0]).worse_for(&Intake(vec![0])), Nanos::ZERO, "nothing to get");
    }
}
