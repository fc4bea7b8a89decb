//! Backpressure instead of drops: a full queue inside a host pauses its sources and resumes them.
//!
//! Inside a host, packets wait twice: in a *source buffer* (a socket's, a virtual machine's ring) and
//! in a *scheduled buffer*, a qdisc, which many sources share. When the latter is full, most stacks
//! drop, though the source is on the same machine and could simply keep the packet. zD (Zhao, Saeed,
//! Ammar and Zegura, "zD: a scalable zero-drop network stack at end hosts", CoNEXT 2019; Zhao's thesis,
//! chapter 4) does that: the source asks before it enqueues (`probe`), is *paused* if there is no
//! room, waits in a *paused-flows queue*, and is *resumed* when its turn has come.
//!
//! A [`Gate`] is a scheduled buffer with that around it, over any [`Qdisc`](crate::Qdisc):
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
//! // A source asks before it takes a packet out of its buffer.
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
//! // The scheduler sends a packet, and hears whom to wake.
//! assert_eq!(gate.dequeue(now, &mut drops).map(|frame| frame.0), Some(0));
//! let wake: Vec<_> = gate.resume(now).collect();
//! assert_eq!(wake, [FlowId(2)]);
//! # Ok::<(), forebay_queue::ConfigError>(())
//! ```
//!
//! Whether there is room is the qdisc's to say, by [`Qdisc::room`](crate::Qdisc::room) and
//! [`Qdisc::probe`](crate::Qdisc::probe): a FIFO by its limit, classes each by their own, a shaper by
//! the backlog below it, fair queueing by the flow's share besides ([`Order::RoundRobin`]). An AQM's
//! drops are none of this: they are signals to the sender, and go on.
//!
//! What Algorithm 2 leaves open, and what is done here:
//!
//! | hole | closed by |
//! |---|---|
//! | each departure resumes one flow; room that came free while nobody was paused, or by a departure whose flow had nothing to send, wakes nobody | [`Gate::resume`] resumes as many as there is room for; a flow that has nothing says so ([`Gate::idle`]) and its room goes on to the next |
//! | a resumed flow finds its room taken by one that asked in between | room for one packet is kept for each resumed flow until it answers |
//! | flows that newly ask get two packets in before those who wait; enough of them starve the paused | who was not resumed waits behind those who do |
//! | a flow with two packets in the buffer stands at the head of the paused, though it may not send | it queues when one of its packets has left |
//! | a resume for every packet | [`Hysteresis`]: from full on, none before enough is free, or none of the packets in the buffer are left |
//! | a packet that fits not even the empty buffer waits for ever | [`Refused::Never`]; a `largest` that does not fit is refused at construction |
//! | room for the largest packet, but the qdisc refuses this one (a limit of its flow's) | it tries again once for each packet that leaves |
//! | flows end while paused or resumed | [`Gate::remove`], in constant time |
//! | the buffer is replaced | [`Gate::replace`]: who waits, waits for the new one |
//!
//! Whoever resumes must be answered: a resumed flow offers, pauses, is idle or is removed. One that
//! does nothing keeps the room of one packet.
//!
//! Memory is allocated at construction: 8 bytes for each flow in the paused-flows queue and 8 for its
//! state. Every operation takes constant time, however many flows there are.
//!
//! A `Gate` is for one thread. [`shared`] is for sources that run on threads of their own.

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
