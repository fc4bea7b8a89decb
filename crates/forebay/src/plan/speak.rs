//! Announcing by GoBGP, through its own command (docs/decisions/0027-gobgp-by-its-command.md).

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_config::read_text;
use forebay_plan::hints::speak::{Journal, Line, Step, arguments, steps};
use forebay_plan::hints::{self, bgp};
use forebay_plan::input::{self, LARGEST};
use forebay_plan::network::Network;

use super::{Failure, print, replace, topology};
use crate::cli::{AnnounceArgs, SpeakArgs, WithdrawArgs};

/// A speaker that has not answered by then does not.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);

pub(super) fn announce(args: &AnnounceArgs) -> Result<(), Failure> {
    let topology = topology(&args.topology)?;
    let file = input::providers(&args.providers, &read_text(&args.providers, LARGEST)?, &topology)?;
    let hints = hints::read(&args.hints, &read_text(&args.hints, LARGEST)?)?;
    let network = Network { topology, providers: file.providers, demands: Vec::new() };
    let wanted = bgp::announcements(&hints, &network, &file.profiles, file.asn);
    let silent = wanted.iter().filter(|a| a.speaker.is_none()).count();
    if silent > 0 {
        print(&format!(
            "{silent} announcements are in sessions without a `speaker`: they are left out.\n"
        ))?;
    }
    let journal = read(&args.speak.journal)?;
    let steps = steps(&journal, &wanted);
    if args.apply {
        return run(&args.speak, journal, &steps);
    }
    for step in &steps {
        print(&format!("would {}\n", words(step)))?;
    }
    print(&format!("{} steps; `--apply` takes them.\n", steps.len()))?;
    Ok(())
}

pub(super) fn withdraw(args: &WithdrawArgs) -> Result<(), Failure> {
    let journal = read(&args.speak.journal)?;
    let steps = steps(&journal, &[]);
    run(&args.speak, journal, &steps)
}

fn read(path: &Path) -> Result<Journal, Failure> {
    match path.exists() {
        true => Ok(Journal::read(path, &read_text(path, LARGEST)?)?),
        false => Ok(Journal::default()),
    }
}

fn words(step: &Step) -> String {
    let (verb, a) = match step {
        Step::Announce(a) => ("announce", a),
        Step::Withdraw(a) => ("withdraw", a),
    };
    format!("{verb} {} to {} at {}", a.prefix, a.neighbour, a.entry)
}

/// Takes all steps that can be taken. What fails is said, and stays in the journal.
fn run(args: &SpeakArgs, mut journal: Journal, steps: &[Step]) -> Result<(), Failure> {
    if steps.is_empty() {
        print("Nothing to do.\n")?;
        return Ok(());
    }
    // Short, and without a line that a crash has torn.
    replace(&args.journal, &journal.text())?;
    let unwritten = |e| format!("cannot write {}: {e}", args.journal.display());
    let mut file = OpenOptions::new().append(true).open(&args.journal).map_err(unwritten)?;
    let mut put = |line: &Line| -> Result<(), String> {
        let written = file.write_all(line.text().as_bytes()).and_then(|()| file.sync_data());
        journal.note(line);
        written.map_err(unwritten)
    };
    let mut failed = 0;
    for step in steps {
        if let Step::Announce(a) = step {
            put(&Line::Begun(a.clone()))?;
        }
        match arguments(step).map_or(Err("has no speaker".to_owned()), |a| tell(&args.gobgp, &a)) {
            Ok(()) => {
                put(&Line::Done(step.clone()))?;
                print(&format!("{}\n", words(step)))?;
            }
            Err(why) => {
                failed += 1;
                eprintln!("forebay: cannot {}: {why}", words(step));
            }
        }
    }
    match failed {
        0 => Ok(()),
        n => Err(format!("{n} of {} steps failed: run it again", steps.len()).into()),
    }
}

/// Runs GoBGP's command; if it fails, what it says.
fn tell(gobgp: &Path, arguments: &[String]) -> Result<(), String> {
    let child = Command::new(gobgp)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|e| format!("{} cannot be run: {e}", gobgp.display()))?;
    let end = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(said(&mut child)),
            None if Instant::now() < end => thread::sleep(LOOK),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {} s", PATIENCE.as_secs()));
            }
        }
    }
}

/// The beginning of what a command has said, as one line.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    let mut take = |from: Option<&mut dyn Read>| {
        if let Some(from) = from {
            let mut bytes = Vec::new();
            let _ = from.take(400).read_to_end(&mut bytes);
            text += &String::from_utf8_lossy(&bytes);
        }
    };
    take(child.stderr.as_mut().map(|s| s as &mut dyn Read));
    take(child.stdout.as_mut().map(|s| s as &mut dyn Read));
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it failed and said nothing".to_owned() } else { line }
}
