//! Time, size and rate as types, so that the compiler checks the units.
//!
//! Start with [`Nanos`], a time span or an instant in nanoseconds, and [`Rate`], a rate in bits per
//! second. [`Bytes`] is an amount of data, and [`Rate::time_for`] connects the three:
//!
//! ```
//! use forebay_units::{Bytes, Nanos, Rate};
//!
//! let frame = Bytes(1500);
//! assert_eq!(Rate::from_mbps(96).time_for(frame), Nanos::from_micros(125));
//! assert_eq!(Rate::from_bytes_over(frame, Nanos::from_micros(125)), Rate::from_mbps(96));
//! ```
//!
//! All three are unsigned integers, so the same sum gives the same result on every machine. The
//! simulator needs this for repeatable runs. Conversions between the types compute in 128 bits, and
//! a result that does not fit saturates. Plain `+`, `-` and `*` are those of `u64`.
#![no_std]
#![forbid(unsafe_code)]

mod bytes;
mod nanos;
mod rate;

pub use bytes::Bytes;
pub use nanos::Nanos;
pub use rate::Rate;
