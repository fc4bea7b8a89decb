//! QUIC of `quinn-proto` over the links and queues of `forebay-sim`, repeatable byte for byte.
//!
//! Start with [`Quic`], an endpoint for [`forebay_sim::Simulation::add_endpoint`], and with
//! [`Application`], which reads and writes the streams of its connections. [`Download`] and
//! [`Files`] are a client and a server that transfer a number of bytes.
//!
//! [`drive`] runs the same endpoints over a socket of the kernel, in real time.
//!
//! Two simulations with the same seeds exchange the same bytes at the same times. For that the
//! random numbers of TLS come from the seed, and the key exchange is one without any secret.
//! Nothing here protects data: this crate is for tests.
#![forbid(unsafe_code)]

mod application;
mod clock;
mod endpoint;
mod identity;
mod key_exchange;
#[cfg(feature = "qlog")]
mod qlog;
mod randomness;
mod real_time;
mod setup;

pub use application::{Application, Download, Files};
pub use clock::instant;
pub use endpoint::Quic;
#[cfg(feature = "qlog")]
pub use qlog::qlog;
pub use quinn_proto;
pub use real_time::drive;
pub use setup::SetupError;
