//! `forebay plan neighbour`: the client of a content provider.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use forebay_cli::terminal::{print, warn};
use forebay_lab::engine::{EngineError, Interrupt};
use forebay_plan::hints::announce::Step;
use forebay_serve::neighbour::follow::{Declined, Silence};
use forebay_serve::neighbour::{Applied, Client, Error, Fetched};
use forebay_serve::speaker::{self, AnnounceOutcome};

use super::{Failure, interrupt};
use crate::cli::NeighbourArgs;

/// Changes and refused hints that are printed one by one; the rest is counted.
const ROWS: usize = 20;
/// The interval at which a waiting command checks whether it should end.
const POLL: Duration = Duration::from_millis(100);

pub(super) fn run(args: &NeighbourArgs) -> Result<(), Failure> {
    let mut client = Client::new(&args.config).map_err(cause)?;
    if args.withdraw {
        return done(client.withdraw(&mut tell)?);
    }
    if args.watch {
        return watch(&mut client);
    }
    let fetched = client.fetch().map_err(cause)?;
    print(&text(&fetched, if args.apply { "" } else { "would " }))?;
    if !args.apply {
        return Ok(print("Nothing was changed; run again with `--apply`.\n")?);
    }
    apply(&client, &fetched)
}

/// Returns the failure of the command, whose status says whether the user's files are wrong.
fn cause(error: Error) -> Failure {
    match error {
        Error::Config(e) => e.into(),
        other => other.into(),
    }
}

/// Follows the hints until it is stopped. What is in force then stays.
fn watch(client: &mut Client) -> Result<(), Failure> {
    let interrupt = interrupt()?;
    let raised = interrupt.clone();
    client.stop_when(move || raised.is_raised());
    let start = Instant::now();
    let config = client.config();
    let mut silence = Silence::new(config.hold, Duration::ZERO);
    loop {
        match client.fetch() {
            Ok(fetched) => {
                silence.answered(start.elapsed());
                if !fetched.changes.is_empty() {
                    print(&text(&fetched, ""))?;
                }
                if let Err(e) = apply(client, &fetched) {
                    warn(format_args!("{e}"));
                }
            }
            Err(_) if interrupt.is_raised() => {}
            Err(e) => {
                warn(format_args!("{e}"));
                if silence.is_over(start.elapsed()) {
                    let hold = config.hold.as_secs();
                    warn(format_args!("no answer for {hold} s: hints are no longer followed"));
                    if let Err(e) = done(client.withdraw(&mut tell)?) {
                        warn(format_args!("{e}"));
                    }
                }
            }
        }
        wait(&interrupt, config.every)?;
    }
}

fn wait(interrupt: &Interrupt, time: Duration) -> Result<(), Failure> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if interrupt.is_raised() {
            return Err(EngineError::Interrupted.into());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

fn apply(client: &Client, fetched: &Fetched) -> Result<(), Failure> {
    let Applied { announced, reported } = client.apply(fetched, &mut tell)?;
    if let Some(Err(why)) = reported {
        warn(format_args!("entries that cannot be used were not reported: {why}"));
    }
    done(announced)
}

fn done(outcome: Option<AnnounceOutcome>) -> Result<(), Failure> {
    match outcome {
        Some(AnnounceOutcome { done, failed: failed @ 1.. }) => {
            Err(format!("{failed} of {} steps failed: run it again", done + failed).into())
        }
        _ => Ok(()),
    }
}

/// Reports a step of GoBGP that failed. Changes were printed before.
fn tell(step: &Step, why: Option<&str>) {
    if let Some(why) = why {
        warn(format_args!("cannot {}: {why}", speaker::describe(step)));
    }
}

/// Describes what changes. Each line starts with `verb`.
fn text(fetched: &Fetched, verb: &str) -> String {
    let mut text = String::new();
    let all = fetched.followed.hints.len();
    for change in fetched.changes.iter().take(ROWS) {
        let _ = writeln!(text, "{verb}{change}");
    }
    if let Some(more @ 1..) = fetched.changes.len().checked_sub(ROWS) {
        let _ = writeln!(text, "and {more} more");
    }
    for Declined { hint, why } in fetched.followed.declined.iter().take(ROWS) {
        let _ = writeln!(text, "leave out {} through {}: {why}", hint.prefix, hint.entry);
    }
    if let Some(more @ 1..) = fetched.followed.declined.len().checked_sub(ROWS) {
        let _ = writeln!(text, "and {more} more");
    }
    if fetched.program.is_some() {
        let _ = writeln!(text, "{verb}report the entries that cannot be used");
    }
    let _ = writeln!(
        text,
        "{} changes; {all} hints (version {} of {})",
        fetched.changes.len(),
        fetched.hints.version,
        fetched.hints.at
    );
    text
}
