//! The demonstration, and the commands of the laboratory.

mod compare;
mod harm;
mod interop;
mod reproduce;
mod run;
mod zd;

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_cli::programs::BOXES;
use forebay_cli::terminal::{
    self, Failure, fail, is_standard_output, print, raised_by_signals, warn, write,
};
use forebay_config::ConfigError;
use forebay_lab::analysis::Analysis;
use forebay_lab::demo::{self, Demo, Setting};
use forebay_lab::engine::{EngineError, Interrupt};
use forebay_lab::interop::ScenarioError;
use forebay_lab::netns::{self, Netns};
use forebay_lab::results::{external, store};
use forebay_lab::runner::{self, Options, RunError};
use forebay_lab::sim_engine::Sim;
use forebay_lab::uml::Uml;
use forebay_lab::{bench, link, report, scenario, traffic};

use crate::cli::{Dataplane, DemoArgs, Engine, LabCommand};

pub(crate) fn demo(args: &DemoArgs) -> ExitCode {
    end(show_demo(args))
}

pub(crate) fn run(command: &LabCommand) -> ExitCode {
    end(match command {
        LabCommand::Run(args) => run::run(args),
        LabCommand::Report { paths, out } => report_on(paths, out.as_deref()),
        LabCommand::Compare(args) => compare::run(args),
        LabCommand::Reproduce(args) => reproduce::run(args),
        LabCommand::Harm(args) => harm::run(args),
        LabCommand::Zd { file, json } => zd::run(file, json.as_deref()),
        LabCommand::Interop(args) => interop::run(args),
        LabCommand::Bench { times, json } => bench(*times, json.as_deref()),
    })
}

/// Checks a scenario file, and says what it has.
pub(crate) fn check(file: &Path) -> ExitCode {
    let checked = || -> Result<(), Failure> {
        let experiment = scenario::load(file)?;
        let arms = experiment.cells.first().map_or(0, |c| c.arms.len());
        let runs = experiment.cells.len() * arms * experiment.seeds.len();
        let s = if runs == 1 { "" } else { "s" };
        // The exit status says it too.
        let _ = print(&format!("{}: valid experiment of {runs} run{s}\n", file.display()));
        Ok(())
    };
    end(checked())
}

pub(crate) fn agent() -> ExitCode {
    traffic::main()
}

pub(crate) fn link_emulator() -> ExitCode {
    match link::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, 1),
    }
}

fn show_demo(args: &DemoArgs) -> Result<(), Failure> {
    let mut setup = demo::setup(args.seed, args.quick)?;
    let fitting = || if args.dataplane == Dataplane::Kernel { Engine::Netns } else { fitting() };
    let engine = engine(args.engine.unwrap_or_else(fitting), args.dataplane)?;
    let interrupt = interrupt()?;
    let (runs, result) = runner::run(&*engine, &setup.experiment, Options::default(), &interrupt);
    result?;
    let quick = if args.quick { " --quick" } else { "" };
    let kernel = if args.dataplane == Dataplane::Kernel { " --dataplane kernel" } else { "" };
    setup.notes.push(format!("The laboratory's engine was `{}`.", engine.name()));
    let demo = Demo::new(
        Setting {
            engine: engine.name().to_owned(),
            offered: setup.offered,
            notes: setup.notes,
            command: format!(
                "forebay demo --engine {}{kernel} --seed {}{quick}",
                engine.name(),
                args.seed
            ),
        },
        &runs,
    )?;
    let page = args.out.join("report.html");
    write(&page, &demo.html())?;
    let table = demo.table(report::colour_wanted());
    let text = format!("{table}\nThe pictures: {}\n", page.display());
    print_report_beside(args.json.as_deref(), &text)?;
    if let Some(json) = &args.json {
        write(json, &demo.json()?)?;
    }
    Ok(())
}

