//! The heartbeat of a process, by which its BPF programs know that it is alive.
//!
//! A program outlives its process. A process that died cannot change what the program does, so the
//! process writes the time regularly. When the last time is older than [`HEARTBEAT_TIMEOUT`], the
//! program lets traffic pass without the process.

use forebay_units::Nanos;
use libbpf_rs::Object;

use crate::bpf;
use crate::error::Error;

/// The age of a heartbeat from which the programs take their process for dead. It is far above the
/// delays of a busy machine's scheduler, and leaves half of the second that a fault may cost.
pub const HEARTBEAT_TIMEOUT: Nanos = Nanos::from_millis(500);

/// Writes a heartbeat at `now` into the maps of a loaded object. A time of zero says that the
/// process is not there.
pub(crate) fn beat(object: &Object, now: Nanos) -> Result<(), Error> {
    bpf::update(&bpf::map(object, "heartbeat")?, &0u32.to_ne_bytes(), &now.0.to_ne_bytes())
}
