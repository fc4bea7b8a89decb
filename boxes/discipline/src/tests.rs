use std::collections::HashSet;

use forebay_config::Limit;
use forebay_queue::{Ecn, Packet};
use forebay_tc::{self as tc, Features};
use forebay_units::{Bytes, Nanos, Rate};

use super::*;

/// A full packet of one flow.
struct Full;

impl Packet for Full {
    fn len(&self) -> Bytes {
        Bytes(1_514)
    }

    fn flow_hash(&self) -> u32 {
        7
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn set_ce(&mut self) {}
}

const ON_PATH: LimitOnPath = LimitOnPath { bytes: Bytes(600_000), packets: 397 };

fn ms(n: u64) -> Option<Nanos> {
    Some(Nanos::from_millis(n))
}

#[test]
fn names_differ_and_are_read_as_they_are_written() {
    let names: HashSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
    for kind in Kind::ALL {
        let json = serde_json::to_string(kind).unwrap();
        assert_eq!(json, format!("\"{}\"", kind.name()));
        assert_eq!(serde_json::from_str::<Kind>(&json).unwrap(), *kind);
    }
    let error = serde_json::from_str::<Kind>("\"red\"").unwrap_err().to_string();
    assert!(error.starts_with("unknown variant `red`, expected one of `fifo`, `sfq`"), "{error}");
    for like in ["drr", "htb", "wfq"] {
        let error = serde_json::from_str::<Kind>(&format!("\"{like}\"")).unwrap_err().to_string();
        assert!(error.contains("did you mean `weighted`?"), "{error}");
    }
}

/// A discipline that nothing can be built of, or that no file can name, is a mistake in its file.
#[test]
fn every_discipline_is_complete() {
    for kind in Kind::ALL {
        let discipline = Discipline::from(*kind);
        let built = discipline.build::<Full>(1);
        match built {
            Ok(queue) => {
                assert!(!kind.is_kernel_only() && !kind.is_classful(), "{kind:?}");
                assert!(discipline.capacity() > 0, "{kind:?} holds nothing");
                assert_eq!(queue.backlog().packets, 0);
            }
            Err(BuildError::KernelOnly(KernelOnly(name))) => {
                assert!(kind.is_kernel_only(), "{kind:?}");
                assert_eq!(name, kind.name());
            }
            Err(BuildError::Settings(error)) => assert!(kind.is_classful(), "{kind:?}: {error}"),
        }
        assert!(kind.is_policy() || kind.bottleneck_keys().is_some(), "{kind:?}");
        let arguments = discipline.tc_arguments(ON_PATH, Rate::from_mbps(96));
        assert_eq!(arguments.is_some(), kind.is_in_tc(), "{kind:?}");
        if let Some(arguments) = arguments {
            assert_eq!(arguments.split(' ').next(), Some(kind.kernel_name()), "{kind:?}");
        }
    }
}

/// The link's process reads what the laboratory writes, and older files of the laboratory too.
#[test]
fn the_json_of_bottleneck_queues_has_every_setting() {
    let spec = |kind, settings| QueueSpec::new(&Discipline { kind, settings }, ON_PATH).unwrap();
    let none = Settings::default();
    let marking = Settings { ecn: Some(true), ..none };
    let (rate, burst) = (Rate::from_mbps(20), Nanos::from_millis(2));
    let burst = Burst { rate: Some(rate), time: burst };
    let l4s = Settings { ecn: Some(false), l4s_threshold: ms(1), ..none };
    let cases = [
        (Kind::Fifo, none, r#"{"kind":"fifo","limit_bytes":600000}"#),
        (Kind::Sfq, none, r#"{"kind":"sfq","limit_packets":397}"#),
        (
            Kind::FqCodel,
            marking,
            r#"{"kind":"fq_codel","limit_packets":397,"target_ns":5000000,"interval_ns":100000000,"ecn":true}"#,
        ),
        (
            Kind::Codel,
            l4s,
            r#"{"kind":"codel","limit_packets":397,"target_ns":5000000,"interval_ns":100000000,"ecn":false,"l4s_threshold_ns":1000000}"#,
        ),
        (
            Kind::Pie,
            Settings { profile: Some(Profile::Paper), ..marking },
            r#"{"kind":"pie","limit_packets":397,"target_ns":15000000,"tupdate_ns":16000000,"ecn":true,"profile":"paper"}"#,
        ),
        (Kind::Pi2, none, r#"{"kind":"pi2","limit_packets":397,"target_ns":15000000}"#),
        (
            Kind::DualPi2,
            Settings { coupling: Some(1.5), ..none },
            r#"{"kind":"dualpi2","limit_packets":397,"target_ns":15000000,"profile":"rfc","coupling":1.5}"#,
        ),
        (
            Kind::DualPi2,
            Settings { base: Some(BaseAqm::CurvyRed), min_threshold: ms(1), ..none },
            r#"{"kind":"dualpi2","limit_packets":397,"profile":"rfc","base":"curvy_red","range_ns":500000000,"min_threshold_ns":1000000}"#,
        ),
        (
            Kind::DualPi2,
            Settings { l4s_burst: Some(burst), ..none },
            r#"{"kind":"dualpi2","limit_packets":397,"target_ns":15000000,"profile":"rfc","l4s_burst":{"rate_bps":20000000,"burst_ns":2000000}}"#,
        ),
    ];
    for (kind, settings, json) in cases {
        let spec = spec(kind, settings);
        assert_eq!(serde_json::to_string(&spec).unwrap(), json);
        assert_eq!(serde_json::from_str::<QueueSpec>(json).unwrap(), spec);
        assert!(spec.build::<Full>().is_ok(), "{kind:?}");
    }
    let old = r#"{"kind":"codel","limit_packets":397,"target_ns":5000000,"interval_ns":100000000,"ecn":false,"l4s_threshold_ns":null}"#;
    let codel = spec(Kind::Codel, Settings { ecn: Some(false), ..none });
    assert_eq!(serde_json::from_str::<QueueSpec>(old).unwrap(), codel);
    for kind in [Kind::Cake, Kind::FqPie, Kind::Strict, Kind::Weighted] {
        assert_eq!(QueueSpec::new(&kind.into(), ON_PATH), None);
    }
}

#[test]
fn the_kernel_s_queues_have_the_limits_of_a_box_s_own() {
    let of = |kind, settings| Discipline { kind, settings }.to_tc().unwrap().to_string();
    let none = Settings::default();
    let bytes = Settings { limit: Some(Limit::Bytes(Bytes(30_280))), ..none };
    let packets = Settings { limit: Some(Limit::Packets(77)), ..none };
    assert_eq!(of(Kind::Fifo, none), "pfifo limit 1250 packets");
    assert_eq!(of(Kind::Fifo, bytes), "bfifo limit 30280 bytes");
    let sfq = Settings { perturb: ms(5_000), ..bytes };
    assert_eq!(of(Kind::Sfq, sfq), "sfq limit 20 packets perturb 5.000 s");
    let codel = Settings { target: ms(5), ecn: Some(false), ..packets };
    assert_eq!(of(Kind::FqCodel, codel), "fq_codel limit 77 packets target 5.000 ms noecn");
    let pie = Settings { target: ms(9), ..packets };
    assert_eq!(of(Kind::Pie, pie), "pie limit 77 packets target 9.000 ms ecn");
    assert_eq!(
        Discipline { kind: Kind::DualPi2, settings: pie }.to_tc(),
        Some(tc::Discipline::DualPi2 { limit: Some(77), target: ms(9) })
    );
    assert_eq!(Discipline::from(Kind::Strict).to_tc(), None);
    assert_eq!(Discipline::from(Kind::Codel).to_tc(), None);
}

#[test]
fn a_box_has_what_its_dataplane_has_or_has_a_stand_in_for() {
    let lacks = |owner: &QueueOwner, kind: Kind| owner.refuses(&kind.into());
    let here = QueueOwner::Kernel(Some(Features::of(&["htb", "pfifo"])));
    assert_eq!(lacks(&here, Kind::Sfq), None, "classes stand in for it");
    assert_eq!(lacks(&here, Kind::Strict), None);
    let said = lacks(&here, Kind::DualPi2).unwrap();
    assert!(said.starts_with("this kernel has no queueing discipline dualpi2: it has pfifo"));
    let said = lacks(&here, Kind::Pi2).unwrap();
    assert!(said.starts_with("the kernel has no pi2: use `dataplane = \"user\"`"), "{said}");
    let there = QueueOwner::Kernel(Some(Features::of(&["htb", "dualpi2"])));
    assert_eq!(lacks(&there, Kind::DualPi2), None);
    assert_eq!(lacks(&QueueOwner::Kernel(None), Kind::DualPi2), None, "not known");
    assert_eq!(
        lacks(&QueueOwner::Forebay, Kind::FqPie).unwrap(),
        "fq_pie is a queue of the kernel's, which goes with `dataplane = \"kernel\"` in [sendbox]; \
         a box's own are fifo, sfq, fq_codel, pie, dualpi2, strict and weighted"
    );
    assert_eq!(lacks(&QueueOwner::Forebay, Kind::DualPi2), None);
    assert_eq!(lacks(&QueueOwner::Forebay, Kind::Sfq), None);
}

#[test]
fn a_known_rate_turns_times_into_bytes_where_packets_are_counted() {
    let at =
        |kind, limit| Discipline::limited(kind, limit).at_rate(Rate::from_mbps(96)).settings.limit;
    let time = Some(Limit::Time(Nanos::from_millis(100)));
    let bytes = Some(Limit::Bytes(Bytes(1_200_000)));
    assert_eq!([at(Kind::Sfq, time), at(Kind::FqCodel, time), at(Kind::DualPi2, time)], [bytes; 3]);
    assert_eq!([at(Kind::Fifo, time), at(Kind::Pie, time)], [time; 2]);
    assert_eq!(at(Kind::DualPi2, None), Some(Limit::Bytes(Bytes(3_000_000))), "250 ms");
    assert_eq!(at(Kind::Sfq, None), None);
}

#[test]
fn nothing_waits_long_in_a_fifo_unless_a_limit_is_given() {
    let longest = |limit| {
        let mut queue = Discipline::limited(Kind::Fifo, limit).build::<Full>(1).unwrap();
        let waits = (0..20).map(|n| Nanos::from_millis(100 * n)).filter(|wait| {
            let start = Nanos::from_secs(10);
            let mut dropped = |_, _| ();
            queue.enqueue(start, Full, &mut dropped);
            queue.dequeue(start + *wait, &mut dropped).is_some()
        });
        waits.last().map(Nanos::as_millis_f64)
    };
    assert_eq!(longest(None), Some(1000.0));
    assert_eq!(longest(Some(Limit::Packets(1250))), Some(1900.0));
}

#[test]
fn a_burst_in_the_l_queue_has_a_length_once_the_rate_is_known() {
    let burst = Burst { time: Nanos::from_millis(2), rate: None };
    let settings = Settings { l4s_burst: Some(burst), ..Settings::default() };
    let rate = Rate::from_mbps(96);
    let known = Discipline { kind: Kind::DualPi2, settings }.at_rate(rate);
    assert_eq!(known.settings.l4s_burst, Some(Burst { rate: Some(rate), ..burst }));
}

#[test]
fn the_controlled_delay_is_where_signals_are_strongest() {
    let of = |settings| Discipline { kind: Kind::DualPi2, settings }.controlled_delay();
    let none = Settings::default();
    assert_eq!(of(none), ms(30));
    assert_eq!(of(Settings { target: ms(5), ..none }), ms(10));
    let red = Settings { base: Some(BaseAqm::CurvyRed), ..none };
    assert_eq!(of(red), ms(250), "p' is 1/k");
    let red = Settings { min_threshold: ms(3), range: ms(90), coupling: Some(3.0), ..red };
    assert_eq!(of(red), ms(33));
    assert_eq!(Discipline::from(Kind::Pie).controlled_delay(), None);
}
