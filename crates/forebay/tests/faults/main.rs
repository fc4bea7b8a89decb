//! Tests that traffic passes while something is wrong with a box that stands in the path. A probe
//! counts the packets that are lost, and connections must go on. They need root.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../kernel/capture.rs"]
mod capture;
#[path = "../common/mod.rs"]
mod common;
mod interface;
mod memory;
#[path = "../../../dataplane/tests/namespace/mod.rs"]
mod namespace;
mod output;
mod privileges;
mod probe;
mod reload;
mod restart;
#[path = "../kernel/sites.rs"]
#[allow(dead_code, reason = "the kernel tests use the rest")]
mod sites;
mod span;
#[path = "../kernel/transfer.rs"]
#[allow(dead_code, reason = "the kernel tests use the rest")]
mod transfer;
mod upgrade;
mod workers;
