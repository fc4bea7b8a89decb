//! A benchmark of a QUIC server with thousands of downloads through a shaped buffer on its own
//! host.
//!
//! It compares dropping packets when the buffer is full with backpressure.
//!
//! `cargo run --release -p forebay-quic --example many_connections -- --help`
//!
//! Server and clients are one process and use loopback, so their encryption shares the cores.
//! Choose a rate at which the cores are not all busy, or the processor is what is measured. Ctrl-C
//! ends the process and leaves nothing behind.

mod load;
mod measure;
mod report;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use clap::Parser;
use forebay_quic::{Config, Mode, Schedule};
use forebay_units::Rate;

use load::Load;
use report::{Document, Row};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone, Debug, Parser)]
struct Options {
    /// Connections that download all the time
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// The rate of the egress, in Mbit/s
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// Capacities of the buffer in packets, each run in turn
    #[arg(long, value_delimiter = ',', default_value = "100,1000",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    buffers: Vec<u32>,
    /// What happens to packets that do not fit (drop, zd), each run in turn
    #[arg(long, value_delimiter = ',', default_value = "drop,zd")]
    modes: Vec<String>,
    /// The order in which packets leave (fifo, fair), each run in turn
    #[arg(long, value_delimiter = ',', default_value = "fifo")]
    schedules: Vec<String>,
    /// Datagrams in one transmit of quinn
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=10))]
    segments: u8,
    /// Seconds of measurement
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seconds from the start of all downloads to the start of measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=3600))]
    warmup: u64,
    /// Additional connections that request 100 bytes from time to time, to measure round trips
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    probes: u32,
    /// Requests per second of each of these
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    requests: u32,
    /// Number of sockets that the clients' connections share
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    sockets: u32,
    /// Number of runs of each arm
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Connect over IPv6
    #[arg(long)]
    ipv6: bool,
    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,
}

impl Options {
    fn ip(&self) -> IpAddr {
        if self.ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() }
    }

    fn load(&self) -> Load {
        Load {
            ip: self.ip(),
            connections: self.connections,
            probes: self.probes,
            every: Duration::from_secs(1) / self.requests,
            sockets: self.sockets,
            warmup: Duration::from_secs(self.warmup),
            window: Duration::from_secs(self.seconds),
        }
    }

    /// Returns every arm in order.
    fn arms(&self) -> Result<Vec<Config>, Error> {
        let mut arms = Vec::new();
        for schedule in &self.schedules {
            for &packets in &self.buffers {
                for mode in &self.modes {
                    arms.push(Config {
                        rate: Some(Rate::from_mbps(self.rate)),
                        packets,
                        schedule: match schedule.as_str() {
                            "fifo" => Schedule::Fifo,
                            "fair" => Schedule::Fair,
                            other => return Err(format!("schedule {other}: fifo or fair").into()),
                        },
                        mode: match mode.as_str() {
                            "drop" => Mode::Drop,
                            "zd" => Mode::Zd,
                            other => return Err(format!("mode {other}: drop or zd").into()),
                        },
                        flows: self.connections + self.probes + 16,
                        segments: self.segments,
                        ..Config::default()
                    });
                }
            }
        }
        Ok(arms)
    }
}

fn main() -> Result<(), Error> {
    let options = Options::parse();
    let arms = options.arms()?;
    let mut document = Document::new(&options);
    if !options.json {
        println!("{}\n{}", document.heading(), Row::heading());
    }
    for run in 1..=options.runs {
        for config in &arms {
            let seen = load::run(&options.load(), config)?;
            let row = Row::new(run, config, &seen);
            if !options.json {
                println!("{row}");
            }
            document.rows.push(row);
        }
    }
    document.ended();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&document)?);
    } else {
        println!("{}", document.footing());
    }
    Ok(())
}
