//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};
use forebay_config::{DurationValue, RateValue};
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
    /// Plan an ISP's routing and where its content providers hand over, together.
    Plan(Box<PlanArgs>),
    /// Hold a site's bundles to their rates (needs root).
    Sendbox(SendboxArgs),
    /// Count what arrives and answer the sendbox (needs root).
    Receivebox(ReceiveboxArgs),
    /// Queue at a link whose rate is known: no other box is needed (needs root).
    Link(LinkArgs),
    /// Send for virtual machines, and leave packets in their rings while there is no room (needs root).
    Vhost(VhostArgs),
    /// Say what is wrong with a configuration file, by line and key; changes nothing.
    Check {
        /// The file of a sendbox, a receivebox, a link, a vhost-user back end or an experiment.
        file: PathBuf,
        /// Print the tree of the kernel's queues that a sendbox's bundles would have (needs root, to
        /// see what this kernel has).
        #[arg(long)]
        show: bool,
    },
    /// Say what this machine has for a box, what that means and what to do; changes nothing. Ends
    /// with 1 if something would stop a box.
    Doctor {
        /// Look at what this file of a sendbox or a receivebox asks for, and ask its receiveboxes.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a key for a bundle's two boxes.
    Keygen {
        /// The file to write; it must not exist.
        file: PathBuf,
    },
    /// What lifts a sendbox's limits if it dies: waits for the process behind standard input.
    #[command(hide = true, name = forebay_box::sendbox::SUPERVISOR)]
    Supervisor {
        /// The sendbox's outer interface.
        interface: String,
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
    /// The first process of a guest of `lab zd`.
    #[command(hide = true)]
    ZdGuest,
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
pub(crate) struct LinkArgs {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Record every packet through the queues.
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_log: Option<PathBuf>,
    /// Write there, every second and at the end, what the queues did, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) statistics: Option<PathBuf>,
    /// Write the account of all packets at the end, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VhostArgs {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Say what was counted every second, as a line of JSON; at the end it is said anyway.
    #[arg(long)]
    pub(crate) json: bool,
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
    /// Who queues the packets at the sendbox; `kernel` goes with `--engine netns` and `uml`.
    #[arg(long, value_enum, default_value_t = Dataplane::User)]
    pub(crate) dataplane: Dataplane,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dataplane {
    /// The sendbox itself.
    User,
    /// This machine's kernel, in queues of its own that the sendbox controls.
    Kernel,
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
        /// Who queues the packets at the sendboxes; `kernel` goes with `--engine netns` and `uml`.
        #[arg(long, value_enum, default_value_t = Dataplane::User)]
        dataplane: Dataplane,
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
    /// Try the kernel's backpressure (`kernel/zd`) beside the kernel without, and print a table.
    Zd {
        /// The experiment, such as `experiments/zd/contended.toml`.
        file: PathBuf,
        /// Write all runs there, as JSON lines.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
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
    /// Who queues the packets at the sendboxes; `kernel` goes with `--engine netns` and `uml`, and has columns of its
    /// own on the page.
    #[arg(long, value_enum, default_value_t = Dataplane::User)]
    pub(crate) dataplane: Dataplane,
    /// Only these claims, by name. The page has what is stored of the others.
    #[arg(long, value_name = "CLAIM", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only claims of which the engine's result is missing, or older than the scenario or a band.
    #[arg(long)]
    pub(crate) missing: bool,
    /// Run nothing, and make the page of what is stored.
    #[arg(long, conflicts_with_all = ["engines", "only", "missing", "seeds", "quick", "jobs", "records"])]
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
    /// Keep the records of each run there, in a directory for each claim and engine, as `lab run --out` does.
    #[arg(long, value_name = "DIR")]
    pub(crate) records: Option<PathBuf>,
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

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    pub(crate) command: PlanCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Find the routing that carries most, fairly, and show it beside the present one; changes nothing.
    Solve(SolveArgs),
    /// Say which neighbour should hand over the traffic to which prefixes where; changes nothing but the file of hints.
    Hints(HintsArgs),
    /// Make demands of flow records (NetFlow v9, IPFIX), from files or off the network.
    Flows(FlowsArgs),
    /// Have the speakers of BGP announce what hints ask for; shows what it would do unless told to do it.
    Announce(AnnounceArgs),
    /// Have the speakers take back all that was announced.
    Withdraw(WithdrawArgs),
    /// Plan every few minutes, and talk with the neighbours: their programs in, their hints out.
    Serve(ServeArgs),
    /// Make a token for `serve`, and the hash of it for the configuration.
    Token,
    #[command(name = "serve-supervisor", hide = true)]
    ServeSupervisor(SpeakArgs),
    /// See hints at work between BGP daemons, on this machine (needs root, GoBGP and BIRD).
    Demo(PlanDemoArgs),
    /// Try Unison's evaluation again, and write its page.
    Reproduce(PlanReproduceArgs),
    /// Say how fast plans are made on this machine.
    Bench(PlanBenchArgs),
}

/// What a plan is made of, and how capacity is divided.
#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    /// The network: a .gml or .graphml file as the Topology Zoo has them, or node-link .json.
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,
    /// The content providers, with their entries.
    #[arg(long, value_name = "FILE")]
    pub(crate) providers: PathBuf,
    /// What they send: .csv or .json.
    #[arg(long, value_name = "FILE", conflicts_with = "gravity")]
    pub(crate) demands: Option<PathBuf>,
    /// Instead of demands, a gravity model of so much in all, such as "400 Gbit/s".
    #[arg(long, value_name = "RATE")]
    pub(crate) gravity: Option<RateValue>,
    /// What a link carries whose capacity the topology does not say; without limit if left out.
    #[arg(long, value_name = "RATE")]
    pub(crate) capacity: Option<RateValue>,
    /// At most so many aggregate flows; the network is reduced until they are no more.
    #[arg(long, value_name = "N", default_value = "5000")]
    pub(crate) aggregates: NonZeroUsize,
    /// Shortest paths from each entry to each boundary router; 1 keeps the paths inside as they are.
    #[arg(long, value_name = "K", default_value = "4")]
    pub(crate) paths: NonZeroUsize,
    /// How the capacity is divided.
    #[arg(long, value_enum, default_value_t = Fairness::Wba)]
    pub(crate) fairness: Fairness,
    /// The factor between two steps of fairness: nearer to 1 is fairer.
    #[arg(long, value_name = "FACTOR", default_value = "2", value_parser = step_factor)]
    pub(crate) factor: f64,
    /// Steps of fairness.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) steps: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SolveArgs {
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// Whose routing may change.
    #[arg(long, value_enum, default_value_t = PlanScope::All)]
    pub(crate) scope: PlanScope,
    /// Keep each aggregate flow whole, or cut it into so many parts that take one way each; it may be split at will if
    /// left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) sub_flows: Option<u16>,
    /// Write all of it there, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HintsArgs {
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// Where users are: .csv with the columns prefix, router and, if it is known, share.
    #[arg(long, value_name = "FILE")]
    pub(crate) prefixes: PathBuf,
    /// The hints in force, as they were written here before; none if the file is not there.
    #[arg(long, value_name = "FILE")]
    pub(crate) last: Option<PathBuf>,
    /// Keep what comes out as the hints in force, in the file that `--last` names. Without this nothing changes.
    #[arg(long, requires = "last")]
    pub(crate) write: bool,
    /// A neighbour gets new hints if without them so much less would be carried.
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = share)]
    pub(crate) gain: f64,
    /// Its hints are withdrawn if without them no more than this would be lost.
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = share)]
    pub(crate) release: f64,
    /// What to print.
    #[arg(long, value_enum, default_value_t = HintsForm::Table)]
    pub(crate) show: HintsForm,
    /// Of this neighbour only; for `json` and `alto`, in the form that it may see itself.
    #[arg(long, value_name = "NAME")]
    pub(crate) neighbour: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    /// The network: a .gml or .graphml file as the Topology Zoo has them, or node-link .json.
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,
    /// The content providers, with their entries.
    #[arg(long, value_name = "FILE")]
    pub(crate) providers: PathBuf,
    /// Where users are: .csv with the columns prefix, router and, if it is known, share.
    #[arg(long, value_name = "FILE")]
    pub(crate) prefixes: PathBuf,
    /// The routers that send flow records, with their interfaces to providers.
    #[arg(long, value_name = "FILE")]
    pub(crate) exporters: PathBuf,
    /// Messages of IPFIX or NetFlow v9, one after the other, or captures of them (.pcap); several are read as one.
    #[arg(value_name = "MESSAGES", required_unless_present = "listen")]
    pub(crate) files: Vec<PathBuf>,
    /// Whose messages are in files that are no captures; may be left out if there is one exporter only.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) exporter: Option<IpAddr>,
    /// Take messages off the network there, for as long as the window is and then the delay; may be given several times.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["files", "end", "exporter"])]
    pub(crate) listen: Vec<SocketAddr>,
    /// How long the window is; of files all that they have if left out, off the network 5 min.
    #[arg(long, value_name = "TIME")]
    pub(crate) window: Option<DurationValue>,
    /// What is sent is reported so much later at most: the routers' active timeout.
    #[arg(long, value_name = "TIME", default_value = "1 min")]
    pub(crate) delay: DurationValue,
    /// When the window ends, as 2026-11-22T13:05:00Z; so much before the last message as `--delay` says if left out.
    #[arg(long, value_name = "TIME", value_parser = forebay_plan::flows::time::parse)]
    pub(crate) end: Option<i64>,
    /// Write the demands there, as .csv or .json.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write the prefixes there with their shares as they were measured, as .csv.
    #[arg(long, value_name = "FILE")]
    pub(crate) shares: Option<PathBuf>,
    /// Write all that is shown, and more, there, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HintsForm {
    /// A table of what is different.
    Table,
    /// All of it, as JSON.
    Json,
    /// BGP announcements for each session, as JSON.
    Bgp,
    /// The same as lines for ExaBGP.
    Exabgp,
    /// ALTO maps (RFC 7285) of one neighbour, as JSON.
    Alto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fairness {
    /// Weighted bandwidth allocation: max-min fairness, within the factor of a step.
    Wba,
    /// The same in one program, by geometric binning.
    Binning,
    /// As much as possible in all, whoever gets it.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlanScope {
    /// All providers' paths, and the entries of those that participate.
    All,
    /// Only those that participate.
    Partial,
    /// All providers' paths, and no entry.
    Intra,
}

