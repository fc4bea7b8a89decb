//! Searches metrics of OSPF on topologies of your own, and prints which share of the joint plan's
//! traffic they carry.
//!
//! `cargo run --release -p forebay-plan --example metrics -- [--few] FILES`
//!
//! With `--few`, metrics keep their scale and as few as possible change; further columns have the
//! changes, and how many of them overload a link until the last is made.
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
use forebay_plan::topology::LinkId;
use forebay_plan::weights::{Search, order, search};

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
    println!(
        "| network | routers | links | present | hints | hints and metrics | ties | s | changes | overload |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let (mut present, mut hints, mut metrics) = (Vec::new(), Vec::new(), Vec::new());
    let few = std::env::args().any(|word| word == "--few");
    for name in std::env::args().skip(1).filter(|word| word != "--few") {
        let network = SetUp::default().network(common::topology(&name)?, &mut Draw::new(1));
        let start = processor_time();
        let report = search(&network, &config, &Search { few, ..Search::default() })?;
        let seconds = processor_time() - start;
        let share = |part: f64| if report.joint > 0.0 { part / report.joint } else { 1.0 };
        let links = report.links.iter().zip(0..);
        let wanted: Vec<_> = links.map(|(link, id)| (LinkId(id), link.metric)).collect();
        let order = order(&network, &wanted);
        println!(
            "| {} | {} | {} | {:.3} | {:.3} | {:.3} | {} | {seconds:.1} | {} | {} |",
            report.network,
            network.topology.routers().len(),
            network.topology.links().len() / 2,
            share(report.present),
            share(report.hints),
            share(report.metrics),
            report.ties,
            order.steps.len(),
            order.overloads().len(),
        );
        present.push(share(report.present));
        hints.push(share(report.hints));
        metrics.push(share(report.metrics));
    }
    if metrics.is_empty() {
        return Ok(());
    }
    let [present, hints, metrics] = [present, hints, metrics].map(median_and_least);
    println!("| median | | | {:.3} | {:.3} | {:.3} | | | | |", present.0, hints.0, metrics.0);
    println!("| least | | | {:.3} | {:.3} | {:.3} | | | | |", present.1, hints.1, metrics.1);
    Ok(())
}
