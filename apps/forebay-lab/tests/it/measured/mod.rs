//! Tests that judge shares, rates and times on this machine, or need more than a gate has.

mod interop;
mod lab;
mod policies;
