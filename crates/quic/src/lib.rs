//! Backpressure for QUIC: quinn's sends go through a scheduled buffer at a rate, and while that has no
//! room for a connection the connection waits, instead of losing the packet.
//!
//! A packet that a full queue on the sender's own host drops is lost in earnest, since UDP sends nothing
//! again: QUIC finds out a round trip later, sends the data once more and slows down (Zhao's thesis,
//! section 6.2, "Applying zD for UDP, Ingress Traffic, and Userspace Stacks"). Yet the sender is in the
//! same process and could keep the packet.
//!
//! [`BackpressuredSocket`] is an [`AsyncUdpSocket`](quinn::AsyncUdpSocket) around another one:
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
//! quinn makes one `UdpPoller` for each connection and asks it before each `try_send`, in the same step of
//! the same task. So a flow is a connection, even where several have the same addresses and ports.
//! A connection whose packet is refused keeps that packet, which is encrypted already, and builds no other: its
//! streams are the source buffer, but for this one packet. What belongs to no connection (retries, version negotiation,
//! refusals, stateless resets) has no poller and nobody who would keep it: what does not fit is lost, and
//! counted.
//!
//! # The parts
//!
//! [`Egress`] is the logic, without a socket, a thread or a clock: the queue of `forebay-queue` below its
//! shaper, with its [`Gate`](forebay_queue::backpressure::Gate) before it in mode [`Mode::Zd`]. The socket puts
//! a lock around it, keeps the wakers of those who wait, and has one thread that sends when
//! the shaper says so.

mod config;
mod datagram;
mod drain;
mod egress;
mod error;
mod socket;
mod statistics;

pub use config::{Config, Mode, Schedule};
pub use datagram::Datagram;
pub use egress::{Egress, Offer};
pub use error::Error;
pub use socket::BackpressuredSocket;
pub use statistics::Statistics;
