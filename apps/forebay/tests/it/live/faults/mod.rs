//! Tests that traffic passes while something is wrong with a box that stands in the path: packets
//! pass in time, and connections go on.

pub(crate) mod interface;
mod memory;
pub(crate) mod output;
mod privileges;
pub(crate) mod reload;
pub(crate) mod restart;
pub(crate) mod upgrade;
pub(crate) mod workers;
