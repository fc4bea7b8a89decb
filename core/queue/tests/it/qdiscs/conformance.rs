//! Random operations on every qdisc, compared with the model.

use forebay_queue::token_bucket::Burst;
use forebay_queue::{
    Class, Codel, DropReason, Drr, DualPi2, Ecn, Fifo, FqCodel, InOrder, Limit, Pi2, Pie, Qdisc,
    Sfq, Share, StrictPriority, TokenBucket, Weighted, codel, drr, dualpi2, fifo, fq_codel, pi2,
    pie, sfq, token_bucket,
};
use forebay_units::{Bytes, Nanos, Rate};
use proptest::prelude::*;

use crate::qdiscs::in_order::Switching;
use crate::qdiscs::model::{Model, Op, RULES, Rules};
use crate::qdiscs::packet::Pkt;

type Boxed = Box<dyn Qdisc<Pkt>>;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let len = prop_oneof![40..=1514_u64, Just(1514), 1500..=9014_u64];
    let op = prop_oneof![
        5 => (0..12_u32, len, ecn).prop_map(|(flow, len, ecn)| Op::Enqueue { flow, len, ecn }),
        4 => Just(Op::Dequeue),
        1 => (0..100_000_u64).prop_map(|ns| Op::Advance(Nanos(ns))),
        1 => (0..8_000_000_u64).prop_map(|ns| Op::Advance(Nanos(ns))),
        1 => Just(Op::AdvanceToEvent),
    ];
    prop::collection::vec(op, 1..400)
}

fn fifo(limit: Limit) -> Boxed {
    Box::new(Fifo::new(fifo::Config { limit }).unwrap())
}

/// Returns parameters with an interval short enough that CoDel drops within a test.
fn params() -> codel::Params {
    codel::Params {
        target: Nanos::from_micros(500),
        interval: Nanos::from_millis(5),
        ecn: true,
        ce_threshold: Some(Nanos::from_millis(3)),
        ..codel::Params::default()
    }
}

fn codel(limit: Limit) -> Boxed {
    Box::new(Codel::new(codel::Config { limit, params: params() }).unwrap())
}

fn sfq(config: sfq::Config) -> Boxed {
    Box::new(Sfq::new(config).unwrap())
}

fn small_sfq() -> sfq::Config {
    let quantum = Bytes(300);
    sfq::Config { limit: 24, depth: 9, flows: 6, divisor: 16, quantum, ..sfq::Config::default() }
}

fn fq_codel(limit: u32, memory: u64) -> Boxed {
    let config = fq_codel::Config {
        limit,
        memory_limit: Bytes(memory),
        flows: 7,
        quantum: Bytes(300),
        codel: params(),
        ..fq_codel::Config::default()
    };
    Box::new(FqCodel::new(config).unwrap())
}

/// Returns a PIE whose times are short and gain is high enough that it drops within a test.
fn pie(limit: Limit) -> Boxed {
    let params = pie::Params {
        target: Nanos::from_micros(500),
        tupdate: Nanos::from_micros(100),
        alpha: 500.0,
        beta: 500.0,
        burst_allowance: Nanos::from_millis(1),
        ecn: true,
        ..pie::Params::default()
    };
    Box::new(Pie::new(pie::Config { limit, params, ..pie::Config::default() }).unwrap())
}

/// Returns parameters of a controller that reaches drops and overload within a test.
fn quick() -> pi2::Params {
    let (target, tupdate) = (Nanos::from_micros(500), Nanos::from_micros(100));
    pi2::Params { target, tupdate, alpha: 50.0, beta: 50.0 }
}

fn pi2(limit: Limit) -> Boxed {
    let config = pi2::Config { limit, params: quick(), ..pi2::Config::default() };
    Box::new(Pi2::new(config).unwrap())
}

fn dualpi2(config: dualpi2::Config) -> Boxed {
    let base = dualpi2::Base::Pi2(quick());
    Box::new(DualPi2::new(dualpi2::Config { limit: 40, base, ..config }).unwrap())
}

/// Returns a dual queue with Curvy RED whose range is short enough for drops and overload.
fn curvy_red() -> Boxed {
    let range = Nanos::from_millis(2);
    let base = dualpi2::CurvyRed { weight: 0.25, range, ..dualpi2::CurvyRed::default() };
    let base = dualpi2::Base::CurvyRed(base);
    let config = dualpi2::Config::rfc9332();
    Box::new(DualPi2::new(dualpi2::Config { limit: 40, base, ..config }).unwrap())
}

fn scalable(packet: &Pkt) -> bool {
    matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce)
}

/// Returns whether a packet goes to the L queue if class 1 selects it and class 2 the C queue.
fn low_latency_by_class(packet: &Pkt) -> bool {
    packet.class == 1 || packet.class != 2 && scalable(packet)
}

