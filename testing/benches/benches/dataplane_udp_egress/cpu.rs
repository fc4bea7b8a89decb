//! CPU time of threads and of the machine.

use std::fs;
use std::mem::zeroed;
use std::ops::Sub;

/// Returns the CPU seconds of this thread: user and system.
pub(crate) fn of_thread() -> [f64; 2] {
    // SAFETY: the structure consists of integers; the kernel writes it.
    let usage = unsafe {
        let mut usage: libc::rusage = zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage
    };
    [usage.ru_utime, usage.ru_stime].map(|t| t.tv_sec as f64 + t.tv_usec as f64 / 1e6)
}

/// CPU seconds of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) softirq: f64,
    /// All but idle time and time given to other machines.
    pub(crate) busy: f64,
}

impl Cpu {
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let numbers = stat.lines().next().unwrap().split_whitespace().skip(1);
        // The columns are user nice system idle iowait irq softirq steal, in hundredths of a second
        // (`proc(5)`).
        let n: Vec<f64> = numbers.map(|n| n.parse::<f64>().unwrap() / 100.0).collect();
        Self { softirq: n[6], busy: n[0] + n[1] + n[2] + n[5] + n[6] }
    }
}

impl Sub for Cpu {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { softirq: self.softirq - before.softirq, busy: self.busy - before.busy }
    }
}
