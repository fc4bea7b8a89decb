//! Tests that take long, and need BGP daemons.

mod interconnect;
