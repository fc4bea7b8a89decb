//! `forebay plan paths`: carries out the plan's paths at an ingress router.

use std::fmt::Write as _;
use std::process::ExitCode;

use forebay_cli::terminal::{fail, note, print_beside, warn};
use forebay_serve::ingress::config::Config;
use forebay_serve::ingress::linux::Linux;
use forebay_serve::ingress::{Error, Event, Looked, look, supervise, watch, withdraw};
use forebay_system::privileges;
use serde_json::json;

use super::{Failure, interrupt, write_json};
use crate::cli::{PathsArgs, PathsSupervisorArgs};

/// Changes, and reasons for prefixes that are not steered, that are printed one by one.
const ROWS: usize = 100;

pub(super) fn run(args: &PathsArgs) -> Result<(), Failure> {
    let config = Config::load(&args.config)?;
    let linux = Linux::default();
    if args.watch {
        let interrupt = interrupt()?;
        let stopped = || interrupt.is_raised();
        return watch(&args.config, &config, &linux, true, &stopped, &mut tell).map_err(cause);
    }
    if args.withdraw {
        return withdraw(&args.config, &config, &linux, &mut tell).map_err(cause);
    }
    let looked = look(&config, &linux).map_err(cause)?;
    print_beside(args.json.as_deref(), &text(&looked))?;
    match &args.json {
        Some(path) => {
            let changes: Vec<String> = looked.changes.iter().map(ToString::to_string).collect();
            let value = json!({
                "version": 1,
                "round": looked.plan.round,
                "changes": changes,
                "not_steered": looked.target.reasons,
            });
            write_json(path, &value)
        }
        None => Ok(()),
    }
}

pub(super) fn supervisor(args: &PathsSupervisorArgs) -> ExitCode {
    privileges::protect();
    match supervise(&args.config, &mut tell) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, e.exit_code()),
    }
}

/// Returns the failure of the command, whose status says whether the user's files are wrong.
fn cause(error: Error) -> Failure {
    match error {
        Error::Config(e) => e.into(),
        other => other.into(),
    }
}

fn tell(event: Event) {
    match event {
        // `note` never waits for a reader, so that routes are removed in time.
        Event::Done(change) => note(&change.to_string()),
        Event::Failed(change, why) => warn(format_args!("cannot {change}: {why}")),
        Event::Trouble(what) => warn(format_args!("{what}")),
    }
}

/// Describes what would change.
fn text(looked: &Looked) -> String {
    let mut text = String::new();
    for change in looked.changes.iter().take(ROWS) {
        let _ = writeln!(text, "would {change}");
    }
    if let Some(more @ 1..) = looked.changes.len().checked_sub(ROWS) {
        let _ = writeln!(text, "and {more} more");
    }
    for (prefix, why) in looked.target.reasons.iter().take(ROWS) {
        let _ = writeln!(text, "leave {prefix} to the IGP: {why}");
    }
    if let Some(more @ 1..) = looked.target.reasons.len().checked_sub(ROWS) {
        let _ = writeln!(text, "and {more} more");
    }
    let (changes, routes) = (looked.changes.len(), looked.target.routes.len());
    let _ = writeln!(
        text,
        "{changes} changes; {routes} routes in round {}. Nothing was changed; `--watch` carries \
         them out.",
        looked.plan.round
    );
    text
}