fn shaped(burst: Burst, rate: Rate, child: Boxed) -> Boxed {
    let config = token_bucket::Config { rate: Some(rate), burst, ..Default::default() };
    Box::new(TokenBucket::new(config, child))
}

fn drr(children: Vec<(u32, Boxed)>) -> Boxed {
    Box::new(Drr::new(drr::Config { quantum: Bytes(500) }, children).unwrap())
}

fn class(weight: u32, rate: Option<u64>, ceil: Option<u64>) -> Class {
    let share = Share { weight, rate: rate.map(Rate::from_mbps) };
    Class { share, ceil: ceil.map(Rate::from_mbps) }
}

fn weighted(children: Vec<(Class, Boxed)>) -> Boxed {
    Box::new(Weighted::new(children).unwrap())
}

fn priority(children: Vec<Boxed>) -> Boxed {
    Box::new(StrictPriority::new(children).unwrap())
}

/// Wraps a policy so that it switches to the order of arrival and back during the test.
fn in_order(policy: Boxed) -> Boxed {
    Box::new(Switching::new(InOrder::new(policy)))
}

macro_rules! conforms {
    ($($name:ident: $rules:expr => $make:expr;)*) => {
        proptest! {
            $(#[test]
            fn $name(ops in ops()) {
                Model::new($make, $rules).run(ops);
            })*
        }
    };
}

const CODEL: &[DropReason] = &[DropReason::Codel];
const PIE: &[DropReason] = &[DropReason::Pie];
const PI2: &[DropReason] = &[DropReason::Pi2, DropReason::Overload];
const TIME: Nanos = Nanos::from_millis(4);
const MS: Nanos = Nanos::from_millis(1);

