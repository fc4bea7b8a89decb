//! Commands of traffic engineering: files in, a plan out.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use forebay_config::{ConfigError, read_text};
use forebay_plan::allocate::{Binning, Method, Wba};
use forebay_plan::bench::{self, Speed};
use forebay_plan::input::{self, LARGEST};
use forebay_plan::network::Network;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{self, Config, Scope};
use forebay_plan::topology::Topology;
use forebay_plan::vswitch;

use crate::cli::{Fairness, PlanArgs, PlanBenchArgs, PlanCommand, PlanScope, SolveArgs};
use crate::fail;

type Failure = Box<dyn Error>;

pub(crate) fn run(args: &PlanArgs) -> ExitCode {
    let result = match &args.command {
        PlanCommand::Solve(args) => solve(args),
        PlanCommand::Bench(args) => bench(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(e.as_ref(), if e.is::<ConfigError>() { 2 } else { 1 }),
    }
}

fn solve(args: &SolveArgs) -> Result<(), Failure> {
    let network = network(args)?;
    let map = vswitch::map(&network, args.aggregates.get());
    let (core, lost) = map.core(&network);
    tracing::debug!(hops = map.hops, aggregates = map.aggregates, lost, "the core");
    let bounds = Wba { factor: args.factor, steps: args.steps };
    let config = Config {
        method: match args.fairness {
            Fairness::Wba => Method::Wba(bounds),
            Fairness::Binning => Method::Binning(Binning { bounds, ..Binning::default() }),
            Fairness::None => Method::Most,
        },
        scope: match args.scope {
            PlanScope::All => Scope::All,
            PlanScope::Partial => Scope::Partial,
            PlanScope::Intra => Scope::Intra,
        },
        sub_flows: args.sub_flows,
        paths: args.paths,
    };
    let report = plan::plan(&core, &mut PathCache::new(args.paths), &config)?;
    print(&format!(
        "{report}{}",
        of_the_core(map.hops, map.aggregates, args.aggregates.get(), lost)
    ))?;
    if let Some(json) = &args.json {
        write_json(json, &report)?;
    }
    Ok(())
}

/// What the operator should know of the reduction to aggregate flows.
fn of_the_core(hops: u32, aggregates: usize, limit: usize, lost: usize) -> String {
    let mut text =
        format!("{aggregates} aggregate flows; the core reaches {hops} hops from the entries.\n");
    if aggregates > limit {
        text += &format!(
            "That is more than {limit}, with every entry its own boundary: it cannot be fewer.\n"
        );
    }
    if lost > 0 {
        text += &format!("{lost} demands are left out, since no entry reaches their routers.\n");
    }
    text
}

fn network(args: &SolveArgs) -> Result<Network, Failure> {
    let mut topology = topology(&args.topology)?;
    if let Some(capacity) = args.capacity {
        topology.set_capacities(|_, link| link.capacity.or(Some(capacity.0)));
    }
    let file = input::providers(&args.providers, &read_text(&args.providers, LARGEST)?, &topology)?;
    let demands = match (&args.demands, args.gravity) {
        (Some(path), _) => {
            let text = read_text(path, LARGEST)?;
            let json = path.extension().is_some_and(|e| e == "json");
            let read = if json { input::demands_json } else { input::demands_csv };
            read(path, &text, &file.providers, &topology)?
        }
        (None, Some(total)) => input::gravity(total.0, &file, &topology),
        (None, None) => {
            return Err("say what is sent: --demands FILE, or --gravity RATE for a model".into());
        }
    };
    Ok(Network { topology, providers: file.providers, demands })
}

fn topology(path: &Path) -> Result<Topology, ConfigError> {
    input::topology(path, &read_text(path, LARGEST)?)
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
    print(&bench::text(&speeds))?;
    match &args.json {
        Some(json) => write_json::<Vec<Speed>>(json, &speeds),
        None => Ok(()),
    }
}

fn print(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
}

fn write_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    Ok(fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduction_that_falls_short_is_said() {
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
        };
        let paths = std::num::NonZeroUsize::MIN;
        let config = Config { method: Method::Most, scope: Scope::All, sub_flows: None, paths };
        let report = plan::plan(&network, &mut PathCache::new(paths), &config).unwrap();
        assert!(serde_json::to_string(&report).unwrap().starts_with("{\"version\":1,"));
    }
}
