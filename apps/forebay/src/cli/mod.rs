//! Arguments of the command line; their doc comments are the texts of `--help`.

mod boxes;
mod l4s;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use forebay_cli::arguments::EXIT_STATUS;
use forebay_cli::log::Verbosity;

#[cfg(feature = "exporter")]
pub(crate) use self::boxes::ExporterArgs;
#[cfg(feature = "watch")]
pub(crate) use self::boxes::{EventsArgs, ExplainArgs, WatchArgs};
pub(crate) use self::boxes::{
    LinkArgs, ReceiveboxArgs, ReloadArgs, SendboxArgs, SiteArgs, SiteCommand, SiteInitArgs,
    StatusArgs, UpgradeArgs, VhostArgs,
};
pub(crate) use self::l4s::{L4sArgs, L4sCaptureArgs, L4sCheckArgs, L4sCommand};

/// Words of the project that the texts of the commands use.
const WORDS: &str = "\
Words:
  bundle      All traffic from one site to another
  sendbox     The box at the edge of the sending site: it queues, schedules and shapes bundles
  receivebox  The box at the edge of the receiving site: it counts packets and sends feedback
  site        Both boxes in one process, for traffic to and from other sites, its peers

The programs forebay-lab and forebay-plan run the commands `lab`, `demo`, `stack` and `plan`. Each
has a package of its own, and `forebay lab --help` shows its commands.";

/// Forebay moves a queue from a bottleneck that you do not control to a box that you control, and
/// schedules the packets there.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, after_help = format!("{WORDS}\n\n{EXIT_STATUS}"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show on this machine how a queue moves from the bottleneck to the sendbox.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Demo(OtherArgs),
    /// Run a site: both boxes in one process, over the kernel's queues (needs root).
    Site(SiteArgs),
    /// Run a sendbox: queue, schedule and shape the bundles of a site (needs root).
    Sendbox(SendboxArgs),
    /// Run a receivebox: count the packets of bundles and send feedback (needs root).
    Receivebox(ReceiveboxArgs),
    /// Run one box at a link of known rate, with DualPI2 or another policy (needs root).
    Link(LinkArgs),
    /// Run a vhost-user back end that leaves packets in the guests' rings while its queue is full.
    Vhost(VhostArgs),
    /// Show the state of the sites, sendboxes and receiveboxes in this network namespace.
    Status(StatusArgs),
    /// Let the sites, sendboxes and receiveboxes in this network namespace read their files again.
    Reload(ReloadArgs),
    /// Restart a site, sendbox or receivebox so that the new process goes on where the old one
    /// ended: queues, rates, sessions and messages stay.
    Upgrade(UpgradeArgs),
    /// Serve the metrics of all boxes in this network namespace to Prometheus, over HTTP.
    #[cfg(feature = "exporter")]
    Exporter(ExporterArgs),
    /// Keep the history of all boxes in this network namespace, and show it as a page over HTTP.
    #[cfg(feature = "watch")]
    Watch(WatchArgs),
    /// Tell the last hour of a peer or bundle in sentences, from the history of `forebay watch`.
    #[cfg(feature = "watch")]
    Explain(ExplainArgs),
    /// Show what happened, from the history of `forebay watch`.
    #[cfg(feature = "watch")]
    Events(EventsArgs),
    /// Show the boxes in this network namespace as a live view of the terminal.
    #[cfg(feature = "watch")]
    Top,
    /// Check a configuration or scenario file and report the first error; changes nothing.
    Check {
        /// The file of a site, sendbox, receivebox, link, vhost-user back end or experiment, which
        /// the program forebay-lab checks.
        file: PathBuf,
        /// Print the kernel queues that a sendbox with `dataplane = "kernel"` would set up (needs
        /// root, to ask the kernel what it supports).
        #[arg(long)]
        show: bool,
    },
    /// Report whether this machine can run a box, and what to do if not; changes nothing. The exit
    /// status is 1 if something would stop a box.
    Doctor {
        /// Check also what this sendbox or receivebox file needs, and contact its receiveboxes.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print the report as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take away the programs that a sendbox or link left on interfaces when it ended (needs root).
    /// Frames pass between them no longer.
    Detach {
        /// The interfaces: `inside` and `outside` of the box.
        #[arg(required = true)]
        interfaces: Vec<String>,
    },
    /// Write a new key, which the two boxes of a bundle share.
    Keygen {
        /// The file to write; it must not exist yet.
        file: PathBuf,
    },
    #[cfg(feature = "generate")]
    #[command(flatten)]
    Generate(forebay_cli::generate::Generate),
    /// Run experiments, compare results, and reproduce the evaluations of papers.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Lab(OtherArgs),
    /// Say whether L4S works on a path, and if not, why.
    L4s(L4sArgs),
    /// Measure what many connections cost this machine's network stack (needs root).
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Stack(OtherArgs),
    /// Plan an ISP's routing together with where its content providers hand over traffic.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Plan(OtherArgs),
    /// Answer the questions of a box about host names.
    #[command(hide = true)]
    ResolveNames,
}

/// Arguments of a command that another program runs.
#[derive(Debug, Args)]
pub(crate) struct OtherArgs {
    /// Arguments for the other program, whose `--help` shows them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_and_argument_has_a_help_text() {
        forebay_cli::arguments::assert_documented(Cli::command());
    }
}
