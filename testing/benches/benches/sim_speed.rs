//! The speed of the simulator in packet-hops per second on one core, and its memory.
//!
//! Each network runs in a separate process. A hop is a link, a sendbox or a receivebox that a
//! packet enters. `cargo bench -p forebay-benches --bench sim_speed` runs all networks. With
//! `-- NAME` it runs those whose names contain NAME, and with a number after that it runs them that
//! many times as long.

use std::process::Command;

use forebay_benches::networks::{CASES, LENGTH};

/// The argument that tells a process to run the case whose number follows.
const ONE: &str = "--one";

/// Returns the CPU time of this thread in nanoseconds, which excludes other work on the machine. It
/// is zero if the kernel does not report it; the printed rates are then not valid.
fn on_processor() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Returns the peak memory of this process in MiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn run(case: usize, times: u64) {
    let (name, build) = CASES[case];
    let start = on_processor();
    let mut sim = build();
    let built = on_processor();
    sim.run_until(LENGTH * times);
    let took = (on_processor() - built) as f64 / 1e9;
    let totals = sim.totals();
    println!(
        "{name}: {:.2} M hops/s, {:.2} M events/s, {} MiB; {:.3} s after {:.3} s of setup, {} hops",
        totals.hops as f64 / took / 1e6,
        totals.events as f64 / took / 1e6,
        peak_memory(),
        took,
        (built - start) as f64 / 1e9,
        totals.hops,
    );
}

fn main() -> std::io::Result<()> {
    // Arguments of Cargo are not names.
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let [one, case, times] = &args[..]
        && one == ONE
    {
        run(case.parse().unwrap_or(0), times.parse().unwrap_or(1));
        return Ok(());
    }
    let mut words = args.iter().filter(|a| !a.starts_with('-'));
    let part = words.next().map_or("", |a| a);
    let times = words.next().map_or("1", |a| a);
    for (case, _) in CASES.iter().enumerate().filter(|(_, (name, _))| name.contains(part)) {
        let this = std::env::current_exe()?;
        Command::new(this).args([ONE, &case.to_string(), times]).status()?;
    }
    Ok(())
}
