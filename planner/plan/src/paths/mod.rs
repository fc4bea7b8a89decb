//! Paths inside the network: the k shortest between an ingress router and a boundary router by the
//! metrics of OSPF, computed once and kept.

mod cache;
mod tree;
mod waypoints;
mod yen;

pub use cache::PathCache;
pub use waypoints::Waypoints;
pub use yen::{Path, k_shortest};

pub use tree::{Entering, Tree, UNREACHABLE};
