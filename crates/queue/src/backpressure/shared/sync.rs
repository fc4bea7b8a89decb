//! Atomic types from `core`, or from loom when its models are built.

#[cfg(not(loom))]
pub(super) use core::sync::atomic::{AtomicU32, Ordering, fence};

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// A value on its own cache line, so that threads that write it do not slow down threads that
/// access other values.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Apart<T>(pub(super) T);
