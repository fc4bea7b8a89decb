//! The egress engine with a driven clock.

mod cores;
mod flows;
mod pacing;
mod policies;
mod random;
mod world;
