//! Arguments of `forebay l4s`.

use std::net::{Ipv6Addr, SocketAddr};

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

fn everywhere() -> SocketAddr {
    SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT))
}

fn rate(text: &str) -> Result<RateValue, String> {
    text.parse().map_err(|e| format!("{e}"))
}
