//! What the evaluation's page shows of guests at a back end.

use std::path::Path;

use forebay_outcome::provenance;
use forebay_outcome::{Row, Rows, SEED, Store};

use crate::harness::{Mode, Run, Way, greedy, shared};

/// Rates that a guest can exceed on two cores.
const RATES: [u64; 2] = [200, 400];
/// What these claims run, as `forebay-claims` names it (`How::BackEnd`): the hash of the rows is of it.
const BACK_END: &str = "BackEnd";
/// Each is run so often.
const RUNS: u64 = 3;

/// What a run comes to, by measure.
type Values = Vec<(&'static str, f64)>;

struct Claim {
    name: &'static str,
    /// Packets that fit into the buffer.
    limits: &'static [u64],
    run: fn(&Path, Mode, Run) -> Values,
}

const CLAIMS: [Claim; 3] = [
    Claim { name: "back-end", limits: &[1000], run: alone },
    Claim { name: "back-end-short", limits: &[100], run: alone },
    Claim { name: "two-guests", limits: &[1000, 100], run: beside },
];

/// Runs all claims, or the one that is called `only`, and stores them in `dir`. Modes take turns, so that what else the
/// machine does meets both.
pub(crate) fn run(kernel: &Path, dir: &Path, only: Option<String>) {
    let store = Store::at(dir);
    for claim in CLAIMS {
        if only.as_ref().is_none_or(|only| only == claim.name) {
            let rows = all(claim.limits, |mode, run| (claim.run)(kernel, mode, run));
            store.write(claim.name, &Rows::now(&provenance::hash(BACK_END), rows)).unwrap();
        }
    }
}

fn all(limits: &[u64], values: impl Fn(Mode, Run) -> Values) -> Vec<Row> {
    let mut rows = Vec::new();
    for &limit in limits {
        for mbps in RATES {
            for seed in 1..=RUNS {
                for mode in [Mode::Drop, Mode::Zd] {
                    let run = Run { way: Way::Tap, warm_up: 3, seconds: 10, mbps, limit };
                    let name = if mode == Mode::Zd { "zd" } else { "drop" };
                    let rate = format!("{mbps} Mbit/s");
                    eprintln!("{rate}, {limit} packets, {name}, {seed} of {RUNS}");
                    rows.push(Row::new(
                        &[("rate", &rate), ("queue", &limit), ("mode", &name), (SEED, &seed)],
                        &values(mode, run),
                    ));
                }
            }
        }
    }
    rows
}

fn alone(kernel: &Path, mode: Mode, run: Run) -> Values {
    let g = greedy(kernel, mode, run);
    vec![
        ("mbps", g.goodput),
        ("cpu_back_end", g.cpu),
        ("drops", g.dropped as f64),
        ("resent", g.retransmissions as f64),
        ("rtt_p50", g.p50),
        ("rtt_p999", g.p999),
        ("rtt_p9999", g.p9999),
    ]
}

fn beside(kernel: &Path, mode: Mode, run: Run) -> Values {
    let s = shared(kernel, mode, run);
    vec![
        ("requests", s.requests as f64),
        ("request_p50", s.p50),
        ("request_p99", s.p99),
        ("drops", s.dropped as f64),
        ("others", s.goodput),
    ]
}
