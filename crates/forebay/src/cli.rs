//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};
use forebay_lab::compare::{Arms, Bands};

/// Moves network queues to where they can be controlled, and controls them well.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    /// Say more; twice for everything.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See a queue leave the bottleneck, on this machine's own TCP.
    Demo(DemoArgs),
    /// Run experiments and report on them.
    Lab(LabArgs),
    /// Hold a site's bundles to their rates (needs root).
    Sendbox(SendboxArgs),
    /// Count what arrives and answer the sendbox (needs root).
    Receivebox(ReceiveboxArgs),
    /// Say what is wrong with a configuration file, by line and key; changes nothing.
    Check {
        /// The file of a sendbox, a receivebox or an experiment.
        file: PathBuf,
        /// Print the tree of the kernel's queues that a sendbox's bundles would have (needs root, to
        /// see what this kernel has).
        #[arg(long)]
        show: bool,
    },
    /// Make a key for a bundle's two boxes.
    Keygen {
        /// The file to write; it must not exist.
        file: PathBuf,
    },
    /// A traffic program of the laboratory.
    #[command(hide = true)]
    Agent,
    /// The network of the laboratory.
    #[command(hide = true)]
    LinkEmulator,
    /// The first process of a guest of the laboratory.
    #[command(hide = true)]
    Guest,
}

#[derive(Debug, Args)]
pub(crate) struct SendboxArgs {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Record every packet through the bundles' queues.
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_log: Option<PathBuf>,
    /// Record every tick of the controllers, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) tick_log: Option<PathBuf>,
    /// Record every decision of the controllers with its reason, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) event_log: Option<PathBuf>,
    /// Write the account of all packets at the end, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiveboxArgs {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Ten seconds an arm instead of forty.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Draws the requests; the same seed gives the same requests.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the figures there too.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// What to run on; `netns` where network namespaces can be made, else `sim`, if left out.
    #[arg(long, value_enum)]
    pub(crate) engine: Option<Engine>,
    /// Where the report goes.
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub(crate) out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    /// This machine's Linux, in network namespaces (needs root).
    Netns,
    /// The simulator: no root, no noise, and a model of TCP instead of the kernel's.
    Sim,
    /// A real Linux kernel in virtual time: no root, no noise; builds it first, once.
    Uml,
}

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run a scenario file and print what was measured.
    Run {
        /// The scenario.
        file: PathBuf,
        /// What to run on.
        #[arg(long, value_enum, default_value_t = Engine::Netns)]
        engine: Engine,
        /// Keep the runs' records and a report there.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Write the summaries there, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// At most so many runs side by side. As many as the engine allows if left out: `netns` one,
        /// `sim` one for each core.
        #[arg(long, value_name = "N")]
        jobs: Option<NonZeroUsize>,
    },
    /// Make a report from the records that a run kept.
    Report {
        /// The directory that `run --out` wrote.
        dir: PathBuf,
    },
    /// Hold one stored result against another: two engines, or before and after a change.
    Compare(Box<CompareArgs>),
    /// Try the claims of a paper again, and write a page of its figures beside ours.
    Reproduce(Box<ReproduceArgs>),
    /// Say how fast the simulator is on this machine.
    Bench {
        /// Runs of each case; the median counts.
        #[arg(long, value_name = "N", default_value = "5")]
        times: NonZeroUsize,
        /// Write the figures there, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Which, such as `bundler`; says what there is if left out.
    pub(crate) name: Option<String>,
    /// What to run on; only `sim` if left out. Give it several times for several.
    #[arg(long = "engine", value_enum, value_name = "ENGINE")]
    pub(crate) engines: Vec<Engine>,
    /// Only these claims, by name. The page has what is stored of the others.
    #[arg(long, value_name = "CLAIM", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only claims of which the engine's result is missing, or older than the scenario or a band.
    #[arg(long)]
    pub(crate) missing: bool,
    /// Run nothing, and make the page of what is stored.
    #[arg(long, conflicts_with_all = ["engines", "only", "missing", "seeds", "quick", "jobs"])]
    pub(crate) page: bool,
    /// Seeds 1 to N, whatever the claims say.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: Option<u32>,
    /// At most so many runs side by side; never more than the engine allows.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Ten seconds a run with one seed, to see that it works.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The page. What it is made of is kept in a directory beside it. `docs/results/NAME.md` if left
    /// out, and `results/NAME.md` with `--quick`.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write all that the page is made of there, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Where the claims are.
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub(crate) experiments: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// A directory of `run --out`, one of its files, or the JSON of `run --json`.
    pub(crate) a: PathBuf,
    /// What to hold against it.
    pub(crate) b: PathBuf,
    /// Hold arms of A against others of B, such as forebay=kernel for `fifo_forebay` and `fifo_kernel`.
    #[arg(long, value_name = "WORD=WORD")]
    pub(crate) arms: Option<Arms>,
    /// What counts as the same, such as `throughput=5%,delay=15%|2ms,drops=any`.
    #[arg(long, value_name = "BANDS", default_value = "")]
    pub(crate) band: Bands,
    /// Fail if fewer of the pairs are within their bands.
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    pub(crate) require: Option<f64>,
    /// Write all of it there, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page there.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write it there as Markdown.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

/// A share from 0 to 1, of a text in per cent.
fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>();
    match number {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a share from 0% to 100%".to_owned()),
    }
}
