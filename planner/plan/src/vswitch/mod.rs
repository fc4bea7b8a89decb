//! The vSwitch: the network as neighbours see it (section 3.3).
//!
//! Its inputs are the entries of the providers, and its outputs are groups of users behind one
//! boundary router each. [`map()`] chooses the boundary routers, [`consolidate`] merges the
//! neighbours' programs with what was measured, and [`view()`] returns what one neighbour sees.

mod mapper;
mod program;
mod program_text;
mod view;

pub use mapper::{Map, map};
pub use program::{Avoid, Output, Program, Refusal, Wish, check, consolidate};
pub use program_text::MAX_WISHES;
pub use view::{OutputView, View, view};
