//! Time in the kernel's functions, sampled by perf(1).
//!
//! The event is perf's software clock, which needs no counters of the processor. Code that runs
//! with interrupts off is sampled when they are on again, so the time of such functions appears
//! in those that switch interrupts on.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use forebay_lab::netns::exec;
use serde::{Deserialize, Serialize};

/// Samples a second and core: a prime number, so as not to meet timers always at the same place.
const FREQUENCY: u32 = 497;
/// The most functions that are kept.
const KEPT: usize = 400;

/// A function with its share of all processor time, idle time included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// The name of the symbol.
    pub name: String,
    /// The share of all samples.
    pub share: f64,
}

/// A recording that runs; ended when dropped.
pub struct Recording {
    child: Child,
    file: std::path::PathBuf,
}

impl Recording {
    /// Begins to sample all cores for `time` into the file `file`.
    ///
    /// # Errors
    /// A sentence that says why functions are not measured.
    pub fn begin(file: &Path, time: Duration) -> Result<Self, String> {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-a", "-e", "cpu-clock", "-F", &FREQUENCY.to_string(), "-o"]);
        command.arg(file).args(["--", "sleep", &format!("{:.1}", time.as_secs_f64())]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => Ok(Self { child, file: file.to_owned() }),
            Err(e) => Err(format!("perf cannot be started ({e}): install the package linux-perf")),
        }
    }

    /// Waits for the end of the recording and reads it.
    ///
    /// # Errors
    /// A sentence that says why functions are not measured.
    pub fn end(mut self) -> Result<Vec<Function>, String> {
        let status = self.child.wait().map_err(|e| format!("perf record: {e}"))?;
        if !status.success() {
            return Err("perf record failed: does `perf record -a -e cpu-clock` work?".to_owned());
        }
        let mut command = Command::new("perf");
        command.args(["report", "-q", "--stdio", "--no-children", "--sort", "sym", "-F"]);
        command.args(["overhead,sym", "-t", ";", "--percent-limit", "0", "-i"]).arg(&self.file);
        let text = exec::output(&mut command, "").map_err(|e| e.to_string())?;
        let functions = parse(&text);
        if functions.is_empty() {
            return Err("perf recorded no samples with kernel symbols".to_owned());
        }
        Ok(functions)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // An error means that it has ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Parses lines such as `12.34%;[k] tcp_ack`: kernel functions only, the
/// largest share first.
fn parse(text: &str) -> Vec<Function> {
    let mut functions: Vec<Function> = text
        .lines()
        .filter_map(|line| {
            let (share, symbol) = line.split_once(';')?;
            let share = share.trim().strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0;
            let name = symbol.trim().strip_prefix("[k]")?.trim().to_owned();
            Some(Function { name, share })
        })
        .collect();
    functions.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
    functions.truncate(KEPT);
    functions
}

/// The share of all functions that `wanted` accepts.
pub fn share(functions: &[Function], wanted: impl Fn(&str) -> bool) -> f64 {
    functions.iter().filter(|f| wanted(&f.name)).map(|f| f.share).sum()
}

/// Whether a function waits for or takes a spin lock. Enqueueing and dequeueing hold the lock of
/// the queueing discipline, the lock that the study found contended (thesis, section 5.4).
pub fn is_lock(name: &str) -> bool {
    name.contains("spin_lock") && !name.contains("unlock")
}

/// Whether a function enqueues a packet in a queueing discipline, such as `pfifo_enqueue`.
pub fn is_enqueue(name: &str) -> bool {
    name.ends_with("_enqueue") && !name.contains("task")
}

/// Whether a function takes a packet out of a queueing discipline.
pub fn is_dequeue(name: &str) -> bool {
    name.ends_with("_dequeue") || name.starts_with("qdisc_dequeue")
}

/// Whether it is part of finding the connection of a packet.
pub fn is_lookup(name: &str) -> bool {
    name.contains("inet_lookup") || name.contains("inet6_lookup")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_functions_are_read() {
        let text = "\n     1.25%;[k] pfifo_enqueue\n    12.50%;[k] tcp_ack\n     3.25%;[.] main\n\
            bad\n     x%;[k] y\n";
        let functions = parse(text);
        let named = |name: &str, share| Function { name: name.to_owned(), share };
        assert_eq!(functions, [named("tcp_ack", 0.125), named("pfifo_enqueue", 0.0125)]);
        assert_eq!(share(&functions, is_enqueue), 0.0125);
        assert_eq!(share(&functions, is_lock), 0.0);
    }

    #[test]
    fn functions_are_told_apart_by_their_names() {
        assert!(is_lock("native_queued_spin_lock_slowpath") && is_lock("_raw_spin_lock"));
        assert!(!is_lock("_raw_spin_unlock_bh"));
        assert!(is_enqueue("fq_enqueue") && is_enqueue("htb_enqueue"));
        assert!(!is_enqueue("enqueue_task_fair") && !is_enqueue("netif_rx"));
        assert!(is_dequeue("htb_dequeue") && is_lookup("__inet_lookup_established"));
        assert!(is_lookup("inet6_lookup_established"));
    }
}
