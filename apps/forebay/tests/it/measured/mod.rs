//! Tests that judge shares, rates and times on this machine, or need more than a gate has.

mod delayed;
#[cfg(feature = "plan")]
mod interconnect;
mod interop;
mod lab;
mod link;
mod local_users;
mod outages;
mod policies;
mod repeated;
mod shares;
mod stranger;
mod workers;
