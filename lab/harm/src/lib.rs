//! The harm map: paths drawn at random from families of links that people have, each run without a
//! box, with the same policy at the bottleneck, and with Forebay, on the same seeds.
//!
//! A [`Cell`] is one path with its traffic, drawn by [`draw`] from the map's seed and the cell's
//! number alone. [`run`] runs the cells on an engine and judges each one: a [`Verdict`] says in
//! which figures Forebay was worse than no box, and whether the same policy at the bottleneck would
//! have been worse too. [`HarmMap`] holds all verdicts and writes the page, the picture and JSON.
#![forbid(unsafe_code)]

mod cell;
mod families;
mod family;
mod figures;
mod joined;
mod map;
mod output;
mod page;
mod picture;
mod random;
mod verdict;

pub use cell::{Cell, Policy, Workload};
pub use families::draw;
pub use family::{Family, UnknownFamily};
pub use figures::Figures;
pub use joined::JoinError;
pub use map::{HarmError, HarmMap, Judged, Options, run};
pub use verdict::{Criterion, Finding, Verdict};
