//! Arguments of the command line; their doc comments are the texts of `--help`.

mod stack;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use forebay_cli::arguments::{EXIT_STATUS, share};
use forebay_cli::log::Verbosity;
use forebay_config::{Setting, SettingError};
use forebay_harm::Family;
use forebay_lab::compare::{Arms, Bands};
use forebay_lab::interop;
use forebay_lab::scenario::QueueKind;

pub(crate) use self::stack::{IpChoice, StackArgs, State};

/// Words of the project that the texts of the commands use.
const WORDS: &str = "\
Words:
  box  A program at the edge of a site, which queues packets or counts them
  arm  One variant of an experiment, such as \"with Forebay\"; all arms get the same traffic";

/// The laboratory: experiments with the boxes, in namespaces, in a simulator or in virtual time.
#[derive(Debug, Parser)]
#[command(name = "forebay-lab", version, propagate_version = true)]
#[command(after_help = format!("{WORDS}\n\n{EXIT_STATUS}"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Lab(LabCommand),
    /// Show on this machine how a queue moves from the bottleneck to the sendbox.
    Demo(DemoArgs),
    /// Measure what many connections cost this machine's network stack (needs root).
    Stack(Box<StackArgs>),
    /// Check a scenario file and report the first error; runs nothing.
    Check {
        /// The scenario file, in TOML.
        file: PathBuf,
    },
    #[cfg(feature = "generate")]
    #[command(flatten)]
    Generate(forebay_cli::generate::Generate),
    /// Run a traffic program of the laboratory.
    #[command(hide = true)]
    Agent,
    /// Run the network of the laboratory.
    #[command(hide = true)]
    LinkEmulator,
    /// Run as the first process of a guest of the laboratory.
    #[command(hide = true)]
    Guest,
    /// Run as the first process of a guest of `lab zd`.
    #[command(hide = true)]
    ZdGuest,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Measure each arm for 10 s instead of 40 s.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The seed of the requests: the same seed gives the same requests.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the figures to this file too, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The engine to run on [default: netns if this machine allows network namespaces, else sim].
    #[arg(long, value_enum)]
    pub(crate) engine: Option<Engine>,
    /// Where the sendbox queues packets; `kernel` needs the engine `netns` or `uml`.
    #[arg(long, value_enum, default_value_t = Dataplane::User)]
    pub(crate) dataplane: Dataplane,
    /// The directory for the report.
    #[arg(long, value_name = "DIR", default_value = "demo")]
    pub(crate) out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    /// This machine's Linux in network namespaces, in real time (needs root).
    Netns,
    /// The simulator: needs no root and is exactly repeatable, but its TCP is a model.
    Sim,
    /// A real Linux kernel in virtual time: needs no root; the kernel is built on first use.
    Uml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dataplane {
    /// The sendbox process queues packets in user space.
    User,
    /// The kernel queues packets in its own qdiscs, whose rates the sendbox sets.
    Kernel,
}

