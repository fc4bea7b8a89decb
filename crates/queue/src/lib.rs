//! Queueing disciplines and shapers: what waits, what goes next, what is dropped and why.
//!
//! Nothing in here does I/O, looks at a clock or starts a thread. Time comes in as an argument and
//! [`Qdisc::next_event`] says when to ask again, so the same code runs under the user-space
//! dataplane, the laboratory's link and the simulator.
//!
//! | qdisc | what it is for |
//! |---|---|
//! | [`Fifo`] | one queue, first come first served, limited in packets, bytes and time |
//! | [`Codel`] | one queue kept short by RFC 8289's control law |
//! | [`Pie`] | one queue held at a target delay by random drops on arrival (RFC 8033) |
//! | [`Pi2`] | one queue held at a target delay, classic and L4S senders coupled |
//! | [`DualPi2`] | two queues, the shallow one for L4S, coupled (RFC 9332) |
//! | [`Sfq`] | a fair share for every flow, the longest flow pays |
//! | [`FqCodel`] | a fair share for every flow and a short queue for each (RFC 8290) |
//! | [`Drr`] | weighted shares for classes, each its own qdisc |
//! | [`StrictPriority`] | classes in order of urgency, each its own qdisc |
//! | [`TokenBucket`] | a rate limit over any other qdisc |
//! | [`InOrder`] | any other qdisc, and for a time the order of arrival instead |
//!
//! [`backpressure`] is for queues inside hosts: instead of dropping, a full qdisc pauses its sources.
//! [`ffs`] has the integer priority queues under it.
//!
//! Every queue is bounded and every flow table has a fixed size, made at construction. Packet
//! storage grows on demand up to the queue's limit and is then reused: once a qdisc has been as
//! full as it gets, neither `enqueue` nor `dequeue` allocates.
#![no_std]

extern crate alloc;

pub mod backpressure;
mod chain;
mod children;
pub mod codel;
mod coupled;
pub mod drr;
pub mod dualpi2;
mod error;
pub mod ffs;
pub mod fifo;
mod flow_hash;
pub mod fq_codel;
mod in_order;
mod limit;
mod packet;
pub mod pi2;
pub mod pie;
mod qdisc;
mod ranks;
mod ring;
mod rng;
mod round;
pub mod sfq;
mod strict_priority;
mod ticker;
pub mod token_bucket;

pub use codel::Codel;
pub use coupled::Marking;
pub use drr::Drr;
pub use dualpi2::DualPi2;
pub use error::ConfigError;
pub use fifo::Fifo;
pub use fq_codel::FqCodel;
pub use in_order::InOrder;
pub use limit::Limit;
pub use packet::{Ecn, Packet};
pub use pi2::Pi2;
pub use pie::Pie;
pub use qdisc::{Backlog, DropReason, DropSink, Qdisc, Room};
pub use sfq::Sfq;
pub use strict_priority::StrictPriority;
pub use token_bucket::TokenBucket;
