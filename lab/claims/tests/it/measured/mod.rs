//! Tests with all seeds and topologies, which take long.

mod robustness;
