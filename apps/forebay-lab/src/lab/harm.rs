//! `forebay lab harm`: the harm map.

use forebay_cli::terminal::print;
use forebay_harm::{Cell, Family, HarmError, HarmMap, Options, draw};

use super::{Failure, engine, interrupt};
use crate::cli::{Dataplane, Engine, HarmArgs};

/// The worst paths that are printed.
const PRINTED: usize = 10;

/// Draws and runs the paths, writes the map and prints its summary. It is an error if more paths
/// are worse than are allowed.
pub(super) fn run(args: &HarmArgs) -> Result<(), Failure> {
    let cells = drawn(args);
    if cells.is_empty() {
        return Err("no path has this number and family: give --cells a larger number".into());
    }
    let options = Options {
        seed: args.seed,
        seeds: args.seeds,
        confirm: args.confirm,
        guard: !args.without_guard,
        cells: args.out.join("cells"),
        jobs: args.jobs,
    };
    let engine = engine(args.engine, Dataplane::User)?;
    let map = forebay_harm::run(&*engine, cells, &options, &interrupt()?).map_err(failure)?;
    let page = map
        .write(&args.out, &command(args, engine.name()))
        .map_err(|e| format!("cannot write the map to {}: {e}", args.out.display()))?;
    print(&summary(&map))?;
    print(&format!("\nThe map: {}\n", page.display()))?;
    let share = map.worse() as f64 / map.cells.len() as f64;
    match args.allow {
        Some(allowed) if share > allowed => Err(format!(
            "{:.1} % of the paths are worse, {} % are allowed",
            share * 100.0,
            allowed * 100.0
        )
        .into()),
        _ => Ok(()),
    }
}

/// An error of a run decides the exit status, so that it is handed on as it is.
fn failure(error: HarmError) -> Failure {
    match error {
        HarmError::Run(error) => error.into(),
        other => other.into(),
    }
}

fn drawn(args: &HarmArgs) -> Vec<Cell> {
    let numbers = match args.cell {
        Some(number) => number..number + 1,
        None => 0..args.cells,
    };
    let wanted = |family: Family| args.families.is_empty() || args.families.contains(&family);
    numbers.map(|number| draw(args.seed, number)).filter(|cell| wanted(cell.family)).collect()
}

/// The command that makes this map again.
fn command(args: &HarmArgs, engine: &str) -> String {
    let HarmArgs { seeds, confirm, seed, .. } = args;
    let mut command = format!("forebay lab harm --seeds {seeds} --confirm {confirm} --seed {seed}");
    match args.cell {
        Some(cell) => command += &format!(" --cell {cell}"),
        None => command += &format!(" --cells {}", args.cells),
    }
    if !args.families.is_empty() {
        let names: Vec<_> = args.families.iter().map(|family| family.name()).collect();
        command += &format!(" --family {}", names.join(","));
    }
    if args.without_guard {
        command += " --without-guard";
    }
    if args.engine != Engine::Sim {
        command += &format!(" --engine {engine}");
    }
    command
}

/// The number that counts, and the worst paths.
fn summary(map: &HarmMap) -> String {
    let total = map.cells.len();
    let mut text = format!(
        "{} of {total} paths ({:.1} %) are worse with Forebay than without a box; {} more are so by \
         chance, and {} more would be so with the same policy at the bottleneck itself.\n",
        map.worse(),
        100.0 * map.worse() as f64 / total as f64,
        map.worse_by_chance(),
        map.worse_by_policy()
    );
    for judged in map.worst_first().into_iter().take(PRINTED) {
        let findings: Vec<_> = judged
            .verdict
            .findings
            .iter()
            .filter(|finding| finding.counts())
            .map(|finding| format!("{} {:.2}", finding.criterion.name(), finding.ratio))
            .collect();
        text += &format!(
            "  {:>5} {:<14} {}: {}\n",
            judged.cell.number,
            judged.cell.family.name(),
            judged.cell,
            findings.join(", ")
        );
    }
    text
}
