//! The fairness bound that Shreedhar and Varghese prove for deficit round robin.
//!
//! Over any time in which two flows have packets, the bytes they send, divided by their weights,
//! differ by at most 2 Max + Q.

use forebay_queue::{Drr, Fifo, FqCodel, Limit, Qdisc, Sfq, drr, fifo, fq_codel, sfq};
use forebay_units::{Bytes, Nanos};
use proptest::prelude::*;

use crate::qdiscs::packet::{Pkt, dequeue, enqueue, frame};

const MAX: u64 = 9014;
const EACH: u64 = 200;

/// Fills each of `weights.len()` flows (and classes) with packets of the given lengths, drains
/// until the first flow is empty, and checks every pair of flows over every time in between.
fn check(mut q: impl Qdisc<Pkt>, weights: &[u32], quantum: u64, lens: &[u64]) {
    let flows = weights.len();
    let mut lens = lens.iter().cycle();
    for id in 0..EACH {
        for flow in 0..flows as u32 {
            let packet = Pkt { class: flow as u8, len: *lens.next().unwrap(), ..frame(id, flow) };
            assert_eq!(enqueue(&mut q, Nanos::ZERO, packet), []);
        }
    }
    let (mut sent, mut left) = (vec![0_i128; flows], vec![EACH; flows]);
    // The least and the greatest difference so far. Over any time in between, the difference
    // changes by at most the greatest minus the least.
    let mut range = vec![vec![(0, 0); flows]; flows];
    while !left.contains(&0) {
        let packet = dequeue(&mut q, Nanos::ZERO).0.unwrap();
        sent[packet.flow as usize] += i128::from(packet.len);
        left[packet.flow as usize] -= 1;
        for i in 0..flows {
            for j in 0..i {
                let (w_i, w_j) = (i128::from(weights[i]), i128::from(weights[j]));
                let difference = sent[i] * w_j - sent[j] * w_i;
                let (least, greatest) = &mut range[i][j];
                *least = difference.min(*least);
                *greatest = difference.max(*greatest);
                // Scaled to the flow with the smallest weight, whose quantum is Q.
                let lightest = i128::from(*weights.iter().min().unwrap());
                let bound = i128::from(2 * MAX + quantum * lightest as u64) * w_i * w_j;
                assert!((*greatest - *least) * lightest <= bound, "{sent:?} by {weights:?}");
            }
        }
    }
}

fn lens() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![40..=200_u64, Just(1514), 40..=MAX], 1..150)
}

proptest! {
    #[test]
    fn drr_is_fair_by_weight(
        weights in prop::collection::vec(1..9_u32, 2..6), quantum in 256..4000_u64, lens in lens(),
    ) {
        let fifo = || Fifo::new(fifo::Config { limit: Limit::packets(1000) }).unwrap();
        let children = weights.iter().map(|&weight| (weight, fifo())).collect();
        let q = Drr::new(drr::Config { quantum: Bytes(quantum) }, children).unwrap();
        check(q, &weights, quantum, &lens);
    }

    #[test]
    fn sfq_is_fair_by_flow(quantum in 256..4000_u64, lens in lens()) {
        let config = sfq::Config { quantum: Bytes(quantum), ..sfq::Config::default() };
        check(Sfq::new(config).unwrap(), &[1; 5], quantum, &lens);
    }

    #[test]
    fn fq_codel_is_fair_by_flow(quantum in 256..4000_u64, lens in lens()) {
        let config = fq_codel::Config { quantum: Bytes(quantum), ..fq_codel::Config::default() };
        check(FqCodel::new(config).unwrap(), &[1; 5], quantum, &lens);
    }
}
