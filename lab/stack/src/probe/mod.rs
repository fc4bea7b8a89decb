//! Counters of the kernel, and what they say over an interval.

pub mod counters;
pub mod cpu;
pub mod functions;
pub mod qdisc;
pub mod sockets;
pub mod tcp_info;
