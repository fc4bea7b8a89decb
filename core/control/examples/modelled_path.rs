//! Drives a control loop over a modelled path, and prints the rate and both queueing delays.
//!
//! Hosts send 120 Mbit/s through a sendbox to a bottleneck of 96 Mbit/s, 25 ms away. After five
//! seconds the bottleneck's rate falls to 48 Mbit/s. The queue builds at the bottleneck at first.
//! Then the loop sets a rate, and the queue moves to the sendbox.
//!
//! Run it with `cargo run -p forebay-control --example modelled_path`.

use std::collections::VecDeque;

use forebay_control::{ConfigError, ControlConfig, ControlLoop, Feedback};
use forebay_units::{Bytes, Nanos, Rate};

const PACKET: Bytes = Bytes(1514);
const OFFERED: Rate = Rate::from_mbps(120);
/// The propagation delay in each direction.
const ONE_WAY: Nanos = Nanos::from_millis(25);
/// Packets for which the sendbox has room.
const LIMIT: usize = 1000;
const STEP: Nanos = Nanos::from_millis(1);
const TICK_STEPS: u64 = 10;

/// Feedback on its way, with the time at which the sendbox gets it.
struct InFlight {
    at: Nanos,
    feedback: Feedback,
}

/// The bottleneck and the receivebox behind it.
struct Path {
    rate: Rate,
    /// Until when the bottleneck transmits what it has.
    busy_until: Nanos,
    epoch: u32,
    bytes: Bytes,
    packets: u32,
    sequence: u64,
    feedback: VecDeque<InFlight>,
}

impl Path {
    /// Returns the queueing delay at the bottleneck for a packet that the sendbox sends at `now`.
    fn queueing_delay(&self, now: Nanos) -> Nanos {
        self.busy_until.saturating_sub(now)
    }

    /// Carries a packet, and creates feedback if it is a boundary packet.
    fn carry(&mut self, now: Nanos, fingerprint: u32) {
        self.busy_until = self.busy_until.max(now) + self.rate.time_for(PACKET);
        self.bytes += PACKET;
        self.packets = self.packets.wrapping_add(1);
        if fingerprint.is_multiple_of(self.epoch) {
            self.sequence += 1;
            let feedback = Feedback {
                others: forebay_control::Others::default(),
                fingerprint,
                epoch: self.epoch,
                bytes: self.bytes,
                packets: self.packets,
                received_at: self.busy_until + ONE_WAY,
                sequence: self.sequence,
            };
            self.feedback.push_back(InFlight { at: self.busy_until + ONE_WAY * 2, feedback });
        }
    }
}

fn main() -> Result<(), ConfigError> {
    let mut control = ControlLoop::new(ControlConfig::default(), Nanos::ZERO)?;
    let mut path = Path {
        rate: Rate::from_mbps(96),
        busy_until: Nanos::ZERO,
        epoch: control.epoch(),
        bytes: Bytes::ZERO,
        packets: 0,
        sequence: 0,
        feedback: VecDeque::new(),
    };
    // Bytes that the hosts may send, and that the sendbox may send, carried over between steps.
    let (mut offered, mut credit) = (0.0, 0.0);
    let (mut waiting, mut sent) = (0_usize, 0_u32);

    println!("{:>7} {:>14} {:>10} {:>11} {:>8}", "time", "mode", "rate", "bottleneck", "sendbox");
    println!("{:>7} {:>14} {:>10} {:>11} {:>8}", "", "", "Mbit/s", "queue, ms", "queue, ms");
    for step in 0..10_000_u64 {
        let now = STEP * (step + 1);
        if step == 5_000 {
            path.rate = Rate::from_mbps(48);
        }
        while path.feedback.front().is_some_and(|f| f.at <= now)
            && let Some(InFlight { feedback, .. }) = path.feedback.pop_front()
        {
            control.on_feedback(now, &feedback);
        }

        offered += OFFERED.bytes_in(STEP).as_f64();
        while offered >= PACKET.as_f64() {
            offered -= PACKET.as_f64();
            waiting = (waiting + 1).min(LIMIT);
        }
        let rate = control.rate();
        credit += rate.unwrap_or(OFFERED.scaled(2.0)).bytes_in(STEP).as_f64();
        while waiting > 0 && credit >= PACKET.as_f64() {
            credit -= PACKET.as_f64();
            waiting -= 1;
            sent += 1;
            // A hash of the packet's number stands for the fingerprint of its headers.
            let fingerprint = sent.wrapping_mul(0x9e37_79b9).swap_bytes();
            control.on_sent(now, PACKET, Some(fingerprint), None);
            path.carry(now, fingerprint);
        }
        if waiting == 0 {
            credit = 0.0;
        }

        if step % TICK_STEPS == 0 {
            let backlog = Bytes(PACKET.0 * waiting as u64);
            control.on_tick(now, backlog);
            if let Some(epoch) = control.poll_epoch_update(now) {
                path.epoch = epoch;
            }
        }
        if step % 500 == 499 || step == 20 {
            let sendbox = rate.unwrap_or(OFFERED).time_for(Bytes(PACKET.0 * waiting as u64));
            println!(
                "{:>5.2} s {:>14} {:>10} {:>11.1} {:>8.1}",
                now.as_secs_f64(),
                control.mode().name(),
                rate.map_or("no limit".to_owned(), |r| format!("{:.1}", r.as_mbps_f64())),
                path.queueing_delay(now).as_millis_f64(),
                sendbox.as_millis_f64(),
            );
        }
    }
    Ok(())
}
