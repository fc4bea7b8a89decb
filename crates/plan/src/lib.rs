//! Traffic engineering at interconnects: an ISP's routing and its content providers' choice of entry point, optimised
//! together (Unison; Yimeng Zhao, chapter 3).
//!
//! Like the other libraries below the boxes it does no I/O: readers take text, the optimiser takes values.
//!
//! The way of a plan: [`input`] makes a [`network::Network`] of files, [`flows`] its demands of flow records; [`vswitch`] reduces it to as many aggregate
//! flows as can be handled; [`paths`] finds the ways through it; [`problem`] is what may be chosen and what limits it;
//! [`allocate`] decides, by the programs of [`lp`]; [`fairness`] judges; [`hints`] is what neighbours are told of it.

pub mod allocate;
pub mod bench;
pub mod estimate;
pub mod fairness;
pub mod flows;
pub mod hints;
pub mod input;
pub mod load;
pub mod lp;
pub mod network;
pub mod paths;
pub mod plan;
pub mod problem;
pub mod synthetic;
mod table;
pub mod topology;
pub mod vswitch;
