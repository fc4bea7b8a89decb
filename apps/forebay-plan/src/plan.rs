//! The commands of the planner.

mod announce;
mod demo;
mod flows;
mod neighbour;
mod paths;
mod routes;
mod serve;
mod weights;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_claims::age::Ages;
use forebay_claims::changed::load_changed;
use forebay_cli::terminal::{Failure, fail, print, print_beside, raised_by_signals, write};
use forebay_config::ConfigError;
use forebay_lab::engine::{EngineError, Interrupt};
use forebay_outcome::{Commit, provenance};
use forebay_plan::allocate::{Binning, Method, Wba};
use forebay_plan::bench::{self, Speed};
use forebay_plan::hints::{self, Hints, alto, bgp};
use forebay_plan::input::{self, MAX_FILE, ProviderFile};
use forebay_plan::network::Network;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{self, Config, Scope};
use forebay_plan::topology::Topology;
use forebay_plan::vswitch;
use forebay_serve::files::replace;
use forebay_study as study;

use crate::cli::{
    Fairness, HintsArgs, HintsForm, NetworkArgs, PlanBenchArgs, PlanCommand, PlanReproduceArgs,
    PlanScope, SolveArgs,
};

pub(crate) fn run(command: &PlanCommand) -> ExitCode {
    let result = match command {
        PlanCommand::Solve(args) => solve(args),
        PlanCommand::Weights(args) => weights::run(args),
        PlanCommand::Hints(args) => hints(args),
        PlanCommand::Flows(args) => flows::run(args),
        PlanCommand::Routes(args) => routes::run(args),
        PlanCommand::Announce(args) => announce::announce(args),
        PlanCommand::Withdraw(args) => announce::withdraw(args),
        PlanCommand::Neighbour(args) => neighbour::run(args),
        PlanCommand::Paths(args) => paths::run(args),
        PlanCommand::PathsSupervisor(args) => return paths::supervisor(args),
        PlanCommand::Serve(args) => return serve::serve(args),
        PlanCommand::Token => return serve::token(),
        PlanCommand::ServeSupervisor(args) => return serve::supervisor(args),
        PlanCommand::Reproduce(args) => reproduce(args),
        PlanCommand::Bench(args) => bench(args),
        PlanCommand::Demo(args) => demo::run(args),
    };
    let Err(e) = result else { return ExitCode::SUCCESS };
    let code = match e.downcast_ref() {
        Some(EngineError::Interrupted) => 130,
        _ if e.is::<ConfigError>() => 2,
        _ => 1,
    };
    fail(e.as_ref(), code)
}

/// Returns the request to end a command early, which Ctrl-C and SIGTERM raise.
fn interrupt() -> Result<Interrupt, Failure> {
    Ok(raised_by_signals(Interrupt::raise)?)
}

/// The network and the provider file, as they were read.
struct Inputs {
    network: Network,
    file: ProviderFile,
}

fn method(args: &NetworkArgs) -> Method {
    let bounds = Wba { factor: args.factor, steps: args.steps };
    match args.fairness {
        Fairness::Wba => Method::Wba(bounds),
        Fairness::Binning => Method::Binning(Binning { bounds, ..Binning::default() }),
        Fairness::None => Method::Most,
    }
}

fn solve(args: &SolveArgs) -> Result<(), Failure> {
    let (limit, paths) = (args.network.aggregates.get(), args.network.paths);
    let Inputs { network, .. } = inputs(&args.network)?;
    let map = vswitch::map(&network, limit);
    let (core, lost) = map.core(&network);
    tracing::debug!(hops = map.hops, aggregates = map.aggregates, lost, "the core");
    let config = Config {
        method: method(&args.network),
        scope: match args.scope {
            PlanScope::All => Scope::All,
            PlanScope::Partial => Scope::Partial,
            PlanScope::Intra => Scope::Intra,
        },
        sub_flows: args.sub_flows,
        paths,
    };
    let report = plan::plan(&core, &mut PathCache::new(paths), &config)?;
    let text = format!("{report}{}", of_the_core(map.hops, map.aggregates, limit, lost));
    print_beside(args.json.as_deref(), &text)?;
    if let Some(json) = &args.json {
        write_json(json, &report)?;
    }
    if let Some(html) = &args.html {
        write(html, &report.html())?;
    }
    Ok(())
}

