//! Searches metrics of OSPF on topologies of your own, and prints which share of the joint plan's
//! traffic they carry.
//!
//! `cargo run --release -p forebay-plan --example metrics -- FILES`
//!
//! Each file is a topology as `forebay plan` reads it; `plane-N` is a generated network of N
//! routers. The traffic is that of `SetUp::default`. The output is Markdown.

mod common;

use std::error::Error;
use std::num::NonZeroUsize;

use forebay_plan::allocate::{Method, Wba};
use forebay_plan::bench::processor_time;
use forebay_plan::plan::{Config, Scope};
use forebay_plan::synthetic::{Draw, SetUp};
use forebay_plan::weights::{Search, search};

/// Returns the median and the lowest of some values.
fn median_and_least(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0])
}

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config {
        method: Method::Wba(Wba::default()),
        scope: Scope::All,
        sub_flows: None,
        paths: NonZeroUsize::MIN.saturating_add(3),
    };
    println!("| network | routers | links | present | hints | hints and metrics | ties | s |");
    println!("|---|---|---|---|---|---|---|---|");
    let (mut present, mut hints, mut metrics) = (Vec::new(), Vec::new(), Vec::new());
    for name in std::env::args().skip(1) {
        let network = SetUp::default().network(common::topology(&name)?, &mut Draw::new(1));
        let start = processor_time();
        let report = search(&network, &config, &Search::default())?;
        let seconds = processor_time() - start;
        let share = |part: f64| if report.joint > 0.0 { part / report.joint } else { 1.0 };
        println!(
            "| {} | {} | {} | {:.3} | {:.3} | {:.3} | {} | {seconds:.1} |",
            report.network,
            network.topology.routers().len(),
            network.topology.links().len() / 2,
            share(report.present),
            share(report.hints),
            share(report.metrics),
            report.ties,
        );
        present.push(share(report.present));
        hints.push(share(report.hints));
        metrics.push(share(report.metrics));
    }
    if metrics.is_empty() {
        return Ok(());
    }
    let [present, hints, metrics] = [present, hints, metrics].map(median_and_least);
    println!("| median | | | {:.3} | {:.3} | {:.3} | | |", present.0, hints.0, metrics.0);
    println!("| least | | | {:.3} | {:.3} | {:.3} | | |", present.1, hints.1, metrics.1);
    Ok(())
}
