//! The speed of planning, on fixed networks or on given ones.

use std::num::NonZeroUsize;

use serde::Serialize;

use crate::allocate::{Binning, Method, Wba};
use crate::lp::SolveError;
use crate::paths::PathCache;
use crate::problem::{Freedom, Grain, Problem};
use crate::synthetic::{Draw, SetUp, plane};
use crate::table::Table;
use crate::topology::Topology;

/// The number of paths between each entry and boundary router.
pub const PATHS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

/// The speed of planning one network: medians of processor time, in seconds.
///
/// Processor time is affected by other work on the machine only through the caches. Paths are
/// computed on several cores, whose times are added up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// The name of the network.
    pub case: String,
    /// The number of routers.
    pub routers: usize,
    /// The number of directed links.
    pub links: usize,
    /// The number of flows of the joint problem, one for each provider and boundary router.
    pub flows: usize,
    /// The number of choices of all flows.
    pub choices: usize,
    /// The time for all paths with an empty cache, on all cores.
    pub paths_s: f64,
    /// The time to build the problem when the paths are cached.
    pub problem_s: f64,
    /// The time of WBA: the model, all steps, and the choice between equal paths.
    pub wba_s: f64,
    /// The time of the multi-commodity flow, measured in the same way.
    pub most_s: f64,
    /// The time of geometric binning; `None` for networks with more than 100 000 choices.
    pub binning_s: Option<f64>,
    /// The peak memory of the process so far, in bytes.
    pub memory: u64,
    /// The part of the demand that WBA serves.
    pub served: f64,
}

/// The cases: a network of Sprint's size, a large one, and one ten times as large.
pub fn cases() -> Vec<Topology> {
    [(11, 18.0 / 11.0), (200, 1.25), (2000, 1.25)]
        .map(|(routers, links)| plane(routers, links, &mut Draw::new(1)))
        .to_vec()
}

/// The number of choices above which planning takes minutes: it is measured once, without binning.
const LARGE: usize = 100_000;

/// Plans `topology` under the set-up of section 3.5.1.
///
/// Each part runs `times` times, or once for networks with more than 100 000 choices.
///
/// # Errors
/// If the solver fails.
pub fn measure(topology: Topology, times: NonZeroUsize) -> Result<Speed, SolveError> {
    let case =
        if topology.name().is_empty() { "network".to_owned() } else { topology.name().to_owned() };
    let network = SetUp::default().network(topology, &mut Draw::new(1));
    let problem =
        |paths: &mut PathCache| Problem::new(&network, paths, Freedom::Joint, Grain::Summed);
    let mut paths = PathCache::new(PATHS);
    let cold = median(times, || {
        paths = PathCache::new(PATHS);
        problem(&mut paths);
        Ok(())
    })?;
    let warm = median(times, || {
        problem(&mut paths);
        Ok(())
    })?;
    let problem = problem(&mut paths);
    let large = problem.choices.len() > LARGE;
    let times = if large { NonZeroUsize::MIN } else { times };
    let mut served = 0.0;
    let mut of = |method: Method| {
        median(times, || {
            let allocation = method.allocate(&problem)?;
            if matches!(method, Method::Wba(_)) {
                served = allocation.total() / problem.demand();
            }
            Ok(())
        })
    };
    let wba_s = of(Method::Wba(Wba::default()))?;
    let most_s = of(Method::Most)?;
    let binning = Method::Binning(Binning::default());
    let binning_s = if large { None } else { Some(of(binning)?) };
    Ok(Speed {
        case,
        routers: network.topology.routers().len(),
        links: network.topology.links().len(),
        flows: problem.flows.len(),
        choices: problem.choices.len(),
        paths_s: (cold - warm).max(0.0),
        problem_s: warm,
        wba_s,
        most_s,
        binning_s,
        memory: memory(),
        served,
    })
}

/// A multi-commodity flow with its answer, to be checked with another solver.
#[derive(Clone, Debug, Serialize)]
pub struct Program {
    /// The name of the network.
    pub case: String,
    /// The sum of all rates, in units of the problem.
    pub most: f64,
    /// The problem that was solved.
    pub problem: Problem,
}

/// Solves the multi-commodity flow of `topology` under the set-up of section 3.5.1.
///
/// # Errors
/// If the solver fails.
pub fn program(topology: Topology) -> Result<Program, SolveError> {
    let case = topology.name().to_owned();
    let network = SetUp::default().network(topology, &mut Draw::new(1));
    let problem = Problem::new(&network, &mut PathCache::new(PATHS), Freedom::Joint, Grain::Summed);
    Ok(Program { case, most: Method::Most.allocate(&problem)?.total(), problem })
}

/// Returns the median of the processor time that `work` takes, in seconds.
fn median(
    times: NonZeroUsize,
    mut work: impl FnMut() -> Result<(), SolveError>,
) -> Result<f64, SolveError> {
    let mut seconds = Vec::with_capacity(times.get());
    for _ in 0..times.get() {
        let start = processor_time();
        work()?;
        seconds.push(processor_time() - start);
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// Returns the peak memory of this process so far, in bytes.
pub fn memory() -> u64 {
    // SAFETY: all fields of `rusage` are integers, for which zeros are valid values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a `rusage` that the call may write to; an error would leave it zero.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    // Linux reports it in KiB.
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024
}

/// Returns the processor time of all threads of this process, in seconds.
pub fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a `timespec` that the call may write to, and every Linux has this clock; an
    // error would leave it zero.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Formats the speeds as a table for the terminal, in seconds of processor time.
pub fn text(speeds: &[Speed]) -> String {
    let mut table = Table::new(&[
        "network", "routers", "flows", "ways", "paths, s", "problem", "WBA", "MCF", "binning",
        "MB", "served",
    ]);
    let seconds = |s: f64| format!("{s:.4}");
    for speed in speeds {
        table.row([
            speed.case.clone(),
            speed.routers.to_string(),
            speed.flows.to_string(),
            speed.choices.to_string(),
            seconds(speed.paths_s),
            seconds(speed.problem_s),
            seconds(speed.wba_s),
            seconds(speed.most_s),
            speed.binning_s.map_or("-".to_owned(), seconds),
            (speed.memory / 1_000_000).to_string(),
            format!("{:.4}", speed.served),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_planned_and_shown() {
        let speed = measure(plane(6, 1.5, &mut Draw::new(1)), NonZeroUsize::MIN).unwrap();
        assert_eq!((speed.routers, speed.flows), (6, 120));
        assert!(
            speed.choices > speed.flows && speed.served > 0.1 && speed.served <= 1.0 + 1e-9,
            "{speed:?}"
        );
        assert!(text(&[speed]).lines().nth(1).unwrap().starts_with("plane-6 "));
    }
}
