//! Shares a link of 10 Mbit/s between a bulk flow and a sparse flow, with a FIFO and with FQ-CoDel.
//!
//! The clock is a variable that the program advances. The bulk flow sends 12 Mbit/s, the sparse
//! flow a packet of 200 bytes every 20 ms. The FIFO delays the sparse flow behind the bulk flow;
//! FQ-CoDel serves it at once and drops packets of the bulk flow only.
//!
//! `cargo run -p forebay-queue --example two_flows`

use forebay_queue::{ConfigError, DropReason, Ecn, Fifo, FqCodel, Packet, Qdisc, fifo, fq_codel};
use forebay_units::{Bytes, Nanos, Rate};

const LINK: Rate = Rate::from_mbps(10);
const END: Nanos = Nanos::from_secs(10);
const NAMES: [&str; 2] = ["bulk", "sparse"];

/// A packet with its flow, 0 or 1, and the time of its arrival.
struct Frame {
    flow: u32,
    len: Bytes,
    arrival: Nanos,
}

impl Packet for Frame {
    fn len(&self) -> Bytes {
        self.len
    }

    fn flow_hash(&self) -> u32 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn set_ce(&mut self) {}
}

/// Runs both flows through `qdisc` and prints the packets, drops and mean queue delay of each.
fn run(name: &str, mut qdisc: impl Qdisc<Frame>) {
    let (mut sent, mut dropped, mut delay) = ([0_u64; 2], [0; 2], [Nanos::ZERO; 2]);
    let len = [Bytes(1500), Bytes(200)];
    let gap = [Rate::from_mbps(12).time_for(len[0]), Nanos::from_millis(20)];
    let (mut next, mut link_free) = ([Nanos::ZERO; 2], Nanos::ZERO);
    let mut drops = |frame: Frame, _: DropReason| dropped[frame.flow as usize] += 1;
    loop {
        let flow = if next[0] <= next[1] { 0 } else { 1 };
        let arrival = next[flow];
        // The link sends until the next packet arrives.
        while link_free < arrival {
            let Some(frame) = qdisc.dequeue(link_free, &mut drops) else { break };
            sent[frame.flow as usize] += 1;
            delay[frame.flow as usize] += link_free - frame.arrival;
            link_free += LINK.time_for(frame.len);
        }
        if arrival >= END {
            break;
        }
        link_free = link_free.max(arrival);
        qdisc.enqueue(arrival, Frame { flow: flow as u32, len: len[flow], arrival }, &mut drops);
        next[flow] += gap[flow];
    }
    for flow in 0..2 {
        let mean = delay[flow] / sent[flow].max(1);
        let (name_of_flow, sent, dropped) = (NAMES[flow], sent[flow], dropped[flow]);
        println!("{name:9} {name_of_flow:7} sent {sent:5}  dropped {dropped:5}  mean delay {mean}");
    }
}

fn main() -> Result<(), ConfigError> {
    run("FIFO", Fifo::new(fifo::Config::default())?);
    run("FQ-CoDel", FqCodel::new(fq_codel::Config::default())?);
    Ok(())
}
