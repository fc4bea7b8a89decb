//! Arguments of the boxes.

use std::path::PathBuf;

use clap::Args;

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
