//! Invalid configurations are refused with a message that says what to do.

use forebay_queue::dualpi2::CurvyRed;
use forebay_queue::{
    Codel, ConfigError, Drr, DualPi2, Fifo, FqCodel, Limit, Pi2, Pie, Sfq, StrictPriority, codel,
    drr, dualpi2, fifo, fq_codel, pi2, pie, sfq,
};
use forebay_units::{Bytes, Nanos, Rate};

use crate::qdiscs::packet::Pkt;

fn refused<T>(result: Result<T, ConfigError>) -> &'static str {
    match result.err() {
        Some(
            ConfigError::OutOfRange { setting, .. }
            | ConfigError::RealOutOfRange { setting, .. }
            | ConfigError::NotPowerOfTwo { setting, .. },
        ) => setting,
        None => "accepted",
    }
}

#[test]
fn defaults_are_accepted() {
    assert!(Fifo::<Pkt>::new(fifo::Config::default()).is_ok());
    assert!(Codel::<Pkt>::new(codel::Config::default()).is_ok());
    assert!(Pie::<Pkt>::new(pie::Config::default()).is_ok());
    assert!(Pi2::<Pkt>::new(pi2::Config::default()).is_ok());
    assert!(DualPi2::<Pkt>::new(dualpi2::Config::default()).is_ok());
    assert!(DualPi2::<Pkt>::new(dualpi2::Config::paper()).is_ok());
    assert!(DualPi2::<Pkt>::new(dualpi2::Config::linux()).is_ok());
    let slow = dualpi2::Config::rfc9332().for_link(Rate::from_bps(1));
    assert!(DualPi2::<Pkt>::new(slow).is_ok());
    assert!(Sfq::<Pkt>::new(sfq::Config::default()).is_ok());
    assert!(FqCodel::<Pkt>::new(fq_codel::Config::default()).is_ok());
}

#[test]
fn limits_must_admit_a_packet() {
    for (limit, setting) in [
        (Limit::packets(0), "limit.packets"),
        (Limit::packets(Limit::MAX_PACKETS + 1), "limit.packets"),
        (Limit::bytes(Bytes::ZERO), "limit.bytes"),
        (Limit::time(Nanos::ZERO), "limit.time"),
    ] {
        assert_eq!(refused(Fifo::<Pkt>::new(fifo::Config { limit })), setting);
        let config = codel::Config { limit, ..codel::Config::default() };
        assert_eq!(refused(Codel::<Pkt>::new(config)), setting);
    }
}

#[test]
fn codel_refuses_times_out_of_range() {
    let with = |target: u64, interval: u64| {
        let params = codel::Params {
            target: Nanos::from_millis(target),
            interval: Nanos::from_millis(interval),
            ..codel::Params::default()
        };
        let fq = fq_codel::Config { codel: params, ..fq_codel::Config::default() };
        let alone = codel::Config { params, ..codel::Config::default() };
        let refused = (refused(Codel::<Pkt>::new(alone)), refused(FqCodel::<Pkt>::new(fq)));
        assert_eq!(refused.0, refused.1);
        refused.0
    };
    assert_eq!(with(0, 100), "target");
    assert_eq!(with(4001, 100), "target");
    assert_eq!(with(101, 100), "accepted");
    assert_eq!(with(5, 0), "interval");
    assert_eq!(with(5, 4001), "interval");
    assert_eq!(with(100, 4000), "accepted");
}

