//! `forebay plan weights`: metrics of OSPF or IS-IS in place of the plan's paths.

use forebay_plan::plan::{Config, Scope};
use forebay_plan::weights::{Search, search};

use super::{Failure, Inputs, inputs, method, write, write_json};
use crate::cli::WeightsArgs;
use crate::terminal::print_beside;

pub(super) fn run(args: &WeightsArgs) -> Result<(), Failure> {
    let Inputs { network, .. } = inputs(&args.network)?;
    let limit = args.network.aggregates.get();
    let flows = network.demands.len();
    // Metrics change the paths to all routers, so that the network cannot be reduced.
    if flows > limit {
        let message = format!(
            "there are {flows} demands, more than the {limit} of --aggregates: raise it, and expect \
             a longer search"
        );
        return Err(message.into());
    }
    let config = Config {
        method: method(&args.network),
        scope: Scope::All,
        sub_flows: None,
        paths: args.network.paths,
    };
    let wanted = Search { moves: args.moves.get(), passes: args.passes.get(), seed: args.seed };
    let report = search(&network, &config, &wanted)?;
    print_beside(args.json.as_deref(), &report.to_string())?;
    if let Some(out) = &args.out {
        write(out, &report.csv())?;
    }
    match &args.json {
        Some(json) => write_json(json, &report),
        None => Ok(()),
    }
}
