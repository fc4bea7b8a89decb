//! Tests that need root and whose verdict does not depend on how busy the machine is.

mod interop;
mod lab;
mod link;
