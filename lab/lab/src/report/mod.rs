//! Tables, pictures and pages for any scenario, drawn from [`Analysis`](crate::analysis::Analysis)
//! alone.
//!
//! A page is one self-contained file: nothing is fetched, nothing is run, colours follow the
//! reader's light or dark mode, and behind each picture is a table of its figures. Series are
//! thinned to what a picture can show, so a page's size depends on the number of arms and not on
//! how long they ran.

pub mod boxes;
mod course;
pub(crate) mod decisions;
mod differences;
mod generic;
mod l4s;
pub mod markup;
pub(crate) mod queues;
mod runs;
mod sweep;
pub(crate) mod table;
pub(crate) mod tables;

pub(crate) use forebay_picture::{axis, number, svg};

pub use generic::{MAX_ARMS, html, text};
pub(crate) use generic::{accounts, decisions_section, estimates_section};
pub(crate) use runs::cell_name;
pub use table::printable;

use std::io::IsTerminal;

/// Whether standard output supports colour: it is a terminal, not a dumb one, and `NO_COLOR` is
/// unset or empty (no-color.org).
pub fn colour_wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
    std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
}
