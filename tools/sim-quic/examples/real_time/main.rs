//! Compares downloads by quinn-proto in simulated time with the same ones over the kernel's UDP and
//! the network of `forebay lab interop`, in real time. It needs root, for network namespaces.
//!
//! `cargo run -p forebay-sim-quic --example real_time -- FOREBAY WHAT [RUNS [MBPS]]`, with the
//! path of the program `forebay`. WHAT is one of:
//!
//! - `times`: how long 1, 100 and 10 000 kB take over 10 Mbit/s and 40 ms.
//! - `rates`: the rate of the link and the wait in its queue at 10, 100 and 1000 Mbit/s.
//! - `link`: the same of full datagrams at 1.05 times the rate, without QUIC.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

mod network;
mod overload;
mod record;

use std::io::{Write, stdout};

use forebay_test_support::is_root;
use forebay_units::{Nanos, Rate};

use network::{Path, Setup};
use record::Download;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(values: &[f64]) -> (f64, f64) {
    let pick = |by: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, by);
    (pick(f64::min, f64::INFINITY), pick(f64::max, f64::NEG_INFINITY))
}

/// Prints a figure of the simulation and of the runs in real time, with the ratio or difference.
fn line(what: &str, simulated: f64, real: &[f64], unit: &str) {
    let middle = median(real.to_vec());
    let (least, most) = spread(real);
    println!(
        "  {what}: {simulated:.3} {unit} simulated; {middle:.3} real, median of {} ({least:.3} to \
         {most:.3}); ratio {:.3}, difference {:+.3} {unit}",
        real.len(),
        middle / simulated,
        middle - simulated
    );
    let _ = stdout().flush();
}

fn times(forebay: &str, runs: usize) {
    let path = Path {
        rate: Rate::from_mbps(10),
        delay: Nanos::from_millis(20),
        packets: 100,
        policy: "fifo",
    };
    for policy in ["fifo", "fq_codel"] {
        let path = Path { policy, ..path };
        println!("10 Mbit/s, 40 ms, {policy} of {} packets", path.packets);
        for kilobytes in [1, 100, 10_000] {
            let simulated = path.simulate(kilobytes * 1000);
            let setup = Setup::new(forebay, &path);
            let real: Vec<_> = (0..runs).map(|_| setup.measure(&path, kilobytes * 1000)).collect();
            let real: Vec<_> = real.iter().map(Download::seconds).collect();
            line(&format!("{kilobytes} kB"), simulated.seconds(), &real, "s");
        }
    }
}

/// Prints how much later datagrams arrived than over an ideal link.
fn late(download: &Download, path: &Path) {
    let late = download.late_ms(path);
    let share = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
    println!(
        "  later than over an ideal link: mean {:+.3} ms, median {:+.3}, 99 % {:+.3}, last {:+.3}",
        late.iter().sum::<f64>() / late.len() as f64,
        share(0.5),
        share(0.99),
        share(1.0)
    );
}

fn link(forebay: &str, runs: usize, only: Option<u64>) {
    for (mbps, packets) in [(10, 50), (100, 500), (1000, 5000)] {
        if only.is_some_and(|only| only != mbps) {
            continue;
        }
        let (rate, delay) = (Rate::from_mbps(mbps), Nanos::from_millis(15));
        let path = Path { rate, delay, packets, policy: "fifo" };
        let setup = Setup::new(forebay, &path);
        println!("{mbps} Mbit/s, {delay}, fifo of {packets}, full datagrams");
        for _ in 0..runs {
            let run = setup.overload(&path, rate.scaled(1.05), Nanos::from_secs(8));
            println!(
                "  {:.3} Mbit/s received, wait {:.3} ms (median), {} of {} lost",
                run.mbps(),
                run.wait_ms(&path, Some(0.5)),
                run.lost(),
                run.sent.len()
            );
            late(&run, &path);
        }
    }
}

fn rates(forebay: &str, runs: usize, only: Option<u64>) {
    // About two bandwidth-delay products of packets. The sizes take 4 to 8 s. At 1000 Mbit/s the
    // queue marks instead of dropping: quinn-proto refuses a stream with more than 1024 gaps, and
    // the end of slow start loses more in a FIFO.
    let paths = [
        (10, 50, "fifo", 10),
        (100, 500, "fifo", 80),
        (10, 50, "fq_codel", 10),
        (100, 500, "fq_codel", 80),
        (1000, 5000, "fq_codel", 500),
    ];
    for (mbps, packets, policy, megabytes) in paths {
        if only.is_some_and(|only| only != mbps) {
            continue;
        }
        let (rate, delay) = (Rate::from_mbps(mbps), Nanos::from_millis(15));
        let path = Path { rate, delay, packets, policy };
        println!("{mbps} Mbit/s, {} round trip, {policy} of {packets}, {megabytes} MB", delay * 2);
        let simulated = path.simulate(megabytes * 1_000_000);
        let setup = Setup::new(forebay, &path);
        let real: Vec<_> = (0..runs).map(|_| setup.measure(&path, megabytes * 1_000_000)).collect();
        let figure = |what: &str, unit: &str, of: &dyn Fn(&Download) -> f64| {
            line(what, of(&simulated), &real.iter().map(of).collect::<Vec<_>>(), unit);
        };
        figure("frames received", "Mbit/s", &Download::mbps);
        figure("goodput", "Mbit/s", &Download::goodput_mbps);
        figure("mean wait", "ms", &|d| d.wait_ms(&path, None));
        figure("median wait", "ms", &|d| d.wait_ms(&path, Some(0.5)));
        figure("largest wait but 1 %", "ms", &|d| d.wait_ms(&path, Some(0.99)));
        for download in &real {
            late(download, &path);
        }
        figure("lost", "datagrams", &|d| d.lost() as f64);
    }
}

fn main() {
    if !is_root() {
        return eprintln!("network namespaces need root");
    }
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let runs = arguments.get(2).map_or(3, |runs| runs.parse().unwrap());
    let only = arguments.get(3).map(|mbps| mbps.parse().unwrap());
    match arguments.get(..2) {
        Some([forebay, what]) if what == "times" => times(forebay, runs),
        Some([forebay, what]) if what == "rates" => rates(forebay, runs, only),
        Some([forebay, what]) if what == "link" => link(forebay, runs, only),
        _ => eprintln!("give the path of `forebay`, and `times`, `rates` or `link`"),
    }
}
