//! Tests that need root and whose verdict does not depend on how busy the machine is.

pub(crate) mod faults;
mod interop;
pub(crate) mod kernel;
mod lab;
mod link;
pub(crate) mod local_users;
#[cfg(feature = "plan")]
mod paths;
