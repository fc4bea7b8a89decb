//! Tests that need root. Each runs as a process of its own.

mod egress_observer;
mod kernels;
mod merged;
mod ports;
mod presence;
mod senders;
mod tunnels;
mod udp;
