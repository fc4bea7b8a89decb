//! Arguments of `forebay l4s`.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_config::RateValue;
use forebay_l4s_check::live::PORT;

#[derive(Debug, Args)]
pub(crate) struct L4sArgs {
    #[command(subcommand)]
    pub(crate) command: L4sCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum L4sCommand {
    /// Say whether L4S works on the path to a host that runs `forebay l4s reflect`, and if not,
    /// why. It loads the path for some seconds.
    ///
    /// The exit status is 0 if L4S works, and 1 if it does not or if that cannot be told.
    Check(L4sCheckArgs),
    /// Say whether L4S works for the TCP connections of a capture (pcap or pcapng, also compressed
    /// by gzip), and if not, why.
    ///
    /// The exit status is 0 if L4S works, 1 if it does not or if that cannot be told, and 2 for a
    /// file that cannot be read.
    Capture(L4sCaptureArgs),
    /// Answer checks from other hosts until it is stopped.
    Reflect {
        /// The address and UDP port to listen on.
        #[arg(long, value_name = "ADDRESS", default_value_t = everywhere())]
        listen: SocketAddr,
    },
}

#[derive(Debug, Args)]
pub(crate) struct L4sCheckArgs {
    /// The host, with a port if it is not the usual one: `host`, `host:port` or `[address]:port`.
    pub(crate) host: String,
    /// The highest rate at which to look for the bottleneck.
    #[arg(long, value_name = "RATE", default_value = "200 Mbit/s", value_parser = rate)]
    pub(crate) max_rate: RateValue,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct L4sCaptureArgs {
    /// A capture at either end or in between: the delays show where.
    #[arg(
        required_unless_present_any = ["sender", "receiver"],
        conflicts_with_all = ["sender", "receiver"]
    )]
    pub(crate) file: Option<PathBuf>,
    /// A capture at the sender of the data.
    #[arg(long, value_name = "FILE")]
    pub(crate) sender: Option<PathBuf>,
    /// A capture at the receiver of the data; with --sender, of the same transfer.
    #[arg(long, value_name = "FILE")]
    pub(crate) receiver: Option<PathBuf>,
    /// Use only packets of the interface with this name in pcapng. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Vec<String>,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn everywhere() -> SocketAddr {
    SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT))
}

fn rate(text: &str) -> Result<RateValue, String> {
    text.parse().map_err(|e| format!("{e}"))
}
