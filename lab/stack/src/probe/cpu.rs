//! Processor time from `/proc/stat`, and this process's own share of it.

use serde::{Deserialize, Serialize};

/// Counters of `/proc/stat` (proc_stat(5)): ticks by core, interrupts and softirqs since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCounters {
    cores: Vec<Ticks>,
    interrupts: u64,
    /// Softirqs of the types NET_TX and NET_RX.
    net_tx: u64,
    net_rx: u64,
}

/// Clock ticks of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
    idle: u64,
    irq: u64,
    softirq: u64,
    steal: u64,
}

/// The use of one core, or of all, in shares of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuShare {
    /// Time in programs.
    pub user: f64,
    /// The kernel on behalf of programs.
    pub system: f64,
    /// Time in interrupts.
    pub irq: f64,
    /// Softirqs: most of the network stack's receive path, and what it sends from there.
    pub softirq: f64,
    /// Time that a virtual machine's host gave to others.
    pub steal: f64,
    /// Time in which the processor had nothing to do.
    pub idle: f64,
}

impl CpuShare {
    /// The share that was not idle.
    pub fn busy(&self) -> f64 {
        1.0 - self.idle
    }
}

/// The use of the processors over an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// The mean over all cores.
    pub all: CpuShare,
    /// The use of each core.
    pub cores: Vec<CpuShare>,
    /// Interrupts of all kinds in a second.
    pub interrupts_per_s: f64,
    /// Softirqs for transmitting in a second.
    pub net_tx_per_s: f64,
    /// Softirqs for receiving in a second.
    pub net_rx_per_s: f64,
}

impl CpuCounters {
    /// Parses `/proc/stat`; `None` if it has no core.
    pub fn parse(text: &str) -> Option<Self> {
        let mut counters = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
            match name {
                "intr" => counters.interrupts = at(0),
                // The total, then HI, TIMER, NET_TX, NET_RX, ... (include/linux/interrupt.h).
                "softirq" => (counters.net_tx, counters.net_rx) = (at(3), at(4)),
                _ if name.len() > 3 && name.starts_with("cpu") => counters.cores.push(Ticks {
                    // The time of guests is contained in user and nice.
                    user: at(0) + at(1),
                    system: at(2),
                    idle: at(3) + at(4),
                    irq: at(5),
                    softirq: at(6),
                    steal: at(7),
                }),
                _ => {}
            }
        }
        (!counters.cores.is_empty()).then_some(counters)
    }

    /// The use between `before` and `self`, which is `seconds` later.
    pub fn since(&self, before: &Self, seconds: f64) -> CpuUse {
        let cores: Vec<Ticks> =
            self.cores.iter().zip(&before.cores).map(|(now, then)| now.since(*then)).collect();
        let all = cores.iter().fold(Ticks::default(), |sum, ticks| sum.plus(*ticks));
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds.max(1e-9);
        CpuUse {
            all: all.shares(),
            cores: cores.into_iter().map(Ticks::shares).collect(),
            interrupts_per_s: rate(self.interrupts, before.interrupts),
            net_tx_per_s: rate(self.net_tx, before.net_tx),
            net_rx_per_s: rate(self.net_rx, before.net_rx),
        }
    }

    /// Ticks of programs over all cores between `before` and `self`.
    pub fn user_ticks_since(&self, before: &Self) -> u64 {
        let user = |counters: &Self| counters.cores.iter().map(|core| core.user).sum::<u64>();
        user(self).saturating_sub(user(before))
    }

    /// All ticks of all cores between `before` and `self`.
    pub fn ticks_since(&self, before: &Self) -> u64 {
        let cores = self.cores.iter().zip(&before.cores);
        cores.map(|(now, then)| now.since(*then).total()).sum()
    }
}

impl Ticks {
    fn fields(self) -> [u64; 6] {
        [self.user, self.system, self.idle, self.irq, self.softirq, self.steal]
    }

    fn from_fields([user, system, idle, irq, softirq, steal]: [u64; 6]) -> Self {
        Self { user, system, idle, irq, softirq, steal }
    }

