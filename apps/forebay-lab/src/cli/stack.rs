//! Arguments of `forebay stack`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay_cli::arguments::share;
use forebay_config::RateValue;
use forebay_stack::point::MAX_FLOWS;

/// The largest number of flows, for the parser.
const MAX: i64 = MAX_FLOWS as i64;

#[derive(Debug, Args)]
pub(crate) struct StackArgs {
    /// Numbers of connections to measure, such as `100,1000,10000` [default: those of the study,
    /// up to --max-flows].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=MAX))]
    pub(crate) flows: Vec<u32>,
    /// The most connections of the study, if no list is given.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=MAX))]
    pub(crate) max_flows: u32,
    /// Queueing disciplines of the sending interface.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = forebay_stack::point::QDISCS)]
    pub(crate) qdisc: Vec<String>,
    /// Lengths of the queue in packets.
    #[arg(long, value_name = "PACKETS", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Vec<u32>,
    /// Congestion controls, such as `cubic,bbr`.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) congestion: Vec<String>,
    /// Shares of arriving segments that the receiver's interface loses, such as `0,5%`.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = share)]
    pub(crate) loss: Vec<f64>,
    /// Shares of the rate that all flows together are paced to, or `off`, such as `off,90%`.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = pacing)]
    pub(crate) paced: Vec<Pacing>,
    /// Segmentation offloads (TSO and GSO): `on`, `off` or both.
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(crate) offload: Vec<State>,
    /// Values of net.ipv4.tcp_tso_rtt_log; 0 sizes segments by the rate alone, as before Linux
    /// 5.18.
    #[arg(long, value_name = "LOG", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(..=31))]
    pub(crate) tso_rtt_log: Vec<u8>,
    /// Times of interrupt coalescing of --device, in microseconds.
    #[arg(long, value_name = "US", value_delimiter = ',')]
    pub(crate) coalesce: Vec<u32>,
    /// The rate of the link: set by HTB in namespaces, and what --paced is a share of. `none` is
    /// without a limit.
    #[arg(long, value_name = "RATE", default_value = "2 Gbit/s", value_parser = rate)]
    pub(crate) rate: Rate,
    /// The delay of the path in milliseconds, in namespaces (needs netem in the kernel).
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = milliseconds)]
    pub(crate) delay: f64,
    /// Versions of IP that connections use.
    #[arg(long, value_enum, default_value_t = IpChoice::Both)]
    pub(crate) ip: IpChoice,
    /// Source addresses of each version, in namespaces.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub(crate) sources: u32,
    /// Seconds of each measurement.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) seconds: u64,
    /// Seconds for which connections send before each measurement.
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=3600))]
    pub(crate) settle: u64,
    /// Sending threads, and as many receiving ones; more where one may not open enough files.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
    /// Set the kernel's parameters of the study's table 5.1 meanwhile, and restore them at the end.
    #[arg(long)]
    pub(crate) tune: bool,
    /// Only check this machine, and say what to change.
    #[arg(long, conflicts_with_all = ["server", "from"])]
    pub(crate) check: bool,
    /// Do not sample the kernel's functions with perf.
    #[arg(long)]
    pub(crate) no_functions: bool,
    /// Be the receiving end for another machine, at this address and port, until interrupted.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["client", "from"])]
    pub(crate) server: Option<SocketAddr>,
    /// Send to the receiving end at this address and port, instead of in namespaces.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "from")]
    pub(crate) client: Option<SocketAddr>,
    /// With --client: an address of this machine that connections come from; may be given several
    /// times.
    #[arg(long, value_name = "ADDR", requires = "client")]
    pub(crate) source: Vec<IpAddr>,
    /// With --client: the interface towards the receiving end, whose counters are read. With
    /// --qdisc or --limit its root queue is replaced meanwhile.
    #[arg(long, value_name = "NAME", requires = "client")]
    pub(crate) device: Option<String>,
    /// Make the report again from a file of --json, without measuring.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Write everything to this file too, as JSON lines, each as soon as it is known; `-` is
    /// standard output, which then has nothing else.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The directory for the report.
    #[arg(long, value_name = "DIR", default_value = "stack")]
    pub(crate) out: PathBuf,
}

/// A share of the rate to pace to, or no pacing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pacing(pub(crate) Option<f64>);

/// The rate of the link in Mbit/s; 0 is without a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate(pub(crate) f64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum State {
    /// The feature is on.
    On,
    /// The feature is off.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IpChoice {
    /// Connections over IPv4 only.
    #[value(name = "4")]
    V4,
    /// Connections over IPv6 only.
    #[value(name = "6")]
    V6,
    /// Connections over IPv4 and IPv6 in turn.
    Both,
}

fn pacing(text: &str) -> Result<Pacing, String> {
    match text.trim() {
        "off" => Ok(Pacing(None)),
        other => match share(other)? {
            0.0 => Err("flows cannot be paced to 0%: write `off`".to_owned()),
            share => Ok(Pacing(Some(share))),
        },
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    match text.trim() {
        "none" => Ok(Rate(0.0)),
        other => other
            .parse::<RateValue>()
            .map(|rate| Rate(rate.0.as_mbps_f64()))
            .map_err(|e| e.to_string()),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(ms) if (0.0..=10_000.0).contains(&ms) => Ok(ms),
        _ => Err("write a number of milliseconds from 0 to 10000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_refused() {
        assert_eq!(pacing("off"), Ok(Pacing(None)));
        assert_eq!(pacing("90%"), Ok(Pacing(Some(0.9))));
        assert!(pacing("0%").is_err() && pacing("190%").is_err());
        assert_eq!(rate("2 Gbit/s"), Ok(Rate(2000.0)));
        assert_eq!(rate("none"), Ok(Rate(0.0)));
        assert!(rate("fast").is_err() && milliseconds("-1").is_err());
    }
}
