//! The boxes: what runs at the two ends of a bundle.
//!
//! The [`sendbox`] queues and shapes; the [`receivebox`] counts and answers. Each is one process
//! with one thread, configured by a file (see [`config`]). [`doctor`] says whether a machine can be one.

mod channel;
pub mod config;
pub mod doctor;
mod error;
mod prefix_table;
mod random;
pub mod receivebox;
pub mod sendbox;
mod signals;

pub use error::Error;
