//! The rights that a box gives up when its set-up is complete.

pub(crate) use forebay_system::privileges::{Capability, Extra};
use forebay_system::privileges::{keep_only, restrict_calls};

/// Keeps these capabilities, and the system calls of a running box with `extra` ones. Each box
/// accepts readers of its state.
pub(crate) fn reduce(kept: &[Capability], extra: &[Extra]) {
    keep_only(kept);
    restrict_calls(&[extra, &[Extra::Accept]].concat());
}