fn report_on(paths: &[PathBuf], out: Option<&Path>) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for path in paths {
        let files = if path.is_dir() { store::files(path)? } else { vec![path.clone()] };
        for file in files {
            // One run at a time, since it is much larger than its analysis.
            match file.extension().is_some_and(|e| e == "jsonl") {
                true => runs.push(Analysis::of(&store::load(&file)?)),
                false => runs.extend(external::load(&file)?.iter().map(Analysis::of)),
            }
        }
    }
    let directory = || paths.iter().find(|p| p.is_dir()).map(PathBuf::as_path);
    let out = out.or_else(directory).unwrap_or(Path::new("."));
    let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    show(&names.join(", "), &runs, Some(out), None)
}

/// Prints the table to standard output, unless JSON goes there, and writes the page to `out`.
fn show(
    title: &str,
    runs: &[Analysis],
    out: Option<&Path>,
    json: Option<&Path>,
) -> Result<(), Failure> {
    let mut text = report::text(runs, report::colour_wanted());
    if let Some(dir) = out {
        let page = dir.join("report.html");
        write(&page, &report::html(title, runs))?;
        text += &format!("\nThe pictures: {}\n", page.display());
    }
    Ok(print_report_beside(json, &text)?)
}

fn engine(
    name: Engine,
    dataplane: Dataplane,
) -> Result<Box<dyn forebay_lab::engine::Engine>, Failure> {
    let packets = match dataplane {
        Dataplane::User => netns::Dataplane::User,
        Dataplane::Kernel => netns::Dataplane::Kernel,
    };
    Ok(match name {
        Engine::Netns => Box::new(Netns { forebay: BOXES.find()?, dataplane: packets }),
        Engine::Uml => Box::new(Uml { forebay: BOXES.find()?, dataplane: packets }),
        Engine::Sim if dataplane == Dataplane::User => Box::new(Sim),
        Engine::Sim => {
            return Err("the simulator has no kernel: use `--dataplane kernel` with `--engine \
            netns` or `--engine uml`"
                .into());
        }
    })
}

/// Returns the request to end a run early, which Ctrl-C and SIGTERM raise.
pub(crate) fn interrupt() -> Result<Interrupt, Failure> {
    Ok(raised_by_signals(Interrupt::raise)?)
}

/// Prints a report with tables, which may have bold type, unless JSON goes to standard output.
fn print_report_beside(json: Option<&Path>, text: &str) -> io::Result<()> {
    if json.is_some_and(is_standard_output) {
        return Ok(());
    }
    terminal::print_as_it_is(&report::printable(text)).map(drop)
}

/// Chooses the engine: this machine's network namespaces if they are usable, else the simulator,
/// with a message.
fn fitting() -> Engine {
    let Err(reason) = netns::usable() else { return Engine::Netns };
    tracing::debug!("{reason}");
    warn(
        "this is the simulator, whose TCP is a model: network namespaces need root. For real \
        Linux TCP, run it with sudo.",
    );
    Engine::Sim
}

/// Measures the speed of the simulator.
fn bench(times: NonZeroUsize, json: Option<&Path>) -> Result<(), Failure> {
    let speeds = bench::run(times, &interrupt()?, |speed| {
        tracing::debug!(case = speed.case, hops_per_s = speed.hops_per_s);
    })?;
    print_report_beside(json, &bench::text(&speeds, report::colour_wanted()))?;
    match json {
        Some(json) => write(json, &(serde_json::to_string_pretty(&speeds)? + "\n")),
        None => Ok(()),
    }
}

/// The exit status: 2 for bad input, 130 for an interruption, as in shells.
fn end(result: Result<(), Failure>) -> ExitCode {
    let Err(e) = result else { return ExitCode::SUCCESS };
    let code = match e.downcast_ref() {
        Some(RunError::Engine(EngineError::Interrupted)) => 130,
        _ if matches!(e.downcast_ref(), Some(EngineError::Interrupted)) => 130,
        _ if e.is::<ScenarioError>() => 2,
        _ if e.is::<ConfigError>() || e.is::<run::Mistakes>() => 2,
        _ => 1,
    };
    fail(e.as_ref(), code)
}
