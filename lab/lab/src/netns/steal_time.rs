//! Steal time: processor time that the host of a virtual machine gives to others. A measurement in
//! real time on such a machine also measures its host.

use std::fs;

/// Processor time since the boot of the machine, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Processors {
    all: u64,
    stolen: u64,
}

/// The share of steal time above which a warning is logged.
const NOTEWORTHY: f64 = 0.01;

impl Processors {
    /// Reads the current values; `None` if the kernel does not provide them.
    pub(super) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses proc_stat(5): user, nice, system, idle, iowait, irq, softirq and steal. The time of
    /// guests follows and is contained in the first two.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> = line.split_whitespace().map(|n| n.parse().ok()).collect();
        let ticks = ticks?;
        Some(Self { all: ticks.get(..8)?.iter().sum(), stolen: ticks[7] })
    }

    /// The share of steal time between `self` and `now`.
    fn stolen_until(self, now: Self) -> f64 {
        let all = now.all.saturating_sub(self.all);
        now.stolen.saturating_sub(self.stolen) as f64 / all.max(1) as f64
    }

    /// Logs a warning if the share of steal time since `self` is high.
    pub(super) fn warn(self) {
        let share = Self::now().map_or(0.0, |now| self.stolen_until(now));
        if share > NOTEWORTHY {
            let percent = 100.0 * share;
            tracing::warn!(
                "{percent:.1} % of this machine's processor time was steal time of its host, which \
                 distorts the measurement"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let parse = |line: &str| Processors::parse(&format!("{line}\ncpu0 1 2 3\nintr 5\n"));
        let before = parse("cpu  180258 64814 85380 343199 1512 0 55044 20133 0 0").unwrap();
        assert_eq!(before, Processors { all: 750_340, stolen: 20_133 });
        let now = parse("cpu  180358 64814 85380 343269 1512 0 55044 20163 40 0").unwrap();
        assert_eq!(before.stolen_until(now), 0.15);
        assert_eq!(before.stolen_until(before), 0.0);
    }

    #[test]
    fn unknown_formats_give_no_value() {
        for text in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(Processors::parse(text), None, "{text}");
        }
    }
}
