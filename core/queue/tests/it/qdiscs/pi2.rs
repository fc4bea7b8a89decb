use forebay_queue::{Ecn, Limit, Pi2, pi2};
use forebay_units::{Nanos, Rate};

use crate::qdiscs::packet::Pkt;
use crate::qdiscs::plant::{Kind, Measured, Plant, total};

const MS: Nanos = Nanos::from_millis(1);

/// Runs `senders` on a link of `mbps` and measures the 40 s after the first 20.
fn run(mbps: u64, target: u64, senders: &[(Kind, Ecn)]) -> Vec<Measured> {
    let limit = Limit::packets(10_000);
    let params = pi2::Params::for_rtt_max(MS * target, MS * 100);
    let q = Pi2::<Pkt>::new(pi2::Config { limit, params, ..pi2::Config::default() }).unwrap();
    let mut plant = Plant::new(q, Rate::from_mbps(mbps), MS * 30, senders);
    plant.run(Nanos::from_secs(20));
    plant.run(Nanos::from_secs(40))
}

#[test]
fn the_delay_stays_at_the_target() {
    for (mbps, target) in [(20, 15), (100, 15), (100, 30)] {
        for sender in
            [(Kind::Reno, Ecn::NotEct), (Kind::Reno, Ecn::Ect0), (Kind::Scalable, Ecn::Ect1)]
        {
            let measured = total(&run(mbps, target, &[sender; 10]));
            let delay = measured.delay_ms() / target as f64;
            assert!((0.85..1.15).contains(&delay), "{delay} x {target} ms of {sender:?}, {mbps}");
            let (lost, marked) = (measured.lost > 0, measured.marked > 0);
            assert_eq!((lost, marked), (sender.1 == Ecn::NotEct, sender.1 != Ecn::NotEct));
        }
    }
}

/// In one queue and at one round-trip time, the marking probability of L4S senders is twice the
/// square root of the loss of Reno senders, so that both get about the same rate.
#[test]
fn both_kinds_share_the_link() {
    let (reno, scalable) = ((Kind::Reno, Ecn::NotEct), (Kind::Scalable, Ecn::Ect1));
    let measured = run(100, 15, &[reno, scalable, reno, scalable, reno, scalable]);
    let classic = total(&[measured[0].clone(), measured[2].clone(), measured[4].clone()]);
    let l4s = total(&[measured[1].clone(), measured[3].clone(), measured[5].clone()]);
    let p_c = classic.lost as f64 / (classic.lost + classic.delivered) as f64;
    let p_l = l4s.marked as f64 / l4s.delivered as f64;
    let coupled = (p_l / 2.0) * (p_l / 2.0) / p_c;
    // Below one since the mean of p'^2 is more than the square of the mean of p'.
    assert!((0.5..1.1).contains(&coupled), "{p_l} {p_c}");
    let share = l4s.delivered as f64 / classic.delivered as f64;
    assert!((0.6..1.6).contains(&share), "{share}");
}
