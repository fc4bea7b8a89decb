//! Checks over simulated paths: each fault is found by its name, and healthy paths have none.

mod world;

use forebay_l4s_check::{Kind, Report, Verdict};
use forebay_queue::{
    Codel, DualPi2, Ecn, Fifo, FqCodel, Limit, Pie, Qdisc, Sfq, StrictPriority, codel, dualpi2,
    fifo, fq_codel, pie, sfq,
};
use forebay_units::{Nanos, Rate};
use world::{Pkt, Rewrite, World};

type Queue = Box<dyn Qdisc<Pkt>>;

/// The queue of a link that is as L4S asks for.
fn dual(mbps: u64) -> Queue {
    let config = dualpi2::Config::default().for_link(Rate::from_mbps(mbps));
    Box::new(DualPi2::new(config).unwrap())
}

fn fifo(packets: u32) -> Queue {
    Box::new(Fifo::new(fifo::Config { limit: Limit::packets(packets) }).unwrap())
}

/// CoDel that marks by the law of classic ECN, or from 1 ms on.
fn codel(step: bool) -> Queue {
    let step = step.then_some(Nanos::from_millis(1));
    let params = codel::Params { ecn: true, l4s_threshold: step, ..codel::Params::default() };
    Box::new(Codel::new(codel::Config { params, ..codel::Config::default() }).unwrap())
}

fn fq_codel(step: bool) -> Queue {
    let mut config = fq_codel::Config::default();
    config.codel.l4s_threshold = step.then_some(Nanos::from_millis(1));
    Box::new(FqCodel::new(config).unwrap())
}

fn kinds(report: &Report) -> Vec<Kind> {
    report.findings.iter().map(|f| f.kind).collect()
}

/// Checks a path of 40 Mbit/s and 30 ms with `queue`, before and after which boxes rewrite.
fn faulty(queue: Queue, before: Rewrite, after: Rewrite) -> Report {
    World { before, after, ..World::new(40, 30, queue) }.check().0
}

#[test]
fn healthy_dual_queues_work() {
    for (mbps, rtt) in [(2, 20), (10, 50), (50, 10), (200, 2), (20, 200), (100, 600)] {
        let (report, lasted) = World::new(mbps, rtt, dual(mbps)).check();
        assert_eq!(report.verdict, Verdict::Works, "{mbps} {rtt} {lasted:?}\n{report}");
        let limit = Nanos::from_secs(if rtt > 200 { 30 } else { 10 });
        assert!(lasted <= limit, "{mbps} {rtt} {lasted:?}");
    }
}

