//! Tests of the control loop on a modelled path with a driven clock.
#![allow(clippy::unwrap_used, reason = "tests")]

mod allocation;
mod change;
mod common;
mod control_loop;
mod convergence;
mod faults;
mod feedback_attacks;
mod limits;
mod memory;
mod resume;
mod robustness;
mod strangers;
