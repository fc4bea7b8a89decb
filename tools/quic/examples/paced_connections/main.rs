//! A benchmark of a QUIC server that sends to thousands of clients at a rate each.
//!
//! The arm `engine` has `PacedSocket`: the server writes as much as it may, and the egress engine
//! paces each connection. The arm `quinn` has quinn's own socket, and the server writes a packet's
//! worth of data when a timer of the connection says so. Both send the same packets at the same
//! rate.
//!
//! `cargo run --release -p forebay-quic --example paced_connections -- --help`
//!
//! Server and clients are one process and use loopback. Ctrl-C ends the process and leaves nothing
//! behind.

mod load;
#[path = "../many_connections/measure.rs"]
#[allow(dead_code, reason = "this benchmark needs a part of it")]
mod measure;
mod recorder;

use std::time::Duration;

use clap::Parser;
use forebay_units::{Nanos, Rate};

use load::{Arm, Load, Seen};
use measure::{load_average, percentile};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug, Parser)]
struct Options {
    /// Number of connections
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// Packets of a connection in a second
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    packets: u32,
    /// The arms, each run in turn (engine, quinn)
    #[arg(long, value_delimiter = ',', default_value = "engine,quinn")]
    arms: Vec<String>,
    /// The granularity of the engine's pacing in microseconds
    #[arg(long, default_value_t = 65, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    granularity: u64,
    /// Transmits of a connection that wait in the engine's socket
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    waiting: u8,
    /// Seconds of measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seconds from the start of all transfers to the start of measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3600))]
    warmup: u64,
    /// Number of sockets that the clients' connections share
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    sockets: u32,
    /// Number of runs of each arm
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
}

fn main() -> Result<(), Error> {
    let options = Options::parse();
    let arms = options.arms.iter().map(|name| match name.as_str() {
        "engine" => Ok(Arm::Engine),
        "quinn" => Ok(Arm::Quinn),
        other => Err(format!("arm {other}: engine or quinn")),
    });
    let arms: Vec<Arm> = arms.collect::<Result<_, _>>()?;
    let load = Load {
        connections: options.connections,
        rate: Rate::from_bps(u64::from(options.packets) * load::PACKET as u64 * 8),
        granularity: Nanos::from_micros(options.granularity),
        waiting: options.waiting,
        sockets: options.sockets,
        warmup: Duration::from_secs(options.warmup),
        window: Duration::from_secs(options.seconds),
    };
    println!(
        "{} connections, {} packets of {} B in a second each, over {} s; load {:.2}\n\
         packets/s, Mbit/s: of the server, full packets; cpu: seconds of the server's threads for a \
         million packets,\n\
         and of them the thread that sends; p50, p90, p99: error of the interval between two full \
         packets of a connection, ms\n\
         run arm    packets/s Mbit/s    cpu sender    p50    p90    p99 lost connecting load",
        options.connections,
        options.packets,
        load::PACKET,
        options.seconds,
        load_average()
    );
    for run in 1..=options.runs {
        for &arm in &arms {
            println!("{run:>3} {}", row(arm, &load::run(&load, arm)?));
        }
    }
    Ok(())
}

fn row(arm: Arm, seen: &Seen) -> String {
    let Seen { seconds, packets, bytes, errors, cpu, sender_cpu, .. } = seen;
    let millions = *packets as f64 / 1e6;
    let at = |share| percentile(errors, share).map_or(f64::NAN, |error| error * 1e3);
    format!(
        "{:<6} {:>9.0} {:>6.1} {:>6.2} {:>6.2} {:>6.2} {:>6.2} {:>6.1} {:>4} {:>9.1}s {:>4.1}",
        arm.name(),
        *packets as f64 / seconds,
        *bytes as f64 * 8.0 / 1e6 / seconds,
        cpu / millions,
        sender_cpu / millions,
        at(0.5),
        at(0.9),
        at(0.99),
        seen.failed,
        seen.connecting.as_secs_f64(),
        load_average()
    )
}
