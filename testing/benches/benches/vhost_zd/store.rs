//! The claims of zD's evaluation that run guests in real time, and the storage of their results.

use std::path::{Path, PathBuf};

use forebay_guest::Kernel;
use forebay_outcome::provenance;
use forebay_outcome::{Row, Rows, SEED, Store};

use forebay_vhost_guests::{EgressKind, Inside, Mode, Run, greedy, shared};

/// Rates in Mbit/s that a guest can exceed on two cores.
const RATES: [u64; 2] = [200, 400];
/// The text that `forebay-claims` hashes for these claims (`How::BackEnd`).
const BACK_END: &str = "back end";
/// Number of runs of each claim.
const RUNS: u64 = 3;
/// The guest of the claim about both layers: its flows want to have ten times as many packets in
/// its queue as there is room for.
const CROWDED: Inside = Inside { flows: 500, queue: 100, backpressure: false };

/// Its rate in Mbit/s, which it exceeds on a busy machine too.
const CROWDED_MBPS: u64 = 50;

/// Results of a run, by measure.
type Values = Vec<(&'static str, f64)>;

/// A claim: its name and its runs, which return the rows, or `None` without a kernel. The modes
/// alternate, so that other load of the machine affects all of them.
type Claim = (&'static str, fn() -> Option<Vec<Row>>);

const CLAIMS: [Claim; 4] = [
    ("back-end", || every(&[1000], alone)),
    ("back-end-short", || every(&[100], alone)),
    ("two-guests", || every(&[1000, 100], beside)),
    ("both-layers", both_layers),
];

/// Runs all claims, or the one with the name `only`, and stores them in `dir`.
pub(crate) fn run(dir: &Path, only: Option<String>) {
    let store = Store::at(dir);
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, runs) in CLAIMS {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let Some(rows) = runs() else { continue };
        let rows = Rows::now(&provenance::hash(BACK_END), rows, checkout);
        store.write(name, &rows).unwrap();
    }
}

fn name(mode: Mode) -> &'static str {
    if mode == Mode::Zd { "zd" } else { "drop" }
}

fn at(mbps: u64, limit: u64, inside: Inside) -> Run {
    Run { egress: EgressKind::Tap, warm_up: 3, seconds: 10, mbps, limit, inside }
}

/// Runs both modes at all rates, with buffers of `limits` packets.
fn every(limits: &[u64], values: fn(&Path, Mode, Run) -> Values) -> Option<Vec<Row>> {
    let kernel = forebay_vhost_guests::kernel(Kernel::Plain)?;
    let mut rows = Vec::new();
    for &limit in limits {
        for mbps in RATES {
            for seed in 1..=RUNS {
                for mode in [Mode::Drop, Mode::Zd] {
                    let (rate, name) = (format!("{mbps} Mbit/s"), name(mode));
                    eprintln!("{rate}, {limit} packets, {name}, {seed} of {RUNS}");
                    rows.push(Row::new(
                        &[("rate", &rate), ("queue", &limit), ("mode", &name), (SEED, &seed)],
                        &values(&kernel, mode, at(mbps, limit, Inside::USUAL)),
                    ));
                }
            }
        }
    }
    Some(rows)
}

/// Runs a crowded guest with and without the patch in its kernel, at a back end of both modes.
fn both_layers() -> Option<Vec<Row>> {
    let kernel = |backpressure| {
        forebay_vhost_guests::kernel(if backpressure { Kernel::Zd } else { Kernel::Unpatched })
    };
    let kernels: [(bool, PathBuf); 2] = [(false, kernel(false)?), (true, kernel(true)?)];
    let (mbps, rate) = (CROWDED_MBPS, format!("{CROWDED_MBPS} Mbit/s"));
    let mut rows = Vec::new();
    for limit in [1000, 100] {
        for seed in 1..=RUNS {
            for (backpressure, kernel) in &kernels {
                for mode in [Mode::Drop, Mode::Zd] {
                    let (inside, name) = (if *backpressure { "zd" } else { "drop" }, name(mode));
                    eprintln!("{limit} packets, guest {inside}, {name}, {seed} of {RUNS}");
                    let guest = Inside { backpressure: *backpressure, ..CROWDED };
                    rows.push(Row::new(
                        &[
                            ("rate", &rate),
                            ("queue", &limit),
                            ("guest", &inside),
                            ("mode", &name),
                            (SEED, &seed),
                        ],
                        &alone(kernel, mode, at(mbps, limit, guest)),
                    ));
                }
            }
        }
    }
    Some(rows)
}

fn alone(kernel: &Path, mode: Mode, run: Run) -> Values {
    let g = greedy(kernel, mode, run);
    eprintln!("{g:?}");
    vec![
        ("mbps", g.goodput),
        ("cpu_back_end", g.cpu),
        ("drops", g.dropped as f64),
        ("local_drops", g.local_drops as f64),
        ("resent", g.retransmissions as f64),
        ("rtt_p50", g.p50),
        ("rtt_p99", g.p99),
        ("rtt_p999", g.p999),
        ("rtt_p9999", g.p9999),
    ]
}

fn beside(kernel: &Path, mode: Mode, run: Run) -> Values {
    let s = shared(kernel, mode, run);
    eprintln!("{s:?}");
    vec![
        ("requests", s.requests as f64),
        ("request_p50", s.p50),
        ("request_p99", s.p99),
        ("drops", s.dropped as f64),
        ("others", s.goodput),
    ]
}