/// Checks paths of all sizes with jitter, loss and traffic of others.
fn no_fault_on(paths: impl Iterator<Item = u64>) {
    let mut wrong = vec![];
    for n in paths {
        let mbps = [2, 5, 10, 20, 50, 100, 200][n as usize % 7];
        let rtt = [2, 10, 25, 60, 150][n as usize % 5];
        let queue = if n % 3 == 2 { fq_codel(true) } else { dual(mbps) };
        let (report, _) = World {
            jitter: Nanos::from_micros([0, 200, 1_000][n as usize % 3]),
            loss: [0.0, 0.002, 0.01][n as usize / 7 % 3],
            others: [0.0, 0.1, 0.3][n as usize / 5 % 3],
            seed: 1_000 + n,
            ..World::new(mbps, rtt, queue)
        }
        .check();
        if report.verdict != Verdict::Works {
            wrong.push((n, mbps, rtt, kinds(&report)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn healthy_paths_have_no_fault() {
    no_fault_on((0..100).step_by(4));
}

mod measured {
    #[test]
    fn a_hundred_healthy_paths_have_no_fault() {
        super::no_fault_on(0..100);
    }
}

#[test]
fn faults_of_codepoints_are_found_by_name() {
    let cases: [(Rewrite, Rewrite, &[Kind]); 10] = [
        (|e| (e != Ecn::Ect1).then_some(e), Some, &[Kind::Ect1Dropped]),
        (Some, |e| Some(if e == Ecn::Ce { Ecn::NotEct } else { e }), &[Kind::CeErased]),
        (|e| Some(if e == Ecn::Ect1 { Ecn::NotEct } else { e }), Some, &[Kind::Ect1Rewritten]),
        (|e| Some(if e == Ecn::Ect1 { Ecn::Ect0 } else { e }), Some, &[Kind::Ect1Rewritten]),
        (|_| Some(Ecn::NotEct), Some, &[Kind::Ect1Rewritten, Kind::CeErased]),
        (Some, |e| Some(if e == Ecn::Ce { Ecn::Ect1 } else { e }), &[Kind::CeErased]),
        (Some, |e| (e != Ecn::Ce).then_some(e), &[Kind::CeDropped]),
        (|e| Some(if e == Ecn::NotEct { Ecn::Ect1 } else { e }), Some, &[Kind::ClassicPromoted]),
        (|e| Some(if e == Ecn::Ect0 { Ecn::Ect1 } else { e }), Some, &[Kind::ClassicPromoted]),
        (|e| Some(if e == Ecn::Ect1 { Ecn::Ce } else { e }), Some, &[Kind::AlwaysMarked]),
    ];
    for (n, (before, after, expected)) in cases.into_iter().enumerate() {
        let report = faulty(dual(40), before, after);
        let found = kinds(&report);
        assert!(expected.iter().all(|k| found.contains(k)), "{n}: {expected:?}\n{report}");
        assert_eq!(report.verdict, Verdict::DoesNotWork, "{n}");
    }
}

#[test]
fn faults_of_queues_are_found_by_name() {
    let strict = |l: Queue| Box::new(StrictPriority::new(vec![l, fifo(500)]).unwrap()) as Queue;
    let sfq = || Box::new(Sfq::new(sfq::Config::default()).unwrap()) as Queue;
    let pie = || {
        let mut config = pie::Config::default();
        config.params.ecn = true;
        Box::new(Pie::new(config).unwrap()) as Queue
    };
    let cases: [(&str, Queue, &[Kind]); 9] = [
        ("fifo", fifo(300), &[Kind::SharedQueue, Kind::Unmarked]),
        ("a long fifo", fifo(3_000), &[Kind::SharedQueue, Kind::Unmarked]),
        ("codel", codel(false), &[Kind::SharedQueue, Kind::MarkedLate]),
        ("pie", pie(), &[Kind::SharedQueue]),
        ("fq_codel", fq_codel(false), &[Kind::MarkedLate]),
        ("sfq", sfq(), &[Kind::Unmarked]),
        ("a step in one queue", codel(true), &[Kind::SharedQueue]),
        ("priority without marks", strict(fifo(500)), &[Kind::Unmarked]),
        ("priority", strict(codel(true)), &[Kind::Uncoupled, Kind::ClassicStarved]),
    ];
    for (name, queue, expected) in cases {
        let report = faulty(queue, Some, Some);
        let found = kinds(&report);
        assert!(expected.iter().all(|k| found.contains(k)), "{name}: {expected:?}\n{report}");
        assert_eq!(report.verdict, Verdict::DoesNotWork, "{name}");
    }
}

#[test]
fn bursts_of_the_link_itself_are_found() {
    let world = World { bursts: Some(Nanos::from_millis(20)), ..World::new(40, 30, dual(40)) };
    let (report, _) = world.check();
    assert!(kinds(&report).contains(&Kind::MarkedWithoutLoad), "{report}");
}

#[test]
fn what_cannot_be_told_is_no_fault() {
    let report = faulty(dual(40), |_| None, Some);
    assert_eq!((report.verdict, kinds(&report)), (Verdict::Unknown, vec![Kind::Unreachable]));
    let (report, _) = World::new(500, 10, dual(500)).check();
    assert_eq!((report.verdict, kinds(&report)), (Verdict::Unknown, vec![Kind::NoBottleneck]));
    let (report, _) = World::new(40, 10, fifo(4)).check();
    assert_eq!(
        (report.verdict, kinds(&report)),
        (Verdict::Unknown, vec![Kind::Policer]),
        "{report}"
    );
}
