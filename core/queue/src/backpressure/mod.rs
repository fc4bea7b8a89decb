//! Backpressure instead of drops: a full queue inside a host pauses its sources and resumes them.
//!
//! Inside a host, packets wait twice: in a *source buffer* (of a socket, or a virtual machine's
//! ring) and in a *scheduled buffer*, a qdisc that many sources share. When the scheduled buffer is
//! full, most stacks drop, although the source is on the same machine and could keep the packet. zD
//! (Zhao, Saeed, Ammar and Zegura, "zD: a scalable zero-drop network stack at end hosts", CoNEXT
//! 2019; Zhao's thesis, chapter 4) lets the source keep it. The source asks before it enqueues
//! (`probe`). If there is no room, its flow is *paused*, waits in a *paused-flows queue*, and is
//! *resumed* when its turn comes.
//!
//! A [`Gate`] adds this to any [`Qdisc`](crate::Qdisc):
//!
//! ```
//! # use forebay_queue::{DropReason, Ecn, Fifo, Limit, Packet, fifo};
//! # use forebay_queue::backpressure::{Config, FlowId, FlowPacket, Gate, Probe};
//! # use forebay_units::{Bytes, Nanos};
//! # struct Frame(u32);
//! # impl Packet for Frame {
//! #     fn len(&self) -> Bytes { Bytes(1514) }
//! #     fn flow_hash(&self) -> u32 { self.0 }
//! #     fn ecn(&self) -> Ecn { Ecn::NotEct }
//! #     fn set_ce(&mut self) {}
//! # }
//! # impl FlowPacket for Frame {
//! #     fn flow(&self) -> FlowId { FlowId(self.0) }
//! # }
//! let fifo = Fifo::new(fifo::Config { limit: Limit::packets(2) })?;
//! let mut gate = Gate::new(Config { flows: 16, ..Config::default() }, fifo)?;
//! let (now, mut drops) = (Nanos::ZERO, |_: Frame, _: DropReason| ());
//!
//! // A source probes before it takes a packet out of its buffer.
//! for flow in [FlowId(0), FlowId(1), FlowId(2)] {
//!     if gate.probe(flow, 0) == Probe::Go {
//!         let frame = Frame(flow.0);
//!         assert!(gate.offer(now, frame, &mut drops).is_ok());
//!     } else {
//!         assert!(gate.pause_flow(now, flow, 0));
//!     }
//! }
//! assert!(gate.is_paused(FlowId(2)));
//!
//! // The scheduler sends a packet and gets the flows to wake.
//! assert_eq!(gate.dequeue(now, &mut drops).map(|frame| frame.0), Some(0));
//! let wake: Vec<_> = gate.resume(now).collect();
//! assert_eq!(wake, [FlowId(2)]);
//! # Ok::<(), forebay_queue::ConfigError>(())
//! ```
//!
//! The qdisc decides whether there is room, through [`Qdisc::room`](crate::Qdisc::room) and
//! [`Qdisc::probe`](crate::Qdisc::probe). A FIFO uses its limit, a classful qdisc the limit of each
//! class, a shaper the backlog of its child. Fair queueing also uses the flow's share
//! ([`Order::RoundRobin`]). An AQM still drops: its drops are signals to the sender.
//!
//! zD's Algorithm 2 leaves some cases open. They are handled as follows:
//!
//! | case | handling |
//! |---|---|
//! | Each departure resumes one flow. Room that becomes free while no flow is paused, or whose flow has nothing to send, resumes no flow. | [`Gate::resume`] resumes as many flows as there is room for. A flow without packets calls [`Gate::idle`], and its room goes to the next flow. |
//! | Another flow takes the room before the resumed flow sends. | Room for one packet is reserved for each resumed flow until it responds. |
//! | New flows enqueue two packets each before the waiting ones, and enough of them starve the paused flows. | A flow that was not resumed waits behind the paused flows. |
//! | A flow with two packets in the buffer is at the head of the paused-flows queue, although it may not send. | The flow enters the queue when one of its packets has left. |
//! | Every departing packet causes a wake-up. | [`Hysteresis`]: after the buffer was full, no flow is resumed until enough room is free or the buffer is empty. |
//! | A packet that does not fit even into the empty buffer waits forever. | [`Refused::Never`]; the constructor refuses a `largest` that does not fit. |
//! | There is room for the largest packet, but the qdisc refuses this one because of its flow's limit. | The flow retries once for each packet that leaves. |
//! | A flow ends while it is paused or resumed. | [`Gate::remove`], in constant time. |
//! | The buffer is replaced. | [`Gate::replace`]; waiting flows wait for the new buffer. |
//!
//! The source of a resumed flow must respond: it offers a packet, pauses, is idle or is removed.
//! Until then the flow keeps the room for one packet.
//!
//! Memory is allocated at construction: for each flow 8 bytes in the paused-flows queue and 8 bytes
//! of state. Every operation takes constant time for any number of flows.
//!
//! A `Gate` is for one thread. [`shared`] is for sources that run on their own threads.

mod config;
mod flow;
mod gate;
mod lane;
mod paused;
mod regulator;
pub mod shared;

pub use config::{Config, Hysteresis, Order};
pub use flow::{FlowId, FlowPacket, Probe};
pub use gate::{Gate, Refused, Resume};
