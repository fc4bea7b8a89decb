//! Arguments of the command line; their doc comments are the texts of `--help`.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use forebay_cli::arguments::{EXIT_STATUS, share};
use forebay_cli::log::Verbosity;
use forebay_config::{DurationValue, RateValue};
use forebay_plan::flows::relayed::Relay;
use forebay_plan::weights::Range;

/// The highest metric of any protocol.
const MAX_METRIC: i64 = Range::WIDE.metric as i64;

/// The planner: an ISP's routing together with where its content providers hand over traffic.
#[derive(Debug, Parser)]
#[command(name = "forebay-plan", version, propagate_version = true, after_help = EXIT_STATUS)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Plan(Box<PlanCommand>),
    #[cfg(feature = "generate")]
    #[command(flatten)]
    Generate(forebay_cli::generate::Generate),
    /// Run a traffic program of the demonstration.
    #[command(hide = true)]
    Agent,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Find the fair routing that carries most, and compare it with the present routing; changes
    /// nothing.
    Solve(SolveArgs),
    /// Search OSPF or IS-IS metrics with which shortest paths carry most of the joint plan; changes
    /// nothing.
    Weights(WeightsArgs),
    /// Compute hints: which neighbour should hand over the traffic to which prefixes at which
    /// entry. Only `--write` changes anything.
    Hints(HintsArgs),
    /// Estimate demands from flow records (IPFIX, NetFlow, sFlow), read from files or received.
    Flows(FlowsArgs),
    /// Read the users' prefixes from the routes of MRT table dumps, or list the prefixes that an AS
    /// originates.
    Routes(RoutesArgs),
    /// Announce hints through BGP speakers; without `--apply` only prints the steps.
    Announce(AnnounceArgs),
    /// Withdraw all routes that were announced.
    Withdraw(WithdrawArgs),
    /// Run the planning service: it plans every few minutes, takes the neighbours' programs, and
    /// gives them their hints.
    Serve(ServeArgs),
    /// Follow the hints of an ISP's `plan serve`, as a content provider; without `--apply` or
    /// `--watch` only prints what would move.
    Neighbour(NeighbourArgs),
    /// Carry out the paths of `plan serve` inside the network, at an ingress router, as SRv6 routes
    /// of Linux; without `--watch` or `--withdraw` only prints what would change.
    Paths(PathsArgs),
    /// Wait until the client behind standard input ends, then remove its routes.
    #[command(name = forebay_serve::ingress::SUPERVISOR, hide = true)]
    PathsSupervisor(PathsSupervisorArgs),
    /// Make an access token for `plan serve`, and its hash for the configuration.
    Token,
    /// Wait until the service behind standard input ends, then withdraw what it announced.
    #[command(name = forebay_serve::SUPERVISOR, hide = true)]
    ServeSupervisor(SpeakerArgs),
    /// Show on this machine how hints move traffic between BGP daemons (needs root, GoBGP, BIRD).
    Demo(PlanDemoArgs),
    /// Run Unison's evaluation again, and write a page that compares the figures.
    Reproduce(PlanReproduceArgs),
    /// Measure how fast this machine makes plans.
    Bench(PlanBenchArgs),
}

