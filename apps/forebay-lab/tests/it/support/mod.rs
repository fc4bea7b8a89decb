//! What tests with namespaces share: runs of scenarios, and networks between two hosts.

pub(crate) mod interop;
pub(crate) mod lab;

/// The program that is tested.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay-lab");
