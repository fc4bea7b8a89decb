//! The traffic programs: what runs on the hosts of the sites while an engine measures.
//!
//! Each is a process of its own (`forebay agent`) that an engine starts where the traffic's end is.
//! It reads a [`Spec`] from standard input, one line of JSON; sets up its sockets and says
//! [`Event::Ready`] on standard output; reads a [`Start`] line, the instant that all programs of
//! the run share; does its part; writes what it measured to the file of the spec and says
//! [`Event::Done`]. When standard input ends, its engine is gone and it exits at once.
//!
//! A program has a thread per connection, blocked in the kernel whenever there is nothing to do:
//! they have few connections and must not disturb the boxes on the same cores, and a program that
//! polls would stop a virtual clock for ever.

mod agent;
mod cue;
mod datagrams;
mod ecn;
mod flows;
mod meter;
mod pair;
mod requests;
mod sockets;
mod spec;
mod tcp_bulk;
#[cfg(test)]
mod tests;
mod udp_bulk;
mod udp_prague;
mod udp_rr;
mod wait;

pub use agent::main;
pub use spec::{Event, Role, Spec, Start, Tcp};
