//! The daemons of Forebay: the boxes at the two ends of a bundle, and the link.
//!
//! The [`sendbox`] queues and shapes; the [`receivebox`] counts and sends feedback. A [`link`] is a
//! single box at a link whose rate is known. Each is one process with one thread, configured by a
//! file (see [`config`]). [`doctor`] checks whether a machine can run one.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod channel;
mod classes;
mod commands;
pub mod config;
mod diagnosis;
pub mod doctor;
mod error;
mod forward;
mod handover;
pub mod link;
mod logs;
mod memory;
mod not_understood;
mod policy;
mod privileges;
mod random;
pub mod receivebox;
mod reload;
mod resolver;
pub mod sendbox;
mod slots;
mod status;
mod ticks;

pub use error::Error;
use forebay_system::{notify, output, signals};
pub use forward::WireEnd;
pub use resolver::answer_questions;

/// Takes away the program that a box left on `interface` when it ended, and returns whether there
/// was one.
///
/// # Errors
/// If there is no such interface, a running box has it, or the kernel refuses.
pub fn detach(interface: &str) -> Result<bool, Error> {
    let netdev = forebay_dataplane::Netdev::find(interface)?;
    Ok(forebay_dataplane::remove_program(&netdev)?)
}

/// Prints on standard output that the set-up is complete, and tells the service manager. A closed
/// standard output is no error.
fn say_ready(ready: &serde_json::Value) {
    output::stdout().line(&ready.to_string());
    notify::ready();
}
