//! Compares WBA with published methods that divide capacity fairly, on topologies of your own.
//!
//! `cargo run --release -p forebay-plan --example allocators -- --md FILES`
//!
//! Each file is a topology as `forebay plan` reads it; `plane-N` is a generated network of N
//! routers. All methods get the same problem and the same solver. Times are processor time of one
//! thread: the median of three runs, or of one above 5000 choices. Above 100 000 choices the other
//! methods are left out. `--md` prints Markdown.

mod common;

use std::error::Error;
use std::num::NonZeroUsize;

use forebay_plan::allocate::{Allocation, Method, Wba};
use forebay_plan::bench::{memory, processor_time};
use forebay_plan::paths::PathCache;
use forebay_plan::problem::{Freedom, Grain, Problem};
use forebay_plan::rivals::{Rival, jain, worst_tenth};
use forebay_plan::synthetic::{Draw, SetUp};

/// The number of choices above which only WBA runs.
const LARGE: usize = 100_000;
/// The number of choices above which a method runs once.
const ONCE: usize = 5000;
const PATHS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

fn timed<T>(times: u32, mut work: impl FnMut() -> T) -> (f64, T) {
    let mut seconds = Vec::new();
    let mut once = || {
        let start = processor_time();
        let result = work();
        seconds.push(processor_time() - start);
        result
    };
    let mut result = once();
    for _ in 1..times {
        result = once();
    }
    seconds.sort_by(f64::total_cmp);
    (seconds[seconds.len() / 2], result)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut cells, mut networks) = (Vec::new(), Vec::new());
    let names: Vec<String> = std::env::args().skip(1).filter(|a| a != "--md").collect();
    let markdown = std::env::args().any(|a| a == "--md");
    for name in names {
        let network = SetUp::default().network(common::topology(&name)?, &mut Draw::new(1));
        let build =
            |paths: &mut PathCache| Problem::new(&network, paths, Freedom::Joint, Grain::Summed);
        let mut paths = PathCache::new(PATHS);
        let (cold, problem) = timed(1, || build(&mut paths));
        let (warm, _) = timed(3, || build(&mut paths));
        let large = problem.choices.len() > LARGE;
        let times = if problem.choices.len() > ONCE { 1 } else { 3 };
        let case = network.topology.name().to_owned();
        let most = Method::Most.allocate(&problem)?.total();
        let mut row = |method: &str, seconds: f64, got: &Allocation| {
            cells.push([
                case.clone(),
                method.to_owned(),
                format!("{seconds:.3}"),
                format!("{:.3}", jain(&problem, &got.rates)),
                format!("{:.3}", worst_tenth(&problem, &got.rates)),
                format!("{:.4}", got.total() / most),
            ]);
        };
        let wba = Method::Wba(Wba::default());
        let (seconds, got) = timed(times, || wba.allocate(&problem));
        let served = got.as_ref().map_or(0.0, |g| g.total() / problem.demand());
        row("Forebay's WBA", seconds, &got?);
        let after = memory();
        for rival in Rival::ALL.into_iter().filter(|_| !large) {
            let (seconds, got) = timed(times, || rival.allocate(&problem));
            eprintln!("{case}: {} {seconds:.3}", rival.name());
            row(rival.name(), seconds, &got?);
        }
        networks.push([
            case.clone(),
            network.topology.routers().len().to_string(),
            problem.flows.len().to_string(),
            problem.choices.len().to_string(),
            format!("{cold:.3}"),
            format!("{warm:.3}"),
            format!("{seconds:.3}"),
            (after / 1_000_000).to_string(),
            format!("{served:.3}"),
        ]);
        eprintln!("{case}: {:.1} s so far", processor_time());
    }
    let heads =
        ["network", "routers", "flows", "choices", "cold, s", "warm, s", "WBA, s", "MB", "served"];
    print(&heads, &networks, markdown);
    println!();
    print(&["network", "method", "time, s", "Jain", "worst tenth", "total"], &cells, markdown);
    Ok(())
}

fn print<const N: usize>(heads: &[&str; N], rows: &[[String; N]], markdown: bool) {
    let line = |cells: Vec<&str>| {
        let between = if markdown { " | " } else { "\t" };
        let line = cells.join(between);
        println!("{}", if markdown { format!("| {line} |") } else { line });
    };
    line(heads.to_vec());
    if markdown {
        println!("|{}", "---|".repeat(N));
    }
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
}
