//! The claims of zD's evaluation that run guests at a back end, and the storage of their results.

use std::path::Path;

use forebay_outcome::provenance;
use forebay_outcome::{Row, Rows, SEED, Store};

use crate::harness::{EgressKind, Mode, Run, greedy, shared};

/// Rates in Mbit/s that a guest can exceed on two cores.
const RATES: [u64; 2] = [200, 400];
/// The text that `forebay-claims` hashes for these claims (`How::BackEnd`).
const BACK_END: &str = "back end";
/// Number of runs of each claim.
const RUNS: u64 = 3;

/// Results of a run, by measure.
type Values = Vec<(&'static str, f64)>;

/// A claim with its settings.
struct Claim {
    name: &'static str,
    /// Sizes of the buffer in packets.
    limits: &'static [u64],
    run: fn(&Path, Mode, Run) -> Values,
}

const CLAIMS: [Claim; 3] = [
    Claim { name: "back-end", limits: &[1000], run: alone },
    Claim { name: "back-end-short", limits: &[100], run: alone },
    Claim { name: "two-guests", limits: &[1000, 100], run: beside },
];

/// Runs all claims, or the one with the name `only`, and stores them in `dir`. The modes alternate,
/// so that other load of the machine affects both.
pub(crate) fn run(kernel: &Path, dir: &Path, only: Option<String>) {
    let store = Store::at(dir);
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    for claim in CLAIMS {
        if only.as_ref().is_none_or(|only| only == claim.name) {
            let rows = all(claim.limits, |mode, run| (claim.run)(kernel, mode, run));
            let rows = Rows::now(&provenance::hash(BACK_END), rows, checkout);
            store.write(claim.name, &rows).unwrap();
        }
    }
}

fn all(limits: &[u64], values: impl Fn(Mode, Run) -> Values) -> Vec<Row> {
    let mut rows = Vec::new();
    for &limit in limits {
        for mbps in RATES {
            for seed in 1..=RUNS {
                for mode in [Mode::Drop, Mode::Zd] {
                    let run = Run { egress: EgressKind::Tap, warm_up: 3, seconds: 10, mbps, limit };
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