fn hints(args: &HintsArgs) -> Result<(), Failure> {
    if args.release >= args.gain {
        let message = "--release must be below --gain, or hints would alternate";
        return Err(message.into());
    }
    let Inputs { network, file } = inputs(&args.network)?;
    let text = forebay_input::text(&args.prefixes, MAX_FILE)?;
    let prefixes = input::prefixes(&args.prefixes, &text, &network.topology)?;
    let last = match &args.last {
        Some(path) if path.exists() => hints::read(path, &forebay_input::text(path, MAX_FILE)?)?,
        _ => Hints::default(),
    };
    let (limit, paths) = (args.network.aggregates.get(), args.network.paths);
    let map = vswitch::map(&network, limit);
    let (core, lost) = map.core(&network);
    let setting = hints::Setting {
        network: &core,
        map: &map,
        prefixes: &prefixes,
        profiles: &file.profiles,
        asn: file.asn,
    };
    let plan = Config { method: method(&args.network), scope: Scope::All, sub_flows: None, paths };
    let config = hints::Config { plan, gain: args.gain, release: args.release };
    let mut found = hints::hints(setting, &mut PathCache::new(paths), &config, &last)?;
    let whole = found.clone();
    if let Some(name) = &args.neighbour {
        if !network.providers.iter().any(|p| p.name == *name) {
            return Err(format!(
                "{}: there is no provider {name:?}",
                args.network.providers.display()
            )
            .into());
        }
        found.neighbours.retain(|n| n.name == *name);
    }
    let announcements = || bgp::announcements(&found, &core, &file.profiles, file.asn);
    let text = match (args.show, &args.neighbour) {
        (HintsForm::Table, _) => {
            format!("{found}{}", of_the_core(map.hops, map.aggregates, limit, lost))
        }
        (HintsForm::Json, None) => json(&found)?,
        (HintsForm::Bgp, _) => json(&announcements())?,
        (HintsForm::Exabgp, _) => bgp::exabgp(&announcements(), false),
        (HintsForm::Json | HintsForm::Alto, Some(name)) => {
            let own = found.of(name).cloned().unwrap_or_else(|| hints::Neighbour::none(name));
            match core.providers.iter().position(|p| p.name == *name) {
                Some(number) if args.show == HintsForm::Alto => {
                    json(&alto::maps(&own, &core, &file.profiles[number], number))?
                }
                _ => json(&own.published())?,
            }
        }
        (HintsForm::Alto, None) => {
            return Err("ALTO maps are for one neighbour: name it with --neighbour NAME".into());
        }
    };
    print(&text)?;
    match &args.last {
        Some(path) if args.write => Ok(replace(path, &json(&whole)?)
            .map_err(|e| format!("cannot write {}: {e}", path.display()))?),
        _ => Ok(()),
    }
}

/// Describes the reduction to aggregate flows, for the operator.
fn of_the_core(hops: u32, aggregates: usize, limit: usize, lost: usize) -> String {
    let mut text =
        format!("{aggregates} aggregate flows; the core reaches {hops} hops from the entries.\n");
    if aggregates > limit {
        text += &format!("That is more than {limit}, but no further reduction is possible.\n");
    }
    if lost > 0 {
        text += &format!("{lost} demands are left out: no entry reaches their routers.\n");
    }
    text
}

fn inputs(args: &NetworkArgs) -> Result<Inputs, Failure> {
    let mut topology = topology(&args.topology)?;
    if let Some(capacity) = args.capacity {
        topology.set_capacities(|_, link| link.capacity.or(Some(capacity.0)));
    }
    let file = input::providers(
        &args.providers,
        &forebay_input::text(&args.providers, MAX_FILE)?,
        &topology,
    )?;
    let demands = match (&args.demands, args.gravity) {
        (Some(path), _) => {
            let text = forebay_input::text(path, MAX_FILE)?;
            input::demands(path, &text, &file.providers, &topology)?
        }
        (None, Some(total)) => input::gravity(total.0, &file, &topology),
        (None, None) => {
            return Err(
                "demands are missing: give --demands FILE, or --gravity RATE for a model".into()
            );
        }
    };
    let network =
        Network { topology, providers: file.providers.clone(), demands, avoided: BTreeSet::new() };
    Ok(Inputs { network, file })
}

fn topology(path: &Path) -> Result<Topology, ConfigError> {
    input::topology(path, &forebay_input::text(path, MAX_FILE)?)
}

fn bench(args: &PlanBenchArgs) -> Result<(), Failure> {
    let cases = match args.topologies.as_slice() {
        [] => bench::cases(),
        files => files.iter().map(|f| topology(f)).collect::<Result<_, _>>()?,
    };
    if let Some(dir) = &args.programs {
        fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
        for (case, at) in cases.into_iter().zip(1..) {
            write_json(&dir.join(format!("{at}.json")), &bench::program(case)?)?;
        }
        return Ok(());
    }
    let mut speeds = Vec::new();
    for case in cases {
        tracing::debug!(case = case.name(), "measuring");
        speeds.push(bench::measure(case, args.times)?);
    }
    print_beside(args.json.as_deref(), &bench::text(&speeds))?;
    match &args.json {
        Some(json) => write_json::<Vec<Speed>>(json, &speeds),
        None => Ok(()),
    }
}

