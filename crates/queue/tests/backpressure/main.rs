//! Backpressure over every policy: no packet lost, none out of order within its flow, nobody
//! forgotten.
#![allow(clippy::unwrap_used, reason = "tests")]

mod explore;
mod packet;
mod policies;
mod random;
mod world;
