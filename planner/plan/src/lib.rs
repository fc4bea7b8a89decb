//! Traffic engineering at interconnects: optimises an ISP's routing together with the entries that
//! its content providers choose (Unison; Yimeng Zhao's thesis, chapter 3).
//!
//! Start from two types. A [`network::Network`] is the input: a topology, the content providers
//! with their entries, and their demands. A [`plan::Report`] is the result of [`plan::plan()`]: the
//! present and the proposed routing, and what each provider gets. `examples/joint_plan.rs` goes
//! from one to the other.
//!
//! The crate has no sockets, files or clocks: readers take text, and the optimiser takes values. A
//! plan passes through these modules:
//! - [`input`] reads a network from files, and [`flows`] measures its demands from flow records;
//! - [`vswitch`] reduces the network to a limited number of aggregate flows;
//! - [`paths`] finds the paths through it;
//! - [`problem`] has the choices of each flow and the capacities that limit them;
//! - [`allocate`] divides the capacity, by the linear programs of [`lp`];
//! - [`fairness`] compares what the providers get;
//! - [`rivals`] has published methods of others, to be compared with;
//! - [`weights`] searches metrics of OSPF for networks that cannot carry out the plan's paths;
//! - [`hints`] derives what neighbours are told.

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
pub mod rivals;
pub mod synthetic;
mod table;
pub mod topology;
pub mod vswitch;
pub mod weights;