/// How GoBGP is spoken to, and what was said.
#[derive(Debug, Args)]
pub(crate) struct SpeakArgs {
    /// What was announced, so that it can be taken back whatever happens.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: PathBuf,
    /// GoBGP's command.
    #[arg(long, value_name = "PROGRAM", default_value = "gobgp")]
    pub(crate) gobgp: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct AnnounceArgs {
    /// The hints, as `forebay plan hints --write` keeps them.
    #[arg(long, value_name = "FILE")]
    pub(crate) hints: PathBuf,
    /// The network that they are for.
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,
    /// The content providers, with their sessions and speakers.
    #[arg(long, value_name = "FILE")]
    pub(crate) providers: PathBuf,
    #[command(flatten)]
    pub(crate) speak: SpeakArgs,
    /// Do it. Without this nothing is announced.
    #[arg(long)]
    pub(crate) apply: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WithdrawArgs {
    #[command(flatten)]
    pub(crate) speak: SpeakArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Check the configuration and the files that it names, and end.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PlanDemoArgs {
    /// Have things go wrong as well: a provider whose sessions flap and who sends nonsense, a service that is killed.
    #[arg(long)]
    pub(crate) faults: bool,
    /// Measure for 3 s instead of 8 s.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The directory for the picture.
    #[arg(long, value_name = "DIR", default_value = "demo/plan")]
    pub(crate) out: PathBuf,
    /// Write all of it there, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PlanReproduceArgs {
    /// Topologies: all .gml, .graphml and .json files in it; of two files of one name the first in that order. Made-up
    /// ones if left out.
    #[arg(long, value_name = "DIR")]
    pub(crate) topologies: Option<PathBuf>,
    /// Leave out topologies with more routers.
    #[arg(long, value_name = "N")]
    pub(crate) routers: Option<usize>,
    /// Seeds 1 to N.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// Seeds 1 to N of figure 3.9, whose indices vary so much with the set-up that medians of few say little.
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) fair_seeds: u64,
    /// What links carry of what the most loaded one would have to.
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    pub(crate) congestion: f64,
    /// The page; pictures and figures go to a directory beside it.
    #[arg(long, value_name = "FILE.md", default_value = "docs/results/unison.md")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PlanBenchArgs {
    /// Topologies to plan; made-up ones of 11, 200 and 2000 routers if left out.
    #[arg(value_name = "FILE")]
    pub(crate) topologies: Vec<PathBuf>,
    /// Runs of each part; the median counts.
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) times: NonZeroUsize,
    /// Measure nothing, and write each case's multi-commodity flow with its answer there, as JSON, for another solver to
    /// check.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["times", "json"])]
    pub(crate) programs: Option<PathBuf>,
    /// Write the figures there, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// A factor above 1, and below what would leave no steps between nothing and all.
fn step_factor(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(factor) if factor > 1.0 && factor <= 100.0 => Ok(factor),
        _ => Err("write a number above 1 and up to 100".to_owned()),
    }
}

/// A share from 0 to 1, of a text in per cent.
fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>();
    match number {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a share from 0% to 100%".to_owned()),
    }
}