#[test]
fn pie_refuses_times_and_gains_out_of_range() {
    let default = pie::Params::default;
    for (params, setting) in [
        (pie::Params { target: Nanos::ZERO, ..default() }, "target"),
        (pie::Params { tupdate: Nanos(999), ..default() }, "tupdate"),
        (pie::Params { burst_allowance: Nanos::MAX, ..default() }, "burst_allowance"),
        (pie::Params { mtu: Bytes::ZERO, ..default() }, "mtu"),
        (pie::Params { alpha: -0.1, ..default() }, "alpha"),
        (pie::Params { alpha: f64::NAN, ..default() }, "alpha"),
        (pie::Params { beta: 1001.0, ..default() }, "beta"),
        (pie::Params { mark_threshold: 1.1, ..default() }, "mark_threshold"),
        (pie::Params { burst_allowance: Nanos::ZERO, ..default() }, "accepted"),
    ] {
        let config = pie::Config { params, ..pie::Config::default() };
        assert_eq!(refused(Pie::<Pkt>::new(config)), setting);
    }
}

#[test]
fn pi2_refuses_gains_and_couplings_out_of_range() {
    let default = pi2::Params::default;
    for (params, setting) in [
        (pi2::Params { target: Nanos::ZERO, ..default() }, "target"),
        (pi2::Params { tupdate: Nanos::ZERO, ..default() }, "tupdate"),
        (pi2::Params { alpha: f64::INFINITY, ..default() }, "alpha"),
        (pi2::Params { beta: -1.0, ..default() }, "beta"),
        (default(), "accepted"),
    ] {
        let config = pi2::Config { params, ..pi2::Config::default() };
        assert_eq!(refused(Pi2::<Pkt>::new(config)), setting);
        let base = dualpi2::Base::Pi2(params);
        let config = dualpi2::Config { base, ..dualpi2::Config::default() };
        assert_eq!(refused(DualPi2::<Pkt>::new(config)), setting);
    }
    for (coupling, max_classic, setting) in [
        (0.5, None, "coupling"),
        (f64::NAN, None, "coupling"),
        (2.0, Some(1.5), "max_classic"),
        (1.0, None, "accepted"),
    ] {
        let config = pi2::Config { coupling, max_classic, ..pi2::Config::default() };
        assert_eq!(refused(Pi2::<Pkt>::new(config)), setting);
        let config = dualpi2::Config { coupling, max_classic, ..dualpi2::Config::default() };
        assert_eq!(refused(DualPi2::<Pkt>::new(config)), setting);
    }
}

#[test]
fn dualpi2_refuses_limits_and_weights_out_of_range() {
    let default = dualpi2::Config::default;
    let weights = |low_latency, classic| dualpi2::Config {
        schedule: dualpi2::Schedule::RoundRobin { low_latency, classic },
        ..default()
    };
    let shifted =
        |shift| dualpi2::Config { schedule: dualpi2::Schedule::TimeShifted { shift }, ..default() };
    let native = |threshold, range| dualpi2::Config {
        native: dualpi2::Ramp { threshold, range, min_packets: 2 },
        ..default()
    };
    let none = CurvyRed::default();
    let red = |params| dualpi2::Config { base: dualpi2::Base::CurvyRed(params), ..default() };
    for (config, setting) in [
        (dualpi2::Config { limit: 0, ..default() }, "limit"),
        (dualpi2::Config { mtu: Bytes::ZERO, ..default() }, "mtu"),
        (dualpi2::Config { bytes: Some(Bytes(1513)), ..default() }, "bytes"),
        (weights(0, 1), "schedule.low_latency"),
        (weights(15, 1001), "schedule.classic"),
        (shifted(Nanos::from_secs(61)), "schedule.shift"),
        (shifted(Nanos::ZERO), "accepted"),
        (native(Nanos::MAX, Nanos::ZERO), "native.threshold"),
        (native(Nanos::ZERO, Nanos::MAX), "native.range"),
        (native(Nanos::ZERO, Nanos::ZERO), "accepted"),
        (dualpi2::Config { overload_hold: Nanos::MAX, ..default() }, "overload_hold"),
        (weights(1, 1), "accepted"),
        (red(CurvyRed { weight: 0.0, ..none }), "weight"),
        (red(CurvyRed { weight: f64::NAN, ..none }), "weight"),
        (red(CurvyRed { min_threshold: Nanos::MAX, ..none }), "min_threshold"),
        (red(CurvyRed { range: Nanos::ZERO, ..none }), "range"),
        (red(CurvyRed { weight: 1.0, range: Nanos(1), ..none }), "accepted"),
    ] {
        assert_eq!(refused(DualPi2::<Pkt>::new(config)), setting);
    }
}

