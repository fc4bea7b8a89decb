//! `forebay lab run`: the runs of a scenario file, with keys that are set on the command line.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

use forebay_cli::terminal::{Failure, warn, write};
use forebay_config::{ConfigError, Setting, likeliest};
use forebay_lab::analysis::Analysis;
use forebay_lab::engine::Engine;
use forebay_lab::results::{Run, export, store};
use forebay_lab::runner::{self, Options};
use forebay_lab::scenario::{self, Experiment};
use forebay_lab::sim_engine::{Capturing, Cut, MAX_CAPTURE};

use crate::cli::{self, Export, RunArgs};

/// Everything that is wrong with a scenario and its settings.
#[derive(Debug)]
pub(super) struct Mistakes(Vec<ConfigError>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        if self.0.len() >= scenario::MAX_ERRORS {
            write!(f, "\nthese are the first {} errors", self.0.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let plain = super::engine(args.engine, args.dataplane)?;
    let capture = args.export.contains(&Export::Pcapng);
    if capture && args.engine != cli::Engine::Sim {
        return Err(
            "only the simulator writes captures: add `--engine sim`, or run `tcpdump` in a \
        namespace of the run"
                .into(),
        );
    }
    let experiment = experiment(args)?;
    let interrupt = super::interrupt()?;
    let keys: Vec<_> = args.axes.iter().flat_map(|axis| axis.0.first()).map(Setting::key).collect();
    let options = Options { keep: args.out.as_deref(), axes: &keys, jobs: args.jobs };
    let capturing = args.out.as_deref().filter(|_| capture);
    let capturing = capturing.map(|dir| Capturing::new(dir, &keys, MAX_CAPTURE));
    let engine = capturing.as_ref().map_or(&*plain, |capturing| capturing as &dyn Engine);
    let failed = Mutex::new(None);
    let (runs, result) = runner::run_for(engine, &experiment, options, &interrupt, &|_, run| {
        if let Err(e) = export(args, &keys, run) {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        }
        Analysis::of(run)
    });
    if !runs.is_empty() {
        super::show(&experiment.title, &runs, options.keep, args.json.as_deref())?;
        if let Some(json) = &args.json {
            let summaries: Vec<_> = runs.iter().map(|Analysis { summary, .. }| summary).collect();
            write(json, &(serde_json::to_string_pretty(&summaries)? + "\n"))?;
        }
    }
    result?;
    for Cut { path, missing } in capturing.iter().flat_map(Capturing::take_cut) {
        warn(format_args!(
            "{} is cut at {} MiB: {missing} packets are missing; make the run shorter",
            path.display(),
            MAX_CAPTURE >> 20
        ));
    }
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(e) => Err(format!("cannot export a run: {e}").into()),
        None => Ok(()),
    }
}

/// Writes `run` beside its records in the formats that are wanted.
fn export(args: &RunArgs, axes: &[&str], run: &Run) -> io::Result<()> {
    let Some(dir) = &args.out else { return Ok(()) };
    for format in &args.export {
        let format = match format {
            Export::Flent => export::Format::Flent,
            Export::Csv => export::Format::Csv,
            // It was written during the run.
            Export::Pcapng => continue,
        };
        export::export(&dir.join(store::path_by(axes, run)), run, format)?;
    }
    Ok(())
}

/// Reads the file with its settings and the axes of the grid, and keeps the arms that are wanted.
fn experiment(args: &RunArgs) -> Result<Experiment, Failure> {
    let settings = args.settings.clone();
    let axes = args.axes.iter().map(|axis| axis.0.iter().map(|s| vec![s.clone()]).collect());
    let mut experiment =
        scenario::load_joined(&args.file, settings, axes.collect()).map_err(Mistakes)?;
    for wanted in &args.arms {
        let names = || experiment.cells.iter().flat_map(|c| &c.arms).map(|arm| arm.name.as_str());
        if names().any(|name| name == wanted) {
            continue;
        }
        let message = match likeliest(wanted, names()) {
            Some(word) => format!("there is no arm `{wanted}`; did you mean `{word}`?"),
            None => format!("there is no arm `{wanted}`"),
        };
        let (file, line, key) = (args.file.clone(), None, "--arm".to_owned());
        return Err(Mistakes(vec![ConfigError { file, line, key, message }]).into());
    }
    if !args.arms.is_empty() {
        for cell in &mut experiment.cells {
            cell.arms.retain(|arm| args.arms.contains(&arm.name));
        }
    }
    Ok(experiment)
}
