//! `forebay plan demo`: hints move traffic between BGP daemons.

use std::time::Instant;

use forebay_cli::terminal::{note, print_beside, write};
use forebay_interconnect::{self as interconnect, Options};

use super::{Failure, interrupt};
use crate::cli::PlanDemoArgs;

pub(super) fn run(args: &PlanDemoArgs) -> Result<(), Failure> {
    let interrupt = interrupt()?;
    let begin = Instant::now();
    let mut say = |what: &str| note(&format!("{:6.1} s  {what}", begin.elapsed().as_secs_f64()));
    let options = Options { faults: args.faults, quick: args.quick };
    if args.isps > 1 {
        let several = interconnect::tell_of_two(&options, &interrupt, &mut say)?;
        let mut text = format!("\n{several}");
        for (name, record) in &several.isps {
            let picture = args.out.join(format!("throughput-{name}.svg"));
            write(&picture, &record.picture())?;
            text += &format!("The picture of {name}: {}\n", picture.display());
        }
        return finish(args, &text, &several, several.holds());
    }
    let record = interconnect::tell(&options, &interrupt, &mut say)?;
    let picture = args.out.join("throughput.svg");
    write(&picture, &record.picture())?;
    let text = format!("\n{record}The picture: {}\n", picture.display());
    finish(args, &text, &record, record.holds())
}

/// Prints a record as text, and writes it as JSON if that is wanted.
fn finish(
    args: &PlanDemoArgs,
    text: &str,
    record: &impl serde::Serialize,
    holds: bool,
) -> Result<(), Failure> {
    print_beside(args.json.as_deref(), text)?;
    if let Some(json) = &args.json {
        write(json, &(serde_json::to_string_pretty(record)? + "\n"))?;
    }
    match holds {
        true => Ok(()),
        false => Err("a check failed: see the lines with NO".into()),
    }
}
