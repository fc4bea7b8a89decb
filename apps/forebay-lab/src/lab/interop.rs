//! `forebay lab interop`: the network between a client and a server of an interoperability test.

use std::path::PathBuf;

use forebay_cli::terminal::print;
use forebay_lab::interop::Network;
use forebay_lab::link;
use forebay_system::signals::Signals;

use super::Failure;
use crate::cli::InteropArgs;

/// The variable with the scenario, as in the QUIC network simulator.
const VARIABLE: &str = "SCENARIO";

/// Joins the two interfaces until a signal comes.
pub(super) fn run(args: &InteropArgs) -> Result<(), Failure> {
    let scenario = match &args.scenario {
        Some(scenario) => scenario.clone(),
        None => std::env::var(VARIABLE).unwrap_or_default(),
    };
    let network = Network::parse(&scenario)?;
    let interfaces = [args.left.clone(), args.right.clone()];
    let counters = args.counters.clone().unwrap_or_else(|| PathBuf::from("/dev/null"));
    let spec = network.spec(interfaces, args.policy, args.seed, counters)?;
    let signals = Signals::block()?;
    // A closed standard output is no error.
    let ready = || drop(print("{\"event\":\"ready\"}\n"));
    Ok(link::run(&spec, signals, ready)?)
}