/// A format of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Export {
    /// A file for flent, as of its test `tcp_nup`.
    Flent,
    /// One measured value a line, comma-separated.
    Csv,
    /// A capture of every packet that leaves a queue, for Wireshark; needs `--engine sim`.
    Pcapng,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run the experiment of a scenario file and print a table of the measurements.
    Run(Box<RunArgs>),
    /// Make the report again from the records of `lab run --out`, with results of other tools.
    Report {
        /// A directory that `lab run --out` wrote, one of its files, or a result of flent, iperf3
        /// (--json), irtt (-o) or crusader (.crr or export); also several of them.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// The directory for the report [default: the first directory given, else `.`].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Compare two stored results, run by run: two engines, or before and after a change.
    Compare(Box<CompareArgs>),
    /// Run the experiments behind a paper's claims, and write a page that compares the figures.
    Reproduce(Box<ReproduceArgs>),
    /// Draw paths at random and judge on each whether Forebay is worse than no box: the harm map.
    Harm(Box<HarmArgs>),
    /// Run one experiment with the zD kernel patch (`kernel/zd`) and without it, and print a table.
    Zd {
        /// The experiment, such as `experiments/zd/contended.toml`.
        file: PathBuf,
        /// Write all runs to this file, as JSON lines.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Be the network between the client and the server of a QUIC interoperability test, in real
    /// time (needs root).
    Interop(InteropArgs),
    /// Measure the speed of the simulator on this machine.
    Bench {
        /// Runs of each case; the median is reported.
        #[arg(long, value_name = "N", default_value = "5")]
        times: NonZeroUsize,
        /// Write the figures to this file, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The scenario file, in TOML.
    pub(crate) file: PathBuf,
    /// Set a key of the scenario, such as path.rate="24 Mbit/s" or traffic.web.load=50%; may be
    /// given several times. An entry of an array is named by its name, or by its number from 1.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Setting::parse)]
    pub(crate) settings: Vec<Setting>,
    /// Run with each of these values of a key, such as path.rate="24 Mbit/s,48 Mbit/s". With
    /// several axes, every combination is run.
    #[arg(long = "grid", value_name = "KEY=VALUE,...", value_parser = axis)]
    pub(crate) axes: Vec<Axis>,
    /// Run only these arms.
    #[arg(long = "arm", value_name = "ARM", value_delimiter = ',')]
    pub(crate) arms: Vec<String>,
    /// The engine to run on.
    #[arg(long, value_enum, default_value_t = Engine::Netns)]
    pub(crate) engine: Engine,
    /// Where sendboxes queue packets; `kernel` needs the engine `netns` or `uml`.
    #[arg(long, value_enum, default_value_t = Dataplane::User)]
    pub(crate) dataplane: Dataplane,
    /// Keep the records of all runs, and a report, in this directory; with --grid, the records of
    /// each combination in a subdirectory.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the summaries of all runs to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write each run to a file of this format too, beside its records.
    #[arg(long, value_enum, value_name = "FORMAT", requires = "out")]
    pub(crate) export: Vec<Export>,
    /// Runs at a time, at most [default: 1 on `netns`, one for each core on `sim`].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
}

/// The values of one axis of a grid. It is a type of its own since clap takes a `Vec` for several
/// arguments.
#[derive(Clone, Debug)]
pub(crate) struct Axis(pub(crate) Vec<Setting>);

fn axis(text: &str) -> Result<Axis, SettingError> {
    Setting::parse_all(text).map(Axis)
}

#[derive(Debug, Args)]
pub(crate) struct InteropArgs {
    /// The scenario, such as "simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25" [default: the
    /// variable SCENARIO].
    pub(crate) scenario: Option<String>,
    /// The interface towards the client.
    #[arg(long, value_name = "INTERFACE", default_value = "eth0")]
    pub(crate) left: String,
    /// The interface towards the server.
    #[arg(long, value_name = "INTERFACE", default_value = "eth1")]
    pub(crate) right: String,
    /// The queue of each direction; its size is that of the scenario.
    #[arg(long, value_name = "QUEUE", default_value = "fifo", value_parser = interop::queue)]
    pub(crate) policy: QueueKind,
    /// The seed of random losses.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the packet counts to this file at the end, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HarmArgs {
    /// Paths to draw; they are shared out over the families of links.
    #[arg(long, value_name = "N", default_value_t = 230, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) cells: u32,
    /// Run each path with the seeds 1 to N.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) seeds: u32,
    /// Run a path that looks worse with N further seeds, which decide; with 0 the first ones do.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) confirm: u32,
    /// The seed that the paths are drawn with: another one draws other paths.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Run Forebay's bundles without a guard, as `guard = false` does in a sendbox's file.
    #[arg(long)]
    pub(crate) without_guard: bool,
    /// Run only paths of these families.
    #[arg(long = "family", value_name = "FAMILY", value_delimiter = ',')]
    pub(crate) families: Vec<Family>,
    /// Run only this path, by its number.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cell: Option<u32>,
    /// The engine to run on.
    #[arg(long, value_enum, default_value_t = Engine::Sim)]
    pub(crate) engine: Engine,
    /// The directory for the page, the picture, the figures as JSON and the scenario files.
    #[arg(long, value_name = "DIR", default_value = "harm")]
    pub(crate) out: PathBuf,
    /// Runs at a time, at most, within what the engine allows.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Fail if more than this share of the paths is worse, such as `5 %`.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) allow: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The set of claims to run, such as `bundler`. Without a name, all sets and claims are listed.
    pub(crate) name: Option<String>,
    /// The engine to run on; may be given several times [default: sim].
    #[arg(long = "engine", value_enum, value_name = "ENGINE")]
    pub(crate) engines: Vec<Engine>,
    /// Where sendboxes queue packets; `kernel` needs the engine `netns` or `uml`, and its results
    /// have columns of their own on the page.
    #[arg(long, value_enum, default_value_t = Dataplane::User)]
    pub(crate) dataplane: Dataplane,
    /// Run only these claims. The page keeps the stored results of the others.
    #[arg(long, value_name = "CLAIM", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Run only claims without a stored result of the engine, or whose scenario or bands changed
    /// since.
    #[arg(long)]
    pub(crate) missing: bool,
    /// Run nothing: make the page from the stored results.
    #[arg(
        long,
        conflicts_with_all = ["engines", "only", "missing", "seeds", "quick", "jobs", "records"]
    )]
    pub(crate) page: bool,
    /// Run with seeds 1 to N instead of the seeds that each claim names.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: Option<u32>,
    /// Runs at a time, at most, within what the engine allows.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Run for ten seconds with one seed, only to try the command.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Keep the records of all runs in this directory, in one subdirectory for each claim and
    /// engine, as `lab run --out` does.
    #[arg(long, value_name = "DIR")]
    pub(crate) records: Option<PathBuf>,
    /// The page to write; the results go to a directory of the same name beside it [default:
    /// docs/results/NAME.md, with --quick results/NAME.md].
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write all results on the page to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The directory with the claims.
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub(crate) experiments: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// A directory that `lab run --out` wrote, one file of it, a file of `lab run --json`, or a
    /// result of flent, iperf3, irtt or crusader.
    pub(crate) a: PathBuf,
    /// The result to compare it with.
    pub(crate) b: PathBuf,
    /// Compare arms of A with arms of B whose names differ in one word: with forebay=kernel, the
    /// arm `fifo_forebay` with `fifo_kernel`.
    #[arg(long, value_name = "WORD=WORD")]
    pub(crate) arms: Option<Arms>,
    /// The largest difference that counts as equal, such as
    /// `throughput=5%,delay=15%|2ms,drops=any`.
    #[arg(long, value_name = "BANDS", default_value = "")]
    pub(crate) band: Bands,
    /// Fail if fewer of the pairs are within their bands.
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    pub(crate) require: Option<f64>,
    /// Compare each run of B with B's other runs too, and fail if the pairs within their bands are
    /// more than N fewer than those in which one run of B predicts the others. All seeds of both
    /// results count then.
    #[arg(long, value_name = "N")]
    pub(crate) leave_one_out: Option<u32>,
    /// Write the comparison to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the comparison to this file, as an HTML page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the comparison to this file, as Markdown.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
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
