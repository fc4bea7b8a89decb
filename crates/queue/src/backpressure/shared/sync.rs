//! The atomics: loom's, which tries all interleavings, when its models are built.

#[cfg(not(loom))]
pub(super) use core::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// On a cache line of its own, so that threads that write one do not slow down those that read
/// another.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Apart<T>(pub(super) T);
