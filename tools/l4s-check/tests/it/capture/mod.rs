//! Captures of TCP transfers over paths with and without faults: each fault is found by its name,
//! and healthy transfers have none, wherever the capture was taken.

mod formats;
mod frame;
mod world;

use std::ops::Range;

use forebay_l4s_check::tcp::{Direction, Feedback, Place, TcpReport};
use forebay_l4s_check::{Kind, Verdict};
use forebay_queue::{
    Codel, DualPi2, Ecn, Fifo, FqCodel, Limit, Pie, Qdisc, codel, dualpi2, fifo, fq_codel, pie,
};
use forebay_units::{Nanos, Rate};
use world::{Captures, Echoes, Law, Pkt, Rewrite, World, analysis};

type Queue = Box<dyn Qdisc<Pkt>>;

fn dual(mbps: u64) -> Queue {
    let config = dualpi2::Config::default().for_link(Rate::from_mbps(mbps));
    Box::new(DualPi2::new(config).unwrap())
}

fn fifo(packets: u32) -> Queue {
    Box::new(Fifo::new(fifo::Config { limit: Limit::packets(packets) }).unwrap())
}

fn codel() -> Queue {
    let params = codel::Params { ecn: true, ..codel::Params::default() };
    Box::new(Codel::new(codel::Config { params, ..codel::Config::default() }).unwrap())
}

fn pie() -> Queue {
    let mut config = pie::Config::default();
    config.params.ecn = true;
    Box::new(Pie::new(config).unwrap())
}

fn fq_codel(step: bool) -> Queue {
    let mut config = fq_codel::Config::default();
    config.codel.l4s_threshold = step.then_some(Nanos::from_millis(1));
    Box::new(FqCodel::new(config).unwrap())
}

fn kinds(report: &TcpReport) -> Vec<Kind> {
    report.findings.iter().map(|f| f.kind).collect()
}

/// A path of 40 Mbit/s and 30 ms.
fn path(queue: Queue) -> World {
    World::new(40, 30, queue)
}

/// The reports of the captures at the sender, in the middle and at the receiver.
fn reports(captures: &Captures) -> [TcpReport; 3] {
    [&captures.sender, &captures.middle, &captures.receiver].map(|c| analysis(c, None).report())
}

/// The report of the captures at both ends, whose clocks differ.
fn both(captures: &Captures) -> TcpReport {
    let mut receiver = captures.receiver.clone();
    for (at, _) in &mut receiver {
        *at += 7_000_000_000_123;
    }
    let sender = analysis(&captures.sender, Some(Place::Sender));
    sender.report_of_both(&analysis(&receiver, Some(Place::Receiver)))
}

fn data(report: &TcpReport) -> &Direction {
    let [connection] = &report.connections[..] else { panic!("one connection") };
    &connection.directions[0]
}

#[test]
fn a_healthy_transfer_is_read_alike_everywhere() {
    let captures = path(dual(40)).run();
    let reports = reports(&captures);
    let places = [Place::Sender, Place::Middle, Place::Receiver];
    for (report, place) in reports.iter().zip(places) {
        let direction = data(report);
        assert_eq!(direction.place, place);
        assert_eq!(report.connections[0].feedback, Feedback::Accurate);
        assert_eq!(report.connections[0].handshake.syn.as_deref(), Some("111"));
        assert_eq!(report.connections[0].handshake.syn_ecn_arrived, Some("Not-ECT"));
        assert_eq!(report.verdict, Verdict::Works, "{report}");
        let marks = direction.echo.marks.unwrap();
        assert_eq!(marks.least, marks.most);
        assert!(marks.least > 100, "{report}");
    }
    let [sender, middle, receiver] = reports.each_ref().map(data);
    assert_eq!(sender.segments.ce, 0);
    let ce = receiver.segments.ce;
    assert!(ce.abs_diff(receiver.echo.marks.unwrap().least) <= 2, "{}", reports[2]);
    assert!(middle.segments.ce.abs_diff(ce) < 20);
    let rtt = sender.to_receiver.unwrap();
    assert!((30.0..32.0).contains(&rtt.min_ms) && rtt.median_ms < 40.0, "{rtt:?}");
    assert!(receiver.to_sender.unwrap().min_ms >= 29.0);
    assert!(middle.to_receiver.unwrap().min_ms >= 15.0);
}

