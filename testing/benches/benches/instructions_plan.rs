//! Instructions of planning, which callgrind counts: `scripts/instructions`.
#![allow(missing_docs, unused_qualifications, reason = "gungraun's macros")]

use forebay_plan::allocate::{Allocation, Method, Wba};
use forebay_plan::bench::{PATHS, cases};
use forebay_plan::paths::PathCache;
use forebay_plan::problem::{Freedom, Grain, Problem};
use forebay_plan::synthetic::{Draw, SetUp};
use gungraun::Callgrind;
use gungraun::prelude::*;

/// The joint problem of the first of the planner's fixed networks, which has Sprint's size.
fn problem() -> Problem {
    let topology = cases().swap_remove(0);
    let network = SetUp::default().network(topology, &mut Draw::new(1));
    Problem::new(&network, &mut PathCache::new(PATHS), Freedom::Joint, Grain::Summed)
}

#[library_benchmark]
#[bench::of_11_routers(args = (), setup = problem)]
fn wba(problem: Problem) -> (Problem, Allocation) {
    let allocation = Method::Wba(Wba::default()).allocate(&problem).expect("the solver succeeds");
    (problem, allocation)
}

library_benchmark_group!(name = plan, benchmarks = wba);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = plan
);
