//! CPU time of processes and of the machine.

use std::fs;
use std::time::Instant;

/// CPU time used up to a moment, or between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    at: Instant,
    /// Seconds between the two moments.
    pub(crate) elapsed: f64,
    /// CPU seconds of this program.
    own: f64,
    /// CPU seconds of the box.
    pub(crate) daemon: f64,
    /// CPU seconds of the kernel's `ksoftirqd` threads.
    softirq: f64,
    /// Number of CPUs that were not idle, on average between two moments.
    pub(crate) busy: f64,
    /// Seconds that CPUs were idle or given to other machines, all CPUs together.
    idle: f64,
}

impl Cpu {
    pub(crate) fn now(daemon: Option<u32>) -> Self {
        Self {
            at: Instant::now(),
            elapsed: 0.0,
            own: of_process(std::process::id()),
            daemon: daemon.map_or(0.0, of_process),
            softirq: softirq_threads().into_iter().map(of_process).sum(),
            busy: 0.0,
            idle: idle(),
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        let elapsed = self.at.duration_since(before.at).as_secs_f64();
        Self {
            at: self.at,
            elapsed,
            own: self.own - before.own,
            daemon: self.daemon - before.daemon,
            softirq: self.softirq - before.softirq,
            busy: cpus() - (self.idle - before.idle) / elapsed,
            idle: self.idle - before.idle,
        }
    }

    /// CPU seconds of everything that takes part.
    pub(crate) fn ours(&self) -> f64 {
        self.own + self.daemon + self.softirq
    }
}

/// CPU seconds of all threads of a process, which the kernel counts in nanoseconds. Ended threads
/// are not included, so no working thread may end during a measurement.
fn of_process(pid: u32) -> f64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0.0 };
    let of_task = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    tasks.filter_map(Result::ok).filter_map(of_task).sum::<f64>() / 1e9
}

fn softirq_threads() -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = all.filter_map(|e| e.file_name().to_str().and_then(|n| n.parse::<u32>().ok()));
    let is_one = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("ksoftirqd/")
    };
    pids.filter(is_one).collect()
}

/// Seconds idle, waiting for disks, or stolen by other machines (`proc(5)`), all CPUs together.
fn idle() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let numbers = stat.lines().next().unwrap().split_whitespace().skip(1);
    let numbers: Vec<f64> = numbers.map(|n| n.parse().unwrap()).collect();
    // The columns are user nice system idle iowait irq softirq steal, in hundredths of a second.
    (numbers[3] + numbers[4] + numbers[7]) / 100.0
}

fn cpus() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count() as f64
}
