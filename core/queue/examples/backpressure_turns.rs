//! Runs turns of backpressure to count instructions: `backpressure_turns FLOWS TURNS`.
//!
//! A turn is an iteration of the benchmark `queue_backpressure`: a packet leaves a full buffer, a
//! flow is resumed and enqueues its packet, is refused another one and is paused. Run two numbers
//! of turns: the difference of the instructions divided by the difference of the turns is the cost
//! of a turn.
//!
//! ```sh
//! cargo build --release -p forebay-queue --example backpressure_turns
//! for turns in 100000 200000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!         target/release/examples/backpressure_turns 100000 $turns
//! done
//! ```

use forebay_queue::backpressure::{Config, FlowId, FlowPacket, Gate, Hysteresis};
use forebay_queue::{DropReason, Ecn, Fifo, Limit, Packet, fifo};
use forebay_units::{Bytes, Nanos};

struct Descriptor(u32);

impl Packet for Descriptor {
    fn len(&self) -> Bytes {
        Bytes(1514)
    }

    fn flow_hash(&self) -> u32 {
        self.0
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn set_ce(&mut self) {}
}

impl FlowPacket for Descriptor {
    fn flow(&self) -> FlowId {
        FlowId(self.0)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let (Some(flows), Some(turns)) = (numbers.next(), numbers.next()) else {
        return Err("usage: backpressure_turns FLOWS TURNS".into());
    };
    let (flows, turns) = (flows?, turns?);
    let limit = Limit::packets(1000);
    let config = Config {
        flows,
        in_buffer: 64,
        turn: 1,
        hysteresis: Hysteresis::Packets(1),
        ..Config::default()
    };
    let mut gate = Gate::new(config, Fifo::new(fifo::Config { limit })?)?;
    let mut drops = |_: Descriptor, _: DropReason| ();
    let now = Nanos::ZERO;
    for n in (0..flows).cycle().take(flows.max(2000) as usize) {
        let flow = (u64::from(n) * 0x9e37_79b1 % u64::from(flows)) as u32;
        let _ = gate.offer(now, Descriptor(flow), &mut drops);
    }
    let mut done = 0;
    while done < turns {
        gate.dequeue(now, &mut drops);
        while let Some(flow) = gate.resume_flow(now) {
            if gate.probe(flow, 0).is_go() {
                let _ = gate.offer(now, Descriptor(flow.0), &mut drops);
            }
            gate.pause_flow(now, flow, 0);
            done += 1;
        }
    }
    println!("{done} turns, {} flows wait", gate.waiting());
    Ok(())
}
