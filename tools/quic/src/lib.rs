//! Backpressure for QUIC: a socket for quinn that pauses connections instead of dropping packets.
//!
//! All sends of an endpoint pass through a scheduled buffer at a configured rate. A connection
//! whose packet does not fit into the buffer waits, and keeps the packet.
//!
//! Without this, a full queue on the sender's own host drops the packet. UDP does not send it
//! again: QUIC detects the loss a round trip later, sends the data again and slows down (Zhao's
//! thesis, section 6.2, "Applying zD for UDP, Ingress Traffic, and Userspace Stacks"). Yet the
//! sender is in the same process and could have kept the packet.
//!
//! Start from two types:
//! - [`BackpressuredSocket`] is an [`AsyncUdpSocket`](quinn::AsyncUdpSocket) around another one.
//!   Use it for a quinn endpoint, as below.
//! - [`Egress`] is the logic without a socket, a thread or a clock, for another QUIC library.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use forebay_quic::{BackpressuredSocket, Config, Mode};
//! use forebay_units::Rate;
//! use quinn::{Endpoint, EndpointConfig, Runtime, TokioRuntime};
//!
//! # let server_config = || -> quinn::ServerConfig { unimplemented!() };
//! let udp = std::net::UdpSocket::bind("[::]:443")?;
//! let runtime = Arc::new(TokioRuntime);
//! let config = Config { rate: Some(Rate::from_mbps(200)), mode: Mode::Zd, ..Config::default() };
//! let socket = BackpressuredSocket::new(runtime.wrap_udp_socket(udp)?, &config)?;
//! let endpoint = Endpoint::new_with_abstract_socket(
//!     EndpointConfig::default(),
//!     Some(server_config()),
//!     socket.clone(),
//!     runtime,
//! )?;
//! println!("{:?}", socket.statistics());
//! # drop(endpoint);
//! # Ok(())
//! # }
//! ```
//!
//! # What is paused
//!
//! quinn creates one `UdpPoller` for each connection, and asks it before each `try_send` in the
//! same step of the same task. So a flow is a connection, even if several connections have the same
//! addresses and ports. A connection whose packet is refused keeps this packet, which is already
//! encrypted, and builds no other. Its streams are the source buffer, apart from this one packet.
//!
//! Packets that belong to no connection (retries, version negotiation, refusals, stateless resets)
//! have no poller and no sender that would keep them. Those that do not fit are dropped and
//! counted.
//!
//! # Structure
//!
//! [`Egress`] is a queue of `forebay-queue` below its shaper, in mode [`Mode::Zd`] behind its
//! [`Gate`](forebay_queue::backpressure::Gate). The socket adds a lock, the wakers of the paused
//! connections, and a thread that sends when the shaper allows it.
//!
//! # Pacing each connection
//!
//! [`paced::PacedSocket`] is another socket for quinn: it paces each connection to a rate of its
//! own by the [egress engine](forebay_queue::egress), instead of all together to one.
#![forbid(unsafe_code)]

mod asked;
mod config;
mod datagram;
mod egress;
mod error;
mod outlet;
pub mod paced;
mod send_thread;
mod shared;
mod socket;
mod statistics;

pub use config::{Config, Mode, Schedule};
pub use datagram::Datagram;
pub use egress::{Egress, Offer};
pub use error::Error;
pub use socket::BackpressuredSocket;
pub use statistics::Statistics;
