//! Frames in and out of this machine: ports over AF_XDP and AF_PACKET, and the BPF programs.
//!
//! A box opens its [`Port`]s with [`port::open`] on one [`Pool`] and then loops: receive a batch,
//! do its work, send a batch, wait. [`Sampler`] is the receivebox's eye: it counts and samples
//! without touching a packet. [`kernel`] is the same for a sendbox whose packets stay in the kernel.

mod af_packet;
mod bpf;
mod bundles;
pub mod clock;
mod error;
mod ethtool;
#[cfg(test)]
#[path = "../../wire/tests/common/mod.rs"]
mod frames;
mod injector;
pub mod kernel;
mod lock;
pub mod netdev;
mod packet;
pub mod packet_log;
mod policy;
mod pool;
pub mod port;
pub mod record;
mod sampler;
pub mod senders;
pub mod signals;
pub mod wait;
mod xdp;

pub use bpf::{XdpDriver, XdpSupport, parts as bpf_parts};
pub use bundles::{Counts, Sample};
pub use error::Error;
pub use ethtool::Feature;
pub use injector::Injector;
pub use netdev::Netdev;
pub use packet::Packet;
pub use policy::{PolicyKind, Profile, Steer, in_packets};
pub use pool::{Frame, Pool};
pub use port::{Method, Port, PortStats};
pub use sampler::{BundleRule, Hook, Sampler};
