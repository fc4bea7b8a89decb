//! Tests of backpressure over every policy: no packet is lost or reordered within its flow, and
//! every paused flow is resumed.

mod explore;
mod packet;
mod policies;
mod random;
mod world;