/// Extensions of topology files; of files with the same stem, the first extension wins.
const ENDS: [&str; 4] = ["gml", "graphml", "json", "graph"];

fn topologies(dir: &Path) -> Result<Vec<Topology>, Failure> {
    let unread = |e: io::Error| format!("cannot read {}: {e}", dir.display());
    let mut files: BTreeMap<String, (usize, PathBuf)> = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let end = forebay_input::extension(&path);
        let Some(rank) = ENDS.iter().position(|e| Some(*e) == end) else { continue };
        let name = forebay_input::stem(&path).unwrap_or_default().to_string_lossy().into_owned();
        if files.get(&name).is_none_or(|(other, _)| rank < *other) {
            files.insert(name, (rank, path));
        }
    }
    if files.is_empty() {
        return Err(format!("no topologies in {}", dir.display()).into());
    }
    files.into_iter().map(|(name, (_, path))| Ok(topology(&path)?.named(&name))).collect()
}

fn reproduce(args: &PlanReproduceArgs) -> Result<(), Failure> {
    let page = &args.out;
    let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if page.extension().is_none_or(|e| e != "md") || name.is_empty() {
        return Err(format!("{}: the name of the page must end in .md", page.display()).into());
    }
    let dir = page.with_extension("");
    let stored = dir.join("results.json");
    let results = if args.page {
        let text = forebay_input::text(&stored, MAX_FILE)?;
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", stored.display()))?
    } else {
        let results = run_study(args)?;
        fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
        write_json(&stored, &results)?;
        results
    };
    for (picture, svg) in study::pictures(&results) {
        write(&dir.join(format!("{picture}.svg")), &svg)?;
    }
    // Explanations of figures outside a band are written by hand, and kept.
    let notes = fs::read_to_string(dir.join("notes.md")).unwrap_or_default();
    let changed = load_changed(&dir.join("changed.toml"))?;
    let ages = match study::ages(&results, Path::new(EXPERIMENTS))? {
        Some(ages) => {
            ages.save(&dir)?;
            ages
        }
        None => Ages::load(&dir)?,
    };
    write(page, &study::page(&results, &notes, &changed, &ages, &name))?;
    print(&format!("{}. The page: {}\n", study::tally(&results).sentence(), page.display()))?;
    Ok(())
}

/// Where `unchanged.toml` is, which ages depend on.
const EXPERIMENTS: &str = "experiments";

/// Runs the study.
fn run_study(args: &PlanReproduceArgs) -> Result<study::Results, Failure> {
    let mut topologies = match &args.topologies {
        Some(dir) => topologies(dir)?,
        None => study::made_up(),
    };
    topologies.retain(|t| args.routers.is_none_or(|most| t.routers().len() <= most));
    if topologies.is_empty() {
        return Err("all topologies have more routers than --routers allows".into());
    }
    if let Some(small) = topologies.iter().find(|t| t.routers().len() < 3) {
        return Err(format!("{} has fewer than three routers", small.name()).into());
    }
    let setup = study::Setup {
        topologies: &topologies,
        seeds: args.seeds,
        congestion: args.congestion,
        routers: args.routers,
    };
    let results = study::run(&setup, args.topologies.is_none(), &|what| tracing::info!("{what}"))?;
    Ok(study::Results {
        date: provenance::today(),
        commit: Commit::of_checkout(Path::new(".")),
        machine: provenance::machine(),
        load: provenance::load(),
        ..results
    })
}

fn write_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), Failure> {
    write(path, &json(value)?)
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduction_above_the_limit_is_reported() {
        assert!(of_the_core(0, 9, 5, 2).contains("more than 5"));
        assert!(of_the_core(0, 9, 5, 2).contains("2 demands are left out"));
        assert!(!of_the_core(3, 9, 10, 0).contains("more than"));
    }

    #[test]
    fn a_report_is_json() {
        let network = Network {
            topology: Topology::new(String::new(), Vec::new(), Vec::new(), Vec::new()),
            providers: Vec::new(),
            demands: Vec::new(),
            avoided: BTreeSet::new(),
        };
        let paths = std::num::NonZeroUsize::MIN;
        let config = Config { method: Method::Most, scope: Scope::All, sub_flows: None, paths };
        let report = plan::plan(&network, &mut PathCache::new(paths), &config).unwrap();
        assert!(serde_json::to_string(&report).unwrap().starts_with("{\"version\":1,"));
    }
}
