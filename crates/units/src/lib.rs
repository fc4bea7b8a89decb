//! Time, size and rate as types, so that a unit is checked by the compiler and not carried in a name.
//!
//! All three are unsigned integers: the same sum gives the same result on every machine, which the
//! simulator's repeatability rests on. Products go through 128 bits, so nothing here overflows
//! silently; results that do not fit saturate.
#![no_std]

mod bytes;
mod nanos;
mod rate;

pub use bytes::Bytes;
pub use nanos::Nanos;
pub use rate::Rate;
