//! Frames of this machine's interfaces: ports over AF_XDP and AF_PACKET, and the BPF programs.
//!
//! A box opens its two [`Port`]s with [`open_wire`] on one [`Pool`]. Then it loops: it receives a
//! batch, does its work, sends a batch and waits. A receivebox uses a [`Sampler`], which counts and
//! samples packets without changing them. A sendbox whose packets stay in the kernel uses an
//! [`EgressObserver`](kernel::EgressObserver). A [`UdpSender`](udp::UdpSender) sends the datagrams
//! of very many paced flows.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod af_packet;
mod bpf;
mod bundles;
mod bypass;
mod drops;
mod error;
mod ethtool;
mod framing;
mod heartbeat;
mod injector;
mod ioctl;
pub mod kernel;
pub mod netdev;
mod open;
mod packet;
mod pool;
mod port;
mod presence;
mod promiscuous;
mod sampler;
pub mod senders;
pub mod udp;
mod verifier_log;
mod xdp;

pub use bpf::{XdpDriver, XdpSupport, parts as bpf_parts};
pub use bundles::{Counts, Flow, Sample};
pub use drops::{KernelDrops, Totals};
pub use error::Error;
pub use ethtool::Feature;
pub use forebay_wire::FingerprintKey;
pub use framing::Framing;
pub use heartbeat::HEARTBEAT_TIMEOUT;
pub use injector::Injector;
pub use netdev::Netdev;
pub use open::{open_ports, open_wire, remove_program, try_bypass};
pub use packet::Packet;
pub use pool::{Frame, Pool};
pub use port::{Method, Port, PortStats};
pub use presence::Presence;
pub use sampler::{BundleRule, Hook, Sampler};