/// Captures transfers of all sizes with jitter, loss and traffic of others at three places.
fn no_fault_in(transfers: Range<u64>) {
    let reports_in_all = 4 * transfers.clone().count();
    let (mut wrong, mut works) = (vec![], 0);
    for n in transfers {
        let mbps = [5, 10, 20, 50, 100][n as usize % 5];
        let rtt = [5, 10, 25, 60, 120, 30][n as usize % 6];
        let queue = if n % 3 == 2 { fq_codel(true) } else { dual(mbps) };
        let captures = World {
            jitter: Nanos::from_micros([0, 200, 1_000, 3_000][n as usize % 4]),
            loss: [0.0, 0.0005, 0.002][n as usize / 5 % 3],
            others: [0.0, 0.1, 0.3][n as usize / 3 % 3],
            echoes: Echoes::Accurate { option: n % 2 == 0 },
            lasts: Nanos::from_secs(4),
            seed: 1_000 + n,
            ..World::new(mbps, rtt, queue)
        }
        .run();
        let both = both(&captures);
        for report in reports(&captures).into_iter().chain([both]) {
            let place = data(&report).place;
            works += usize::from(report.verdict == Verdict::Works);
            if report.verdict == Verdict::DoesNotWork {
                wrong.push((n, mbps, rtt, place, kinds(&report)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {reports_in_all}: {wrong:?}", wrong.len());
    assert!(12 * works >= 11 * reports_in_all, "{works} of {reports_in_all}");
}

#[test]
fn healthy_transfers_have_no_fault() {
    no_fault_in(0..10);
}

mod measured {
    #[test]
    fn twenty_more_healthy_transfers_have_no_fault() {
        super::no_fault_in(10..30);
    }
}

/// Checks that the capture at `place` (0 sender, 1 middle, 2 receiver) shows `kind`.
fn shows(name: &str, captures: &Captures, places: &[usize], kind: Kind) {
    let reports = reports(captures);
    for &place in places {
        let report = &reports[place];
        assert_eq!(report.verdict, Verdict::DoesNotWork, "{name} at {place}\n{report}");
        assert!(kinds(report).contains(&kind), "{name} at {place}: {kind:?}\n{report}");
    }
}

#[test]
fn faults_of_codepoints_are_found_by_name() {
    let not_ect: Rewrite = |e| Some(if e == Ecn::Ect1 { Ecn::NotEct } else { e });
    let ect0: Rewrite = |e| Some(if e == Ecn::Ect1 { Ecn::Ect0 } else { e });
    let promoted: Rewrite = |e| Some(if e == Ecn::Ect0 { Ecn::Ect1 } else { e });
    let unmarked: Rewrite = |e| Some(if e == Ecn::Ce { Ecn::Ect1 } else { e });
    let cleared: Rewrite = |e| Some(if e == Ecn::Ce { Ecn::NotEct } else { e });
    let marked: Rewrite = |e| Some(if e == Ecn::Ect1 { Ecn::Ce } else { e });
    let before = |before| World { before, ..path(dual(40)) }.run();
    let after = |after| World { after, ..path(dual(40)) }.run();
    let captures = before(not_ect);
    shows("bleached", &captures, &[0], Kind::Ect1Rewritten);
    shows("bleached", &captures, &[1, 2], Kind::NoEct1);
    shows("bleached behind the bottleneck", &after(not_ect), &[0, 1], Kind::Ect1Rewritten);
    shows("to ECT(0)", &before(ect0), &[0], Kind::Ect1Rewritten);
    shows("marks to ECT(1)", &after(unmarked), &[1], Kind::CeErased);
    shows("marks to Not-ECT", &after(cleared), &[1], Kind::CeErased);
    let world = World { sent_as: Ecn::Ect0, before: promoted, ..path(dual(40)) };
    shows("promoted", &world.run(), &[0], Kind::ClassicPromoted);
    let world = World { before: marked, largest_window: 20.0, ..path(dual(40)) };
    shows("always marked", &world.run(), &[1, 2], Kind::AlwaysMarked);
    let world = World { syn_ecn: Ecn::Ect1, before: not_ect, ..path(dual(40)) };
    shows("the SYN's ECT(1)", &world.run(), &[0], Kind::Ect1Rewritten);
}

#[test]
fn faults_of_ends_are_found_by_name() {
    let nothing = World { echoes: Echoes::Nothing, ..path(dual(40)) }.run();
    shows("no echo", &nothing, &[1, 2], Kind::NotEchoed);
    let cleared = World { clears_ace: true, ..path(dual(40)) }.run();
    shows("the way back clears the field", &cleared, &[1], Kind::NotEchoed);
    let fallen = World { falls_back: Some(Nanos::from_secs(3)), ..path(dual(40)) }.run();
    shows("fell back", &fallen, &[0, 1, 2], Kind::FellBack);
    let ect0 = World { sent_as: Ecn::Ect0, ..path(dual(40)) }.run();
    shows("ECT(0)", &ect0, &[0, 1, 2], Kind::NoEct1);
    let classic = |handshake| {
        let echoes = Echoes::Classic;
        World { handshake, echoes, law: Law::Reno, sent_as: Ecn::Ect0, ..path(dual(40)) }.run()
    };
    for handshake in [[0b111, 0b111, 0b001], [0b011, 0b011, 0b001]] {
        shows("classic ECN", &classic(handshake), &[0, 1, 2], Kind::ClassicFeedback);
    }
    let off = |handshake| {
        let (echoes, sent_as) = (Echoes::Off, Ecn::NotEct);
        World { handshake, echoes, sent_as, law: Law::Reno, ..path(fifo(100)) }.run()
    };
    for (name, handshake) in [
        ("refused", [0b111, 0b111, 0]),
        ("stripped", [0b111, 0, 0]),
        ("not asked for", [0, 0, 0]),
        ("reflected", [0b111, 0b111, 0b111]),
    ] {
        shows(name, &off(handshake), &[0, 1, 2], Kind::NoEcn);
    }
}

#[test]
fn faults_of_queues_are_found_by_name() {
    shows("codel", &path(codel()).run(), &[0, 1, 2], Kind::MarkedLate);
    shows("fq_codel", &path(fq_codel(false)).run(), &[0, 1, 2], Kind::MarkedLate);
    let long = World { lasts: Nanos::from_secs(12), ..path(pie()) };
    shows("pie", &long.run(), &[0, 1, 2], Kind::MarkedLate);
    // A sender that halves its window gets few marks.
    let few = World { law: Law::Reno, lasts: Nanos::from_secs(30), ..path(codel()) };
    shows("codel with few marks", &few.run(), &[0, 1, 2], Kind::MarkedLate);
    // A queue shorter than the path is full now and then, and empty in between.
    for packets in [300, 100, 50, 30] {
        let name = format!("fifo of {packets} packets");
        let captures = World { lasts: Nanos::from_secs(12), ..path(fifo(packets)) }.run();
        shows(&name, &captures, &[0, 1, 2], Kind::Unmarked);
        let report = both(&captures);
        assert_eq!(kinds(&report), [Kind::Unmarked], "{name}\n{report}");
    }
    let bursts = World { bursts: Some(Nanos::from_millis(20)), ..path(dual(40)) }.run();
    shows("bursts", &bursts, &[1, 2], Kind::MarkedWithoutLoad);
}

#[test]
fn what_cannot_be_told_is_no_fault() {
    let unknown = |captures: &Captures, kind| {
        for report in reports(captures) {
            assert_eq!(
                (report.verdict, kinds(&report)),
                (Verdict::Unknown, vec![kind]),
                "{report}"
            );
        }
    };
    unknown(&World { largest_window: 4.0, ..path(dual(40)) }.run(), Kind::NoBottleneck);
    // Losses at any delay are no sign of a full queue.
    for seed in 1..=20 {
        let jitter = Nanos::from_millis(seed);
        let lasts = Nanos::from_secs(8);
        let world =
            World { largest_window: 15.0, jitter, loss: 0.005, seed, lasts, ..path(dual(40)) };
        unknown(&world.run(), Kind::NoBottleneck);
    }
    let short = World { lasts: Nanos::from_millis(100), ..path(dual(40)) };
    unknown(&short.run(), Kind::TooFewPackets);
    let bare = World { timestamps: false, ..path(dual(40)) }.run();
    let report = analysis(&bare.sender, None).report();
    assert_eq!((report.verdict, kinds(&report)), (Verdict::Unknown, vec![Kind::NoTimestamps]));
    // As of a port that mirrors one direction of a link.
    let mut one_way = path(dual(40)).run().middle;
    one_way.retain(|(_, tcp)| tcp.to_server);
    let report = analysis(&one_way, None).report();
    assert_eq!((report.verdict, kinds(&report)), (Verdict::Unknown, vec![Kind::OneDirection]));
    assert_eq!(data(&report).echo.marks, None);
}

#[test]
fn two_captures_tell_where_a_fault_is() {
    let rewrite: [(&str, Rewrite, Rewrite, &[Kind]); 6] = [
        (
            "bleached",
            |e| Some(if e == Ecn::Ect1 { Ecn::NotEct } else { e }),
            Some,
            &[Kind::Ect1Rewritten],
        ),
        ("cleared", Some, |_| Some(Ecn::NotEct), &[Kind::Ect1Rewritten]),
        (
            "to ECT(0)",
            Some,
            |e| Some(if e == Ecn::Ect1 { Ecn::Ect0 } else { e }),
            &[Kind::Ect1Rewritten],
        ),
        ("dropped", |e| (e != Ecn::Ect1).then_some(e), Some, &[Kind::Ect1Dropped]),
        ("marked", Some, |e| Some(if e == Ecn::Ect1 { Ecn::Ce } else { e }), &[Kind::AlwaysMarked]),
        ("healthy", Some, Some, &[]),
    ];
    for (name, before, after, expected) in rewrite {
        let echoes = Echoes::Accurate { option: false };
        let largest_window = if name == "marked" { 20.0 } else { 1e4 };
        let world = World { before, after, echoes, largest_window, ..path(dual(40)) };
        let report = both(&world.run());
        assert_eq!(kinds(&report), expected, "{name}\n{report}");
    }
    let others = [
        ("codel", path(codel()), Kind::MarkedLate),
        ("fifo", path(fifo(300)), Kind::Unmarked),
        ("the way back", World { clears_ace: true, ..path(dual(40)) }, Kind::NotEchoed),
        ("no echo", World { echoes: Echoes::Nothing, ..path(dual(40)) }, Kind::NotEchoed),
        (
            "stripped",
            World {
                handshake: [0b111, 0, 0],
                echoes: Echoes::Off,
                sent_as: Ecn::NotEct,
                law: Law::Reno,
                ..path(fifo(100))
            },
            Kind::NegotiationChanged,
        ),
        (
            "fell back",
            World { falls_back: Some(Nanos::from_secs(3)), ..path(dual(40)) },
            Kind::FellBack,
        ),
        ("ECT(0)", World { sent_as: Ecn::Ect0, ..path(dual(40)) }, Kind::NoEct1),
        (
            "bursts",
            World { bursts: Some(Nanos::from_millis(20)), ..path(dual(40)) },
            Kind::MarkedWithoutLoad,
        ),
    ];
    for (name, world, kind) in others {
        let report = both(&world.run());
        assert_eq!(kinds(&report), [kind], "{name}\n{report}");
    }
    let report = both(&path(dual(40)).run());
    let way = data(&report).one_way.unwrap();
    assert!(way.delay.min_ms < 0.001 && way.delay.median_ms < 5.0, "{report}");
    assert!(way.sent.all() - way.arrived.all() < 5, "{report}");
    assert!(way.marked.unwrap().min_ms > 0.3 && way.ect1_as.ce > 100, "{report}");
}