/// Arguments that describe the network, and how the planner divides its capacity.
#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    /// The topology: .gml or .graphml as in the Topology Zoo, node-link .json, .txt or .xml of
    /// SNDlib, or .graph of REPETITA.
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,
    /// The content providers and their entries (interconnections), in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) providers: PathBuf,
    /// The demands, from each provider to each router: .csv, .json, or of SNDlib or REPETITA.
    #[arg(long, value_name = "FILE", conflicts_with = "gravity")]
    pub(crate) demands: Option<PathBuf>,
    /// Instead of --demands: a gravity model with this total rate, such as "400 Gbit/s".
    #[arg(long, value_name = "RATE")]
    pub(crate) gravity: Option<RateValue>,
    /// The capacity of links without one in the topology [default: unlimited].
    #[arg(long, value_name = "RATE")]
    pub(crate) capacity: Option<RateValue>,
    /// The largest number of aggregate flows; the network is reduced until it has no more.
    #[arg(long, value_name = "N", default_value = "5000")]
    pub(crate) aggregates: NonZeroUsize,
    /// Shortest paths from each entry to each boundary router; 1 keeps the present internal paths.
    #[arg(long, value_name = "K", default_value = "4")]
    pub(crate) paths: NonZeroUsize,
    /// The rule by which capacity is divided.
    #[arg(long, value_enum, default_value_t = Fairness::Wba)]
    pub(crate) fairness: Fairness,
    /// The factor between two steps of fairness: nearer to 1 is fairer and slower.
    #[arg(long, value_name = "FACTOR", default_value = "2", value_parser = step_factor)]
    pub(crate) factor: f64,
    /// The number of fairness steps.
    #[arg(
        long,
        value_name = "N",
        default_value = "5",
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    pub(crate) steps: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SolveArgs {
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// The routing that may change.
    #[arg(long, value_enum, default_value_t = PlanScope::All)]
    pub(crate) scope: PlanScope,
    /// Split each aggregate flow into N parts with one path each; 1 keeps it on one path [default:
    /// split freely].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) sub_flows: Option<u16>,
    /// Write the whole plan to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the plan to this file, as a page with flow diagrams and what changes.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct HintsArgs {
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// The users' prefixes: .csv with the columns prefix, router and, if known, share.
    #[arg(long, value_name = "FILE")]
    pub(crate) prefixes: PathBuf,
    /// The hints in force, as `--write` left them; if the file is missing there are none.
    #[arg(long, value_name = "FILE")]
    pub(crate) last: Option<PathBuf>,
    /// Store the result as the hints in force, in the file of --last. Without this option nothing
    /// changes.
    #[arg(long, requires = "last")]
    pub(crate) write: bool,
    /// Give a neighbour new hints only if they add at least this share to the carried traffic.
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = share)]
    pub(crate) gain: f64,
    /// Withdraw a neighbour's hints if no more than this share would be lost without them.
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = share)]
    pub(crate) release: f64,
    /// The form of the output.
    #[arg(long, value_enum, default_value_t = HintsForm::Table)]
    pub(crate) show: HintsForm,
    /// Print the hints of this neighbour only; `json` and `alto` then have only what the neighbour
    /// itself may see.
    #[arg(long, value_name = "NAME")]
    pub(crate) neighbour: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    /// The topology: .gml or .graphml as in the Topology Zoo, node-link .json, .txt or .xml of
    /// SNDlib, or .graph of REPETITA.
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,
    /// The content providers and their entries (interconnections), in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) providers: PathBuf,
    /// The users' prefixes: .csv with the columns prefix, router and, if known, share.
    #[arg(long, value_name = "FILE")]
    pub(crate) prefixes: PathBuf,
    /// The routers that export flow records, with their interfaces to providers.
    #[arg(long, value_name = "FILE")]
    pub(crate) exporters: PathBuf,
    /// Files of IPFIX or NetFlow messages, or packet captures of these or of sFlow (pcap, pcapng);
    /// also compressed by gzip. All are read as one.
    #[arg(value_name = "MESSAGES", required_unless_present = "listen")]
    pub(crate) files: Vec<PathBuf>,
    /// The exporter of message files that are not captures; needed if there is more than one
    /// exporter.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) exporter: Option<IpAddr>,
    /// The files are of another collector: `goflow2` (its format `bin`) or `akvorado` (messages of
    /// its topic, each with its length as a varint in front).
    #[arg(long, value_name = "COLLECTOR", conflicts_with_all = ["listen", "exporter"])]
    pub(crate) relay: Option<Relay>,
    /// Receive messages at this UDP address for the window and the delay; may be given several
    /// times.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        conflicts_with_all = ["files", "end", "exporter"]
    )]
    pub(crate) listen: Vec<SocketAddr>,
    /// The length of the window [default: all of the files; 5 min with --listen].
    #[arg(long, value_name = "TIME")]
    pub(crate) window: Option<DurationValue>,
    /// How late traffic is reported at most: the routers' active timeout.
    #[arg(long, value_name = "TIME", default_value = "1 min")]
    pub(crate) delay: DurationValue,
    /// The end of the window, such as 2026-11-22T13:05:00Z [default: --delay before the last
    /// message].
    #[arg(long, value_name = "TIME", value_parser = forebay_plan::flows::time::parse)]
    pub(crate) end: Option<i64>,
    /// Write the demands to this file: .csv or .json.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write the prefixes with their measured shares to this file, as .csv.
    #[arg(long, value_name = "FILE")]
    pub(crate) shares: Option<PathBuf>,
    /// Write the whole report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HintsForm {
    /// A table of the changes.
    Table,
    /// All hints, as JSON.
    Json,
    /// BGP announcements for each session, as JSON.
    Bgp,
    /// The same announcements as lines for ExaBGP.
    Exabgp,
    /// ALTO maps (RFC 7285) for one neighbour, as JSON.
    Alto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Fairness {
    /// Weighted bandwidth allocation: max-min fairness to within the factor of a step.
    Wba,
    /// The same fairness in one linear program, by geometric binning.
    Binning,
    /// No fairness: as much traffic as possible, whoever sends it.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlanScope {
    /// All providers' internal paths, and the entries of participating providers.
    All,
    /// Internal paths and entries of participating providers only.
    Partial,
    /// All providers' internal paths, but no entries.
    Intra,
}

