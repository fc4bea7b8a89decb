//! The rights that a box gives up when its set-up is complete.

pub(crate) use forebay_system::privileges::keep_only;
use forebay_system::privileges::restrict_calls;
pub(crate) use forebay_system::privileges::{Capability, Extra};

/// Keeps these capabilities, and the system calls of a running box with `extra` ones.
pub(crate) fn reduce(kept: &[Capability], extra: &[Extra]) {
    keep_only(kept);
    restrict(extra);
}

/// Keeps the system calls of a running box with `extra` ones, in all threads. Each box accepts
/// commands.
pub(crate) fn restrict(extra: &[Extra]) {
    restrict_calls(&[extra, &[Extra::Accept]].concat());
}
