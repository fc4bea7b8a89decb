//! `forebay plan announce` and `forebay plan withdraw`.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_cli::terminal::warn;
use forebay_plan::hints;
use forebay_plan::hints::announce::steps;
use forebay_plan::hints::bgp::{self, Announcement};
use forebay_plan::input::{self, MAX_FILE};
use forebay_plan::network::Network;
use forebay_serve::speaker::{self, Speaker};

use super::{Failure, print, topology};
use crate::cli::{AnnounceArgs, SpeakerArgs, WithdrawArgs};

pub(super) fn announce(args: &AnnounceArgs) -> Result<(), Failure> {
    let topology = topology(&args.topology)?;
    let file = input::providers(
        &args.providers,
        &forebay_input::text(&args.providers, MAX_FILE)?,
        &topology,
    )?;
    let hints = hints::read(&args.hints, &forebay_input::text(&args.hints, MAX_FILE)?)?;
    let (demands, avoided) = (Vec::new(), BTreeSet::new());
    let network = Network { topology, providers: file.providers, demands, avoided };
    let wanted = bgp::announcements(&hints, &network, &file.profiles, file.asn);
    let silent = wanted.iter().filter(|a| a.speaker.is_none()).count();
    if silent > 0 {
        print(&format!(
            "{silent} announcements are left out: their sessions have no `speaker`.\n"
        ))?;
    }
    if args.apply {
        return run(&args.speaker, &wanted);
    }
    let steps = steps(&speaker::read(&args.speaker.journal)?, &wanted);
    for step in &steps {
        print(&format!("would {}\n", speaker::describe(step)))?;
    }
    print(&format!("{} steps; run again with `--apply` to take them.\n", steps.len()))?;
    Ok(())
}

pub(super) fn withdraw(args: &WithdrawArgs) -> Result<(), Failure> {
    run(&args.speaker, &[])
}

/// Takes all steps that can be taken. Failed steps are reported and stay in the journal.
fn run(args: &SpeakerArgs, wanted: &[Announcement]) -> Result<(), Failure> {
    let speaker = Speaker::new(&args.journal, &args.gobgp, Duration::ZERO)?;
    let mut unsaid = Ok(());
    let told = speaker.announce(wanted, &mut |step, why| match why {
        None if unsaid.is_ok() => unsaid = print(&format!("{}\n", speaker::describe(step))),
        None => {}
        Some(why) => warn(format_args!("cannot {}: {why}", speaker::describe(step))),
    })?;
    unsaid?;
    match (told.done, told.failed) {
        (0, 0) => Ok(print("Nothing to do.\n")?),
        (_, 0) => Ok(()),
        (done, failed) => {
            Err(format!("{failed} of {} steps failed: run it again", done + failed).into())
        }
    }
}
