//! Synthetic flows, encoded and sampled, against their true octets.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::*;

/// A flow of the property: octets of its packets, interface, destination, and times.
type Synthetic = (Vec<u16>, u32, u8, (i64, i64));

fn synthetic() -> impl Strategy<Value = Synthetic> {
    let packets = prop::collection::vec(40_u16..1500, 1..200);
    (packets, 1_u32..=3, 0_u8..2, (0_i64..200, 0_i64..100))
}

/// Encodes flows in messages of a few, as IPFIX or NetFlow v9; each packet is taken with
/// probability 1 / `factor`.
fn encoded(
    flows: &[Synthetic],
    factor: u32,
    netflow: bool,
    random: &mut ChaCha8Rng,
) -> Vec<Vec<u8>> {
    let fields: &[encode::Field] =
        if netflow { &[(1, 8), (2, 4), (10, 4), (12, 4), (22, 4), (21, 4)] } else { &FLOW };
    let mut records = Vec::new();
    for (packets, input, net, (start, length)) in flows {
        let taken: Vec<u64> = packets
            .iter()
            .filter(|_| random.next_u32().is_multiple_of(factor))
            .map(|octets| u64::from(*octets))
            .collect();
        if taken.is_empty() {
            continue;
        }
        let (start, end) = ago(*start, start - length);
        let (octets, count, to) = (taken.iter().sum(), taken.len() as u32, [10, *net, 0, 1]);
        let mut record = flow(octets, count, *input, to, (start, end));
        if netflow {
            record.truncate(20);
            for at in [start, end] {
                // The exporter was up for 1000 s.
                record.extend(((at as i64 - MILLIS + 1_000_000) as u32).to_be_bytes());
            }
        }
        records.push(record);
    }
    let sampler = factor.to_be_bytes().to_vec();
    let mut sequence = 0;
    let mut messages = Vec::new();
    for (part, number) in records.chunks(7).zip(0..) {
        let mut sets = Vec::new();
        if number == 0 && netflow {
            sets.push(encode::netflow_template(256, fields));
            sets.push(encode::netflow_options_template(257, &[(1, 0)], &[(34, 4)]));
            sets.push(encode::data(257, std::slice::from_ref(&sampler)));
        } else if number == 0 {
            sets.push(encode::template(256, fields));
            sets.push(encode::options_template(257, 1, &[(149, 4), (34, 4)]));
            sets.push(encode::data(257, &[[vec![0; 4], sampler.clone()].concat()]));
        }
        sets.push(encode::data(256, part));
        messages.push(match netflow {
            true => encode::netflow(NOW, 1_000_000, number, 0, &sets),
            false => encode::ipfix(NOW, sequence, 0, &sets),
        });
        sequence += part.len() as u32 + u32::from(number == 0);
    }
    messages
}

/// Returns the true octets of the flows in the window, by entry and network.
fn truth(flows: &[Synthetic]) -> BTreeMap<(u32, u8), f64> {
    let mut sums = BTreeMap::new();
    for (packets, input, net, (start, length)) in flows {
        let (start, end) = ago(*start, start - length);
        let span = crate::flows::time::Span { start: start as i64, end: end as i64 };
        let octets: f64 = packets.iter().map(|o| f64::from(*o)).sum();
        *sums.entry((*input, *net)).or_default() += octets * window().share(span);
    }
    sums
}

fn measured(
    flows: &[Synthetic],
    factor: u32,
    netflow: bool,
    seed: u64,
) -> BTreeMap<(u32, u8), Measured> {
    let mut collector = collector("");
    for message in encoded(flows, factor, netflow, &mut ChaCha8Rng::seed_from_u64(seed)) {
        assert_eq!(take(&mut collector, &message), []);
    }
    assert_eq!(collector.lost(0), 0.0);
    let by = |m: Measured| {
        let input = match (m.place.provider, m.place.entry) {
            (0, 0) => 1,
            (0, _) => 2,
            _ => 3,
        };
        ((input, m.router.0 as u8), m)
    };
    collector.demands(window()).into_iter().map(by).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn unsampled_flows_are_measured_exactly(
        flows in prop::collection::vec(synthetic(), 1..60),
        netflow in any::<bool>(),
    ) {
        let measured = measured(&flows, 1, netflow, 0);
        for (key, octets) in truth(&flows) {
            let rate = measured.get(&key).map_or(0.0, |m| m.rate);
            prop_assert!((rate - octets * 8.0 / 100.0).abs() <= 1e-6 * rate.max(1.0), "{key:?}");
        }
    }

    /// Within six standard deviations, of which the error has 1.96.
    #[test]
    fn sampled_flows_are_measured_within_the_error(
        flows in prop::collection::vec(synthetic(), 40..120),
        factor in 2_u32..8,
        netflow in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let measured = measured(&flows, factor, netflow, seed);
        let (mut all, mut variance, mut sum) = (0.0, 0.0, 0.0);
        for (key, octets) in truth(&flows) {
            all += octets * 8.0 / 100.0;
            if let Some(m) = measured.get(&key) {
                variance += (m.rate * m.error / 1.96).powi(2);
                sum += m.rate;
            }
        }
        prop_assert!((sum - all).abs() <= 6.0 * variance.sqrt() + 1e-6, "{sum} of {all}");
    }
}

#[test]
fn the_mean_of_a_hundred_samplings_is_right() {
    let packets = |n: usize| (0..n).map(|i| if i % 2 == 0 { 1500 } else { 40 }).collect();
    let flows: Vec<Synthetic> = (0..20).map(|n| (packets(100 + n), 1, 0, (90, 50))).collect();
    let truth = truth(&flows)[&(1, 0)] * 8.0 / 100.0;
    let sampled: Vec<Measured> =
        (0..100).map(|seed| measured(&flows, 10, seed % 2 == 0, seed)[&(1, 0)]).collect();
    let mean = sampled.iter().map(|m| m.rate).sum::<f64>() / 100.0;
    // 2190 packets, one of 10: the deviation of each sampling is about 8 %, and that of the mean
    // about 0.8 %.
    assert!((mean / truth - 1.0).abs() < 0.03, "{mean} of {truth}");
    let within = sampled.iter().filter(|m| (m.rate - truth).abs() <= m.error * m.rate).count();
    assert!(within >= 88, "{within} of 100 are within the error that is said");
}
