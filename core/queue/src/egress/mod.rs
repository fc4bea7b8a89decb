//! An egress engine for very many flows: which flow sends next, and how much.
//!
//! Start with [`Engine`], one for each core, and [`Transport`], which a caller implements. A flow
//! is scheduled as a whole: it keeps its data until it is its turn and there is room behind the
//! engine, and is then asked for its next segments. No packet waits in the engine, none is dropped
//! there.
//!
//! ```
//! use forebay_queue::egress::{
//!     Answer, Ask, Config, Departure, Engine, FlowId, Hint, Next, Policy, Settings, Transport,
//! };
//! use forebay_units::{Bytes, Nanos, Rate};
//!
//! /// Each flow has a number of full packets to send.
//! struct Packets {
//!     left: Vec<u32>,
//!     sent: Vec<(FlowId, Departure)>,
//! }
//!
//! impl Transport for Packets {
//!     fn send(&mut self, ask: Ask<'_>) -> Answer {
//!         let left = &mut self.left[ask.flow.index() as usize];
//!         let packets = (*left).min((ask.bytes.0 / 1500).max(1) as u32);
//!         *left -= packets;
//!         let bytes = Bytes(1500 * u64::from(packets));
//!         self.sent.push((ask.flow, Departure { packets, bytes, asked: ask.now }));
//!         let remaining = Bytes(1500 * u64::from(*left));
//!         let hint = Hint { remaining, ..Hint::default() };
//!         Answer { bytes, packets, next: if *left > 0 { Next::Ready(hint) } else { Next::Idle } }
//!     }
//! }
//!
//! let mut engine = Engine::new(Config { flows: 16, ..Config::default() }, Policy::FAIR)?;
//! let mut transport = Packets { left: vec![0; 16], sent: Vec::new() };
//! let rate = Some(Rate::from_mbps(120));
//! let flow = engine.open(Settings { rate, ..Settings::default() })?.expect("16 flows at most");
//! transport.left[flow.index() as usize] = 12;
//!
//! let start = Nanos::from_secs(1);
//! engine.wake(start, flow, Hint::default());
//! // The first turn is due at once: a segment of 15 000 bytes, which takes 1 ms at the rate.
//! let polled = engine.poll(start, &mut transport);
//! assert_eq!((polled.packets, polled.next), (10, None), "too many of the flow in the host's queue");
//! for (flow, departure) in transport.sent.drain(..) {
//!     engine.departed(start, flow, departure);
//! }
//! let next = engine.poll(start, &mut transport).next.expect("the flow waits for its time");
//! assert!(next.saturating_sub(start).0.abs_diff(1_000_000) < 2048);
//! assert_eq!(engine.poll(next, &mut transport).packets, 2);
//! # Ok::<(), forebay_queue::ConfigError>(())
//! ```
//!
//! Chapter 5 of Zhao's thesis (also Zhao, Saeed, Ammar and Zegura, PAM 2021) measures what many
//! flows cost Linux, and its section 6.1 asks for a stack with three kinds of interface:
//!
//! | the stack should | here |
//! |---|---|
//! | allow for different transports and scheduling algorithms | [`Transport`] and [`Ranking`]; [`Policy`] has fair and weighted shares, the earliest deadline, the shortest flow and plain pacing, and may change while flows wait |
//! | let parts that decide together how many packets enter coordinate | [`Load`] is the one state of the host's queue that segment sizes ([`Sizing`]), backpressure (room, [`Config::in_host`]) and the batching of arriving packets ([`Engine::ingress_hold`]) follow |
//! | share data structures in a scalable way | an engine for each core, and [`cores`], by which they keep step without a lock |
//!
//! Every operation takes constant time for any number of flows. Flows wait in queues of
//! [`ffs`](crate::ffs): those that are paced in a timing wheel (Carousel, SIGCOMM 2017), the others
//! by rank (Eiffel, NSDI 2019). A flow's state is one cache line, and the queues tell which flows
//! come next so that their state is prefetched.
//!
//! **Sizes of segments** follow the flow's rate, as a window over a round-trip time *without* the
//! time in the host's own queues ([`Sample`]). With it, a busy host takes itself for a congested
//! network, sends smaller segments, and is busier still.
//!
//! **No flow waits for ever.** Virtual time advances with each packet, also with empty ones. A
//! deadline in the past counts as now. Waiting makes a long flow shorter.
//!
//! All memory is allocated at construction: about 90 bytes for each of a million flows
//! ([`Engine::memory`]).

mod config;
pub mod cores;
mod engine;
mod flow;
mod poll;
mod queues;
mod ranking;
mod sizing;
mod transport;

pub use config::{Config, Settings};
pub use engine::{Departure, Engine, Memory};
pub use flow::FlowId;
pub use poll::Polled;
pub use ranking::{Account, Fair, MAX_WEIGHT, Policy, Ranking, ShortestFirst};
pub use sizing::{Load, Sample, Sizing};
pub use transport::{Answer, Ask, Hint, Next, Transport};