conforms! {
    fifo_by_packets: Rules { packets: 15, ..RULES } => fifo(Limit::packets(15));
    fifo_by_bytes: Rules { bytes: 9000, ..RULES } => fifo(Limit::bytes(Bytes(9000)));
    fifo_by_time: Rules { time: TIME, ..RULES } => fifo(Limit::time(TIME));
    fifo_by_all: Rules { packets: 9, bytes: 20_000, time: TIME, ..RULES } =>
        fifo(Limit::packets(9).and(Limit::bytes(Bytes(20_000))).and(Limit::time(TIME)));
    codel_queue: Rules { packets: 40, aqm: CODEL, ..RULES } => codel(Limit::packets(40));
    codel_by_time: Rules { packets: 40, time: TIME, aqm: CODEL, ..RULES } =>
        codel(Limit::packets(40).and(Limit::time(TIME)));
    pie_queue: Rules { packets: 40, aqm: PIE, early: true, ..RULES } => pie(Limit::packets(40));
    pie_by_all: Rules { packets: 40, bytes: 40_000, time: TIME, aqm: PIE, early: true, ..RULES } =>
        pie(Limit::packets(40).and(Limit::bytes(Bytes(40_000))).and(Limit::time(TIME)));
    pi2_queue: Rules { packets: 40, aqm: PI2, empties: true, ..RULES } => pi2(Limit::packets(40));
    pi2_by_all:
        Rules { packets: 40, bytes: 40_000, time: TIME, aqm: PI2, empties: true, ..RULES } =>
        pi2(Limit::packets(40).and(Limit::bytes(Bytes(40_000))).and(Limit::time(TIME)));
    dualpi2_rfc9332: Rules { packets: 40, aqm: PI2, empties: true, lane: scalable, ..RULES } =>
        dualpi2(dualpi2::Config::rfc9332());
    dualpi2_paper: Rules { packets: 40, aqm: PI2, empties: true, lane: scalable, ..RULES } =>
        dualpi2(dualpi2::Config::paper());
    dualpi2_curvy_red: Rules { packets: 40, aqm: PI2, empties: true, lane: scalable, ..RULES } =>
        curvy_red();
    dualpi2_by_class:
        Rules { packets: 40, aqm: PI2, empties: true, lane: low_latency_by_class, ..RULES } =>
        dualpi2(dualpi2::Config {
            low_latency_class: Some(1),
            classic_class: Some(2),
            ..dualpi2::Config::rfc9332()
        });
    sfq_queue: Rules { packets: 24, flow_packets: 9, flows: 6, ..RULES } =>
        sfq(sfq::Config { perturb: None, ..small_sfq() });
    sfq_with_head_drop: Rules { packets: 24, flow_packets: 9, flows: 6, ..RULES } =>
        sfq(sfq::Config { perturb: None, head_drop: true, ..small_sfq() });
    sfq_perturbed: Rules { packets: 24, flow_packets: 9, flows: 6, peeks: false, ..RULES } =>
        sfq(sfq::Config { perturb: Some(MS), ..small_sfq() });
    sfq_of_one_packet: Rules { packets: 1, flow_packets: 1, peeks: false, ..RULES } =>
        sfq(sfq::Config { limit: 1, perturb: Some(MS), ..small_sfq() });
    sfq_of_depth_one: Rules { packets: 24, flow_packets: 1, flows: 6, peeks: false, ..RULES } =>
        sfq(sfq::Config { depth: 1, head_drop: true, perturb: Some(MS), ..small_sfq() });
    fq_codel_by_packets: Rules { packets: 30, aqm: CODEL, ..RULES } => fq_codel(30, 1 << 20);
    fq_codel_by_bytes: Rules { bytes: 12_000, aqm: CODEL, ..RULES } => fq_codel(10_240, 12_000);
    fq_codel_of_two_packets: Rules { packets: 2, aqm: CODEL, ..RULES } => fq_codel(2, 1 << 20);
    drr_of_fifos: Rules { packets: 10, per_class: true, ..RULES } =>
        drr([1, 2, 3, 7].map(|weight| (weight, fifo(Limit::packets(10)))).into());
    drr_of_mixed: Rules { packets: 12, per_class: true, aqm: CODEL, ..RULES } =>
        drr(vec![
            (1, fifo(Limit::packets(12))),
            (2, codel(Limit::packets(12))),
            (1, fq_codel(12, 1 << 20)),
            (9, sfq(sfq::Config { limit: 12, depth: 12, perturb: None, ..small_sfq() })),
        ]);
    drr_of_shapers: Rules { packets: 10, per_class: true, shaped: true, peeks: false, ..RULES } =>
        drr([5, 10, 20, 40].map(|mbps| {
            let burst = Burst::Time(Nanos(mbps * 10_000));
            (1, shaped(burst, Rate::from_mbps(mbps), fifo(Limit::packets(10))))
        }).into());
    weighted_of_fifos: Rules { packets: 10, per_class: true, peeks: false, ..RULES } =>
        weighted([(1, None), (2, None), (3, Some(9)), (7, None)]
            .map(|(weight, rate)| (class(weight, rate, None), fifo(Limit::packets(10)))).into());
    weighted_with_ceilings: Rules {
        packets: 12, per_class: true, aqm: CODEL, shaped: true, peeks: false, ..RULES
    } =>
        weighted(vec![
            (class(1, Some(5), Some(7)), fifo(Limit::packets(12))),
            (class(9, None, Some(20)), codel(Limit::packets(12))),
            (class(3, Some(30), None), fq_codel(12, 1 << 20)),
            (class(1, None, Some(3)), fifo(Limit::packets(12))),
        ]);
    priority_of_fifos: Rules { packets: 10, per_class: true, ..RULES } =>
        priority((0..4).map(|_| fifo(Limit::packets(10))).collect());
    priority_with_a_shaper: Rules {
        packets: 10, per_class: true, aqm: CODEL, shaped: true, peeks: false, ..RULES
    } =>
        priority(vec![
            shaped(Burst::Bytes(Bytes(0)), Rate::from_mbps(5), fifo(Limit::packets(10))),
            fifo(Limit::packets(10)),
            codel(Limit::packets(10)),
            fifo(Limit::packets(10)),
        ]);
    shaper_of_fifo: Rules { packets: 20, shaped: true, ..RULES } =>
        shaped(Burst::Bytes(Bytes(3000)), Rate::from_bps(17_000_003), fifo(Limit::packets(20)));
    shaper_of_fq_codel: Rules { packets: 30, aqm: CODEL, shaped: true, ..RULES } =>
        shaped(Burst::Time(MS), Rate::from_bps(29_999_999), fq_codel(30, 1 << 20));
    shaper_of_expiring: Rules { packets: 30, time: TIME, shaped: true, ..RULES } =>
        shaped(
            Burst::Time(MS),
            Rate::from_mbps(10),
            fifo(Limit::packets(30).and(Limit::time(TIME))),
        );
    in_order_or_sfq: Rules { packets: 24, flows: 6, ..RULES } =>
        in_order(sfq(sfq::Config { depth: 24, perturb: None, ..small_sfq() }));
    in_order_or_fq_codel: Rules { packets: 30, bytes: 30_000, aqm: CODEL, ..RULES } =>
        in_order(fq_codel(30, 30_000));
    in_order_or_shaped: Rules { packets: 20, shaped: true, ..RULES } =>
        in_order(shaped(Burst::Bytes(Bytes(3000)), Rate::from_mbps(17), fifo(Limit::packets(20))));
    in_order_or_priority: Rules { packets: 10, per_class: true, ..RULES } =>
        in_order(priority((0..4).map(|_| fifo(Limit::packets(10))).collect()));
}
