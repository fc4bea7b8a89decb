//! The boxes: what runs at the two ends of a bundle.
//!
//! The [`sendbox`] queues and shapes; the [`receivebox`] counts and answers. A [`link`] needs
//! neither: its queue stands at a link whose rate is known. Each is one process with one thread,
//! configured by a file (see [`config`]). [`doctor`] says whether a machine can be one.

mod channel;
mod classes;
pub mod config;
pub mod doctor;
mod error;
mod forward;
pub mod link;
mod logs;
mod policy;
mod random;
pub mod receivebox;
pub mod sendbox;
mod ticks;

pub use error::Error;
use forebay_system::signals;

use std::io::Write;

/// Says on standard output that all is set up. Nobody may be listening any more; that is no reason
/// not to go on.
fn say_ready(ready: &serde_json::Value) {
    println!("{ready}");
    let _ = std::io::stdout().flush();
}
