//! Frames in and out of this machine: ports over AF_XDP and AF_PACKET, and the BPF programs.
//!
//! A box opens its [`Port`]s with [`port::open`] on one [`Pool`] and then loops: receive a batch,
//! do its work, send a batch, wait. [`Sampler`] is the receivebox's eye: it counts and samples
//! without touching a packet.

mod af_packet;
mod bpf;
pub mod clock;
mod error;
mod injector;
mod lock;
pub mod netdev;
mod packet;
pub mod packet_log;
mod policy;
mod pool;
pub mod port;
pub mod record;
mod sampler;
pub mod wait;
mod xdp;

pub use error::Error;
pub use injector::Injector;
pub use netdev::Netdev;
pub use packet::Packet;
pub use policy::PolicyKind;
pub use pool::{Frame, Pool};
pub use port::{Method, Port, PortStats};
pub use sampler::{BundleRule, Counts, Sample, Sampler};
