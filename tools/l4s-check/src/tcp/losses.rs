//! Which segments of a direction were lost.

use forebay_units::Nanos;

use super::half::Data;

/// Returns when lost segments passed, in ascending order. Behind the place where a segment is lost,
/// it is the time of the first one after it.
///
/// A segment that arrives late by less than half a `round_trip` was overtaken, and not lost.
pub(super) fn losses(data: &[Data], round_trip: Nanos) -> Vec<Nanos> {
    // New segments have ascending numbers.
    let (mut new, mut losses): (Vec<&Data>, Vec<Nanos>) = (Vec::new(), Vec::new());
    for segment in data {
        if segment.is_new {
            new.push(segment);
            continue;
        }
        let after = new.partition_point(|sent| sent.seq <= segment.seq);
        let has_it = |sent: &&&Data| sent.seq + i64::from(sent.len) > segment.seq;
        let before = after.checked_sub(1).and_then(|n| new.get(n)).filter(has_it);
        if let Some(lost) = before.or_else(|| new.get(after))
            && segment.at.saturating_sub(lost.at) >= round_trip / 2
        {
            losses.push(lost.at);
        }
    }
    losses.sort_unstable();
    losses
}

#[cfg(test)]
mod tests {
    use forebay_queue::Ecn;

    use super::*;

    fn segment(at_ms: u64, seq: i64, is_new: bool) -> Data {
        let (at, ecn) = (Nanos::from_millis(at_ms), Ecn::Ect1);
        Data { at, seq, len: 1_000, ecn, clock: None, is_new }
    }

    #[test]
    fn lost_segments_are_told_from_overtaken_ones() {
        let round_trip = Nanos::from_millis(20);
        let sent = |n: u64| segment(n, n as i64 * 1_000, true);
        let mut data: Vec<_> = (0..30).map(sent).collect();
        data.push(segment(30, 7_000, false));
        // At the sender it passed at 7 ms.
        assert_eq!(losses(&data, round_trip), [Nanos::from_millis(7)]);
        // Behind the loss, the next segment passed at 8 ms.
        data.remove(7);
        assert_eq!(losses(&data, round_trip), [Nanos::from_millis(8)]);
        let last = data.len() - 1;
        data[last].at = Nanos::from_millis(17);
        assert!(losses(&data, round_trip).is_empty());
        // Nothing after it was seen.
        assert!(losses(&[segment(5, 0, false)], round_trip).is_empty());
    }
}
