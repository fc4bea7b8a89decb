//! Tests that need root and whose verdict does not depend on how busy the machine is.

pub(crate) mod faults;
pub(crate) mod kernel;
mod link;
pub(crate) mod local_users;
