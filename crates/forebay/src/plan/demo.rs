//! `forebay plan demo`: hints move traffic between BGP daemons.

use std::time::Instant;

use forebay_interconnect::{self as interconnect, Options};

use super::Failure;
use crate::cli::PlanDemoArgs;
use crate::terminal::{interrupt, note, print_beside, write};

pub(super) fn run(args: &PlanDemoArgs) -> Result<(), Failure> {
    let interrupt = interrupt()?;
    let begin = Instant::now();
    let mut say = |what: &str| note(&format!("{:6.1} s  {what}", begin.elapsed().as_secs_f64()));
    let options = Options { faults: args.faults, quick: args.quick };
    let record = interconnect::tell(&options, &interrupt, &mut say)?;
    let picture = args.out.join("throughput.svg");
    write(&picture, &record.picture())?;
    let text = format!("\n{record}The picture: {}\n", picture.display());
    print_beside(args.json.as_deref(), &text)?;
    if let Some(json) = &args.json {
        write(json, &(serde_json::to_string_pretty(&record)? + "\n"))?;
    }
    match record.holds() {
        true => Ok(()),
        false => Err("a check failed: see the lines with NO".into()),
    }
}
