//! The vSwitch: what the network looks like from outside (section 3.3).
//!
//! Its inputs are the entries of the providers, its outputs groups of users that are reached through one boundary
//! router each. [`map`] chooses the boundary routers; [`program`] puts together what the neighbours want of it;
//! [`view`] is all that one neighbour sees.

mod mapper;
mod program;
mod program_text;
mod view;

pub use mapper::{Map, map};
pub use program::{Avoid, Output, Program, Refusal, Wish, check, consolidate};
pub use program_text::MOST_WISHES;
pub use view::{OutputView, View, view};
