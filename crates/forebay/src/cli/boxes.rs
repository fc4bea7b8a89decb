//! Arguments of the boxes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct SendboxArgs {
    /// The configuration of the sendbox, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Record each packet that passes the bundles' queues, in a binary file.
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_log: Option<PathBuf>,
    /// Record each control tick of each bundle (every 10 ms), as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) tick_log: Option<PathBuf>,
    /// Record each decision of the controllers with its reason, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) event_log: Option<PathBuf>,
    /// Write the packet counters when the sendbox stops, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiveboxArgs {
    /// The configuration of the receivebox, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SiteArgs {
    /// The configuration of the site, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Record each control tick of each peer (every 10 ms), as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) tick_log: Option<PathBuf>,
    /// Record each decision of the controllers with its reason, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) event_log: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<SiteCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SiteCommand {
    /// Write the files and keys of two or more sites, each with all others as peers.
    Init(SiteInitArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SiteInitArgs {
    /// A site: its name, its interface towards the network, the address at which other sites reach
    /// it, and the prefixes of its hosts. Give it once for each site; without it the command asks.
    #[arg(long = "site", num_args = 4, value_names = ["NAME", "INTERFACE", "ADDRESS", "PREFIX,..."])]
    pub(crate) sites: Vec<String>,
    /// The directory for a directory for each site.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) directory: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show only the bundle or peer of this name.
    pub(crate) name: Option<String>,
    /// Print all figures as JSON, on one line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Repeat it every second.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[cfg(feature = "exporter")]
#[derive(Debug, Args)]
pub(crate) struct ExporterArgs {
    /// The address and port at which it listens.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9477")]
    pub(crate) listen: std::net::SocketAddr,
}

#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// The configuration of the link, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Record each packet that passes the queues, in a binary file.
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_log: Option<PathBuf>,
    /// Write the queues' statistics every second and at the end, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) statistics: Option<PathBuf>,
    /// Write the packet counters when the link stops, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VhostArgs {
    /// The configuration of the back end, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Print the counters every second, as JSON lines. They are always printed at the end.
    #[arg(long)]
    pub(crate) json: bool,
}