    /// The idle time can go back, since cores account for it late.
    fn since(self, before: Self) -> Self {
        let (now, then) = (self.fields(), before.fields());
        Self::from_fields(std::array::from_fn(|i| now[i].saturating_sub(then[i])))
    }

    fn plus(self, other: Self) -> Self {
        let (a, b) = (self.fields(), other.fields());
        Self::from_fields(std::array::from_fn(|i| a[i] + b[i]))
    }

    fn total(self) -> u64 {
        self.fields().iter().sum()
    }

    fn shares(self) -> CpuShare {
        let total = self.total();
        if total == 0 {
            return CpuShare { idle: 1.0, ..CpuShare::default() };
        }
        let [user, system, idle, irq, softirq, steal] =
            self.fields().map(|ticks| ticks as f64 / total as f64);
        CpuShare { user, system, irq, softirq, steal, idle }
    }
}

/// Ticks that a process spent in its program, from `/proc/PID/stat` (field 14); `None` if it has
/// another form.
pub fn own_user_ticks(stat: &str) -> Option<u64> {
    // The second field, the command in parentheses, may contain blanks and parentheses.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  300 0 100 600 0 0 0 0 0 0\n\
        cpu0 100 0 50 350 0 0 0 0 0 0\n\
        cpu1 200 0 50 250 0 0 0 0 0 0\n\
        intr 1000 5 6\nctxt 9\nsoftirq 500 1 2 30 40 5 6 7 8 9 10\n";
    const AFTER: &str = "cpu  350 0 160 640 10 0 40 0 0 0\n\
        cpu0 130 10 70 370 10 0 10 10 0 0\n\
        cpu1 210 0 90 260 0 10 30 0 0 0\n\
        intr 3000 5 6\nctxt 9\nsoftirq 900 1 2 50 240 5 6 7 8 9 10\n";

    #[test]
    fn shares_are_those_of_the_interval() {
        let parse = |text| CpuCounters::parse(text).unwrap();
        let usage = parse(AFTER).since(&parse(BEFORE), 2.0);
        // Core 0: 40 user, 20 system, 30 idle, 10 softirq, 10 steal of 110 ticks.
        let core = usage.cores[0];
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(core.user, 40.0 / 110.0) && near(core.steal, 10.0 / 110.0), "{core:?}");
        // Core 1: 10 user, 40 system, 10 idle, 10 irq, 30 softirq of 100 ticks. All: 210 ticks.
        assert!(near(usage.cores[1].busy(), 0.9) && near(usage.cores[1].irq, 0.1));
        assert!(near(usage.all.user, 50.0 / 210.0) && near(usage.all.softirq, 40.0 / 210.0));
        assert!(near(usage.all.idle, 40.0 / 210.0) && near(usage.all.system, 60.0 / 210.0));
        assert_eq!((usage.interrupts_per_s, usage.net_tx_per_s), (1000.0, 10.0));
        assert_eq!(usage.net_rx_per_s, 100.0);
        assert_eq!(parse(AFTER).user_ticks_since(&parse(BEFORE)), 50);
        assert_eq!(parse(AFTER).ticks_since(&parse(BEFORE)), 210);
    }

    #[test]
    fn an_interval_without_a_tick_is_idle() {
        let counters = CpuCounters::parse(BEFORE).unwrap();
        let usage = counters.since(&counters, 1.0);
        assert_eq!((usage.all.busy(), usage.interrupts_per_s), (0.0, 0.0));
        // Counters that go back, as idle does, count as none.
        let back = counters.since(&CpuCounters::parse(AFTER).unwrap(), 1.0);
        assert_eq!(back.all.idle, 1.0);
    }

    #[test]
    fn other_texts_have_no_counters() {
        for text in ["", "cpu  1 2 3 4", "intr 3\n"] {
            assert_eq!(CpuCounters::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_command_may_contain_parentheses() {
        let stat = "7 (a) (b)) S 1 2 3 4 5 6 7 8 9 10 123 45 0 0";
        assert_eq!(own_user_ticks(stat), Some(123));
        assert_eq!(own_user_ticks("7 (a) S 1"), None);
    }
}
