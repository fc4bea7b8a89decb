//! Atomic types from `core`, or from loom when its models are built.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A value on its own cache line, so that threads that write it do not slow down threads that
/// access other values.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Apart<T>(pub(crate) T);
