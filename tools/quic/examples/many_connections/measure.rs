//! Measurements of the system: processor time by thread, datagrams dropped by the kernel, load.

use std::collections::BTreeMap;
use std::fs;

/// Returns this process's processor time so far in seconds, by thread name.
pub(crate) fn cpu() -> BTreeMap<String, f64> {
    // The unit is a hundredth of a second, independent of the kernel's clock (proc_pid_stat(5),
    // USER_HZ).
    const TICKS: f64 = 100.0;
    let mut seconds = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(task.path().join("stat")) else { continue };
        let (Some(open), Some(close)) = (text.find('('), text.rfind(')')) else { continue };
        // utime and stime are fields 14 and 15, and the text after the name begins with the third.
        let fields = text[close + 1..].split_ascii_whitespace().skip(11).take(2);
        let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
        *seconds.entry(text[open + 1..close].to_owned()).or_default() += ticks / TICKS;
    }
    seconds
}

/// Returns the number of datagrams in this network namespace that did not fit into a socket's
/// buffer.
pub(crate) fn receive_buffer_errors() -> u64 {
    let v4 = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut udp = v4.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (udp.next().unwrap_or_default(), udp.next().unwrap_or_default());
    let v4 = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "RcvbufErrors");
    let v6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
    let v6 = v6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors"));
    [v4.map(|(_, value)| value), v6.map(str::trim)]
        .into_iter()
        .flatten()
        .filter_map(|value| value.parse::<u64>().ok())
        .sum()
}

/// Returns the load average of the last minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// Returns the smallest value of `sorted` that at most a `share` of the values exceed.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// Returns Jain's index of fairness (Jain, Chiu and Hawe, DEC-TR-301, 1984): 1 if all shares are
/// equal, 1/n if one has everything.
pub(crate) fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    sum * sum / (shares.len() as f64 * squares)
}