/// Arguments that say how to control GoBGP, and where to record what was announced.
#[derive(Debug, Args)]
pub(crate) struct SpeakerArgs {
    /// The record of all announcements, from which they can be withdrawn after a crash too.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: PathBuf,
    /// The GoBGP command to run.
    #[arg(long, value_name = "PROGRAM", default_value = "gobgp")]
    pub(crate) gobgp: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct AnnounceArgs {
    /// The hints, as `forebay plan hints --write` stored them.
    #[arg(long, value_name = "FILE")]
    pub(crate) hints: PathBuf,
    /// The topology that the hints were computed for.
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,
    /// The content providers, with their BGP sessions and speakers.
    #[arg(long, value_name = "FILE")]
    pub(crate) providers: PathBuf,
    #[command(flatten)]
    pub(crate) speaker: SpeakerArgs,
    /// Announce the hints. Without this option nothing is announced.
    #[arg(long)]
    pub(crate) apply: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WithdrawArgs {
    #[command(flatten)]
    pub(crate) speaker: SpeakerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration of the service, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Check the configuration and the files that it names, then stop.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WeightsArgs {
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// The changes of a metric that each pass tries.
    #[arg(long, value_name = "N", default_value = "3000")]
    pub(crate) moves: NonZeroUsize,
    /// The passes; after each the entries are chosen again.
    #[arg(long, value_name = "N", default_value = "3")]
    pub(crate) passes: NonZeroUsize,
    /// The seed of the search.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Keep the scale of the metrics, and change as few as possible.
    #[arg(long)]
    pub(crate) few: bool,
    /// The highest metric that links get [default: that of the routers' OSPF or IS-IS; 65535
    /// without --routers].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_METRIC))]
    pub(crate) most_metric: Option<u32>,
    /// Use the metrics of this file, which an earlier --out wrote, instead of a search.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["few", "out"])]
    pub(crate) metrics: Option<PathBuf>,
    /// The routers with their daemons of OSPF or IS-IS, in TOML: show what would change there, and
    /// in which order.
    #[arg(long, value_name = "FILE")]
    pub(crate) routers: Option<PathBuf>,
    /// Carry the metrics out at the routers.
    #[arg(long, requires = "routers")]
    pub(crate) apply: bool,
    /// Bring back the metrics that the routers had before the first --apply.
    #[arg(long, requires = "routers", conflicts_with_all = ["apply", "metrics", "few", "out", "json"])]
    pub(crate) withdraw: bool,
    /// Carry metrics out although a link is overloaded between two changes, or although they were
    /// changed too often.
    #[arg(long, requires = "apply")]
    pub(crate) anyway: bool,
    /// The traffic that metrics must carry more than the present ones to be carried out, as a share
    /// of the demand.
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = share)]
    pub(crate) gain: f64,
    /// Write the metrics of all links: .csv with the columns from, to, present, metric.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write everything as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct NeighbourArgs {
    /// The configuration of the client, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Carry the hints out once: feed GoBGP, write the file, and report unusable entries.
    #[arg(long)]
    pub(crate) apply: bool,
    /// Carry the hints out again and again until stopped.
    #[arg(long, conflicts_with = "apply")]
    pub(crate) watch: bool,
    /// Take all routes back, and empty the file.
    #[arg(long, conflicts_with_all = ["apply", "watch"])]
    pub(crate) withdraw: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PathsArgs {
    /// The configuration of the client, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Carry the paths out until stopped, and then remove all routes.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Remove all routes that this command has made.
    #[arg(long, conflicts_with = "watch")]
    pub(crate) withdraw: bool,
    /// Write what would change as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["watch", "withdraw"])]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PathsSupervisorArgs {
    /// The configuration of the client, in TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PlanDemoArgs {
    /// The number of ISPs: 1, whose hints go out by BGP, or 2, whose hints five providers fetch.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) isps: u8,
    /// Add faults: programs that are killed, and sessions that flap or say nothing.
    #[arg(long)]
    pub(crate) faults: bool,
    /// Measure for 3 s instead of 8 s.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The directory for the picture of each ISP.
    #[arg(long, value_name = "DIR", default_value = "demo/plan")]
    pub(crate) out: PathBuf,
    /// Write the whole record to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PlanReproduceArgs {
    /// The directory of topologies (.gml, .graphml, .json, .graph); of files with the same stem,
    /// the first in this order is used [default: synthetic topologies].
    #[arg(long, value_name = "DIR")]
    pub(crate) topologies: Option<PathBuf>,
    /// Leave out topologies with more than N routers.
    #[arg(long, value_name = "N")]
    pub(crate) routers: Option<usize>,
    /// Run with seeds 1 to N.
    #[arg(
        long,
        value_name = "N",
        default_value = "5",
        value_parser = clap::value_parser!(u64).range(1..=1000)
    )]
    pub(crate) seeds: u64,
    /// Run nothing; make the page from the stored results.
    #[arg(long, conflicts_with_all = ["topologies", "routers", "seeds", "congestion"])]
    pub(crate) page: bool,
    /// The capacity of links, as a share of the load that the busiest link would have.
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    pub(crate) congestion: f64,
    /// The page to write; pictures and figures go to a directory of the same name beside it.
    #[arg(long, value_name = "FILE.md", default_value = "docs/results/unison.md")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PlanBenchArgs {
    /// Topologies to plan [default: synthetic ones of 11, 200 and 2000 routers].
    #[arg(value_name = "FILE")]
    pub(crate) topologies: Vec<PathBuf>,
    /// Runs of each part; the median is reported.
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) times: NonZeroUsize,
    /// Instead of measuring, write the multi-commodity flow problem of each case and its solution
    /// to this directory, as JSON, so that another solver can check them.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["times", "json"])]
    pub(crate) programs: Option<PathBuf>,
    /// Write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Parses a factor above 1, up to 100: beyond that no step would lie between nothing and all.
fn step_factor(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(factor) if factor > 1.0 && factor <= 100.0 => Ok(factor),
        _ => Err("write a number above 1 and up to 100".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct RoutesArgs {
    /// Table dumps (MRT, TABLE_DUMP or TABLE_DUMP_V2), plain or packed by gzip, bzip2 or zstd; `-`
    /// is standard input.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// List the prefixes that this AS originates, and nothing else.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["topology", "next_hops"])]
    pub(crate) origin: Option<u32>,
    /// The topology, as for `plan solve`.
    #[arg(long, value_name = "FILE", required_unless_present = "origin")]
    pub(crate) topology: Option<PathBuf>,
    /// The routers of the routes' next hops: .csv with the columns address and router.
    #[arg(long, value_name = "FILE", required_unless_present = "origin")]
    pub(crate) next_hops: Option<PathBuf>,
    /// Write the prefixes to this file, as .csv for --prefixes [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
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
