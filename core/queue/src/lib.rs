//! Queueing disciplines and shapers: they decide which packet leaves next and which one is dropped.
//!
//! Start with [`Qdisc`], the interface of every discipline, and [`FqCodel`], a good default. A
//! caller implements [`Packet`] for its own type, passes the time to every call, and receives every
//! dropped packet with a [`DropReason`]. The example `two_flows` shows this in 60 lines.
//!
//! The crate does no I/O, reads no clock and starts no thread. Time is an argument, and
//! [`Qdisc::next_event`] returns when to call again, so the same code runs in the user-space
//! dataplane, on the laboratory's link and in the simulator.
//!
//! | qdisc | purpose |
//! |---|---|
//! | [`Fifo`] | one queue, first come first served, limited in packets, bytes and time |
//! | [`Codel`] | one queue kept short by RFC 8289's control law |
//! | [`Pie`] | one queue held at a target delay by random drops on arrival (RFC 8033) |
//! | [`Pi2`] | one queue held at a target delay, classic and L4S senders coupled |
//! | [`DualPi2`] | two queues, the shallow one for L4S, coupled (RFC 9332) |
//! | [`Sfq`] | a fair share for every flow; a full queue drops from the longest flow |
//! | [`FqCodel`] | a fair share for every flow and a short queue for each (RFC 8290) |
//! | [`Drr`] | weighted shares for classes, each its own qdisc |
//! | [`StrictPriority`] | classes in order of urgency, each its own qdisc |
//! | [`Weighted`] | guaranteed rates, weights and ceilings for classes, each its own qdisc |
//! | [`TokenBucket`] | a rate limit over any other qdisc |
//! | [`InOrder`] | any other qdisc, with a switch to the order of arrival |
//!
//! [`backpressure`] is for queues inside hosts: instead of dropping, a full qdisc pauses its
//! sources. [`egress`] is an engine that schedules a million flows, each of which keeps its packets
//! until its turn. [`ffs`] contains the integer priority queues that both use.
//!
//! [`Shares`] decides which of several queues sends next under a common limit.
//!
//! Every queue is bounded, and every flow table is allocated at construction with a fixed size.
//! Packet storage grows on demand up to the queue's limit and is then reused. Once a qdisc has
//! reached its highest backlog, neither `enqueue` nor `dequeue` allocates.
//! A [`Weighted`] of many classes is the exception, since their order is a tree.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod backpressure;
mod chain;
mod children;
pub mod codel;
mod coupled;
pub mod drr;
pub mod dualpi2;
pub mod egress;
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
pub mod shares;
mod strict_priority;
mod sync;
mod ticker;
pub mod token_bucket;
mod weighted;

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
pub use shares::{Share, Shares};
pub use strict_priority::StrictPriority;
pub use token_bucket::TokenBucket;
pub use weighted::{Class, Weighted};