#[test]
fn sfq_refuses_tables_and_quanta_out_of_range() {
    let default = sfq::Config::default;
    for (config, setting) in [
        (sfq::Config { limit: 0, ..default() }, "limit"),
        (sfq::Config { flows: 0, ..default() }, "flows"),
        (sfq::Config { depth: 0, ..default() }, "depth"),
        (sfq::Config { divisor: 0, ..default() }, "divisor"),
        (sfq::Config { divisor: 1000, ..default() }, "divisor"),
        (sfq::Config { divisor: 1 << 25, ..default() }, "divisor"),
        (sfq::Config { quantum: Bytes(255), ..default() }, "quantum"),
        (sfq::Config { quantum: Bytes(1 << 21), ..default() }, "quantum"),
        (sfq::Config { perturb: Some(Nanos::ZERO), ..default() }, "perturb"),
        (sfq::Config { flows: 5, divisor: 1, ..default() }, "accepted"),
    ] {
        assert_eq!(refused(Sfq::<Pkt>::new(config)), setting);
    }
}

#[test]
fn fq_codel_refuses_tables_and_quanta_out_of_range() {
    let default = fq_codel::Config::default;
    for (config, setting) in [
        (fq_codel::Config { limit: 0, ..default() }, "limit"),
        (fq_codel::Config { memory_limit: Bytes(0), ..default() }, "memory_limit"),
        (fq_codel::Config { memory_limit: Bytes(1 << 31), ..default() }, "memory_limit"),
        (fq_codel::Config { flows: 0, ..default() }, "flows"),
        (fq_codel::Config { quantum: Bytes(0), ..default() }, "quantum"),
        (fq_codel::Config { drop_batch: 0, ..default() }, "drop_batch"),
        (fq_codel::Config { flows: 1000, ..default() }, "accepted"),
    ] {
        assert_eq!(refused(FqCodel::<Pkt>::new(config)), setting);
    }
}

#[test]
fn classful_qdiscs_refuse_missing_children_and_bad_weights() {
    let fifo = || Fifo::<Pkt>::new(fifo::Config::default()).unwrap();
    let drr = |weights: &[u32]| {
        let children = weights.iter().map(|&weight| (weight, fifo())).collect();
        refused(Drr::new(drr::Config::default(), children))
    };
    assert_eq!(drr(&[]), "children");
    assert_eq!(drr(&[1; 257]), "children");
    assert_eq!(drr(&[1; 256]), "accepted");
    assert_eq!(drr(&[1, 0]), "quantum times weight");
    assert_eq!(drr(&[1, u32::MAX]), "quantum times weight");
    assert_eq!(refused(StrictPriority::<Pkt, Fifo<Pkt>>::new(vec![])), "children");
}

#[test]
fn errors_say_what_to_do() {
    let error = |config| Sfq::<Pkt>::new(config).err().map(|e| e.to_string());
    let divisor = sfq::Config { divisor: 1000, ..sfq::Config::default() };
    let message = "divisor is 1000: set it to a power of two, such as 1024";
    assert_eq!(error(divisor).as_deref(), Some(message));
    let quantum = sfq::Config { quantum: Bytes(0), ..sfq::Config::default() };
    let message = "quantum is 0: set it between 256 and 1048576";
    assert_eq!(error(quantum).as_deref(), Some(message));
    let params = pie::Params { mark_threshold: 1.5, ..pie::Params::default() };
    let error = Pie::<Pkt>::new(pie::Config { params, ..pie::Config::default() }).err();
    let message = "mark_threshold is 1.5: set it between 0 and 1";
    assert_eq!(error.map(|e| e.to_string()).as_deref(), Some(message));
}
