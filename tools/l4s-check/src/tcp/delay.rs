//! One-way delays, by the clocks that the timestamps option carries.

use std::collections::BTreeMap;

use forebay_units::Nanos;

/// The units of clocks in the timestamps option that are known, in nanoseconds: those of Linux and
/// FreeBSD. Coarser ones do not show a queue.
const UNITS: [f64; 3] = [1e6, 1e3, 4e6];
/// The deviation from a unit that delays may cause at the beginning and the end.
const DEVIATION: f64 = 0.05;
/// The least time and the least number of units to find the unit from.
const LEAST_TIME: f64 = 2e8;
const LEAST_UNITS: f64 = 20.0;
/// The least delay is looked for within this time before and after, since clocks drift.
const WINDOW: u64 = 10_000_000_000;

/// The time at the place of the capture and the other clock for a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) at: Nanos,
    pub(super) clock: u32,
    /// Whether the clock was read after the packet passed the capture.
    pub(super) is_after: bool,
}

/// Returns how much longer than the least delay each packet took; `None` if the clock's unit cannot
/// be told.
pub(super) fn excess(readings: &[Reading]) -> Option<Vec<Nanos>> {
    let (first, last) = (readings.first()?, readings.last()?);
    let mut clock = i64::from(first.clock);
    let clocks: Vec<i64> = readings
        .iter()
        .map(|r| {
            clock += i64::from(r.clock.wrapping_sub(clock as u32) as i32);
            clock
        })
        .collect();
    let time = last.at.saturating_sub(first.at).0 as f64;
    let units = (clocks.last()? - clocks[0]) as f64;
    if time < LEAST_TIME || units < LEAST_UNITS {
        return None;
    }
    let of = time / units;
    let unit = UNITS.into_iter().find(|unit| (of / unit - 1.0).abs() < DEVIATION)?;
    let differences: Vec<(u64, i64)> = readings
        .iter()
        .zip(&clocks)
        .map(|(r, clock)| {
            let here = r.at.saturating_sub(first.at).0;
            let there = ((clock - clocks[0]) as f64 * unit) as i64;
            let longer = i64::try_from(here).unwrap_or(i64::MAX).saturating_sub(there);
            (here, if r.is_after { longer.saturating_neg() } else { longer })
        })
        .collect();
    Some(above_least(&differences))
}

/// Returns how far each value is above the least one of its time. The values have times in
/// nanoseconds.
pub(super) fn above_least(values: &[(u64, i64)]) -> Vec<Nanos> {
    let mut least: BTreeMap<u64, i64> = BTreeMap::new();
    for &(at, value) in values {
        least.entry(at / WINDOW).and_modify(|l| *l = value.min(*l)).or_insert(value);
    }
    let base = |window: u64| {
        let near = least.range(window.saturating_sub(1)..=window + 1);
        near.map(|l| *l.1).min().unwrap_or(0)
    };
    let mut known = (u64::MAX, 0);
    values
        .iter()
        .map(|&(at, value)| {
            let window = at / WINDOW;
            if window != known.0 {
                known = (window, base(window));
            }
            Nanos(u64::try_from(value.saturating_sub(known.1)).unwrap_or(0))
        })
        .collect()
}

/// Returns the quantile `q` of `delays`; `None` if there are none.
pub(super) fn quantile(delays: &mut [Nanos], q: f64) -> Option<Nanos> {
    let last = delays.len().checked_sub(1)?;
    let at = (last as f64 * q).round() as usize;
    Some(*delays.select_nth_unstable(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet every 10 ms, whose delay grows by `queue` in the second half.
    fn readings(unit: u64, queue: u64, is_after: bool) -> Vec<Reading> {
        let packet = |n: u64| {
            let queue = if n >= 200 { queue } else { 0 };
            let sent = 5_000_000_000 + n * 10_000_000;
            let (here, there) = if is_after { (sent, sent + queue) } else { (sent + queue, sent) };
            let clock = (u64::from(u32::MAX) - 1_000 + there / unit) as u32;
            Reading { at: Nanos(here), clock, is_after }
        };
        (0..400).map(packet).collect()
    }

    #[test]
    fn a_queue_shows_in_the_clocks_of_both_ends() {
        for is_after in [false, true] {
            for unit in [1_000_000, 1_000, 4_000_000] {
                let delays = excess(&readings(unit, 12_000_000, is_after)).unwrap();
                assert!(delays[..200].iter().all(|d| d.0 <= unit), "{unit}");
                let longer = |d: &Nanos| d.0.abs_diff(12_000_000) <= unit;
                assert!(delays[200..].iter().all(longer), "{unit}");
            }
        }
        assert!(excess(&readings(10_000_000, 0, false)).is_none(), "too coarse");
        assert!(excess(&readings(1_000_000, 0, false)[..15]).is_none(), "too short");
    }

    #[test]
    fn quantiles_are_of_the_sorted_delays() {
        let mut delays: Vec<_> = [5, 1, 4, 2, 3].map(Nanos).into();
        let found = [0.0, 0.5, 1.0].map(|q| quantile(&mut delays, q).unwrap().0);
        assert_eq!(found, [1, 3, 5]);
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
