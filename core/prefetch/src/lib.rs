//! Prefetches memory into the processor's cache before it is used.
//!
//! With thousands of flows, connections or bundles nearly every access to one goes to main memory,
//! which takes 100 ns or more. A scheduler that serves them in turn knows which come next, and
//! prefetches them while it computes. These functions do nothing on processors other than x86-64.
#![no_std]

/// The size of a cache line in bytes, on every x86-64 processor.
const LINE: usize = 64;

/// Prefetches all of `item`.
#[inline]
pub fn prefetch<T: ?Sized>(item: &T) {
    prefetch_first(item, size_of_val(item));
}

/// Prefetches the first `bytes` bytes of `item`.
#[inline]
pub fn prefetch_first<T: ?Sized>(item: &T, bytes: usize) {
    let start = core::ptr::from_ref(item).cast::<i8>();
    // Starts at the line that holds the first byte, so that the last bytes are included.
    let before = start.addr() % LINE;
    for offset in (0..before + bytes).step_by(LINE) {
        prefetch_line(start.wrapping_sub(before).wrapping_add(offset));
    }
}

/// Prefetches the cache line that holds the start of `item`, for items that fit into one line.
#[inline]
pub fn prefetch_start<T>(item: &T) {
    prefetch_line(core::ptr::from_ref(item).cast());
}

/// Prefetches the cache line that holds the start of `items[index]`.
///
/// An index out of range prefetches the last item: a branch here would often be mispredicted, and
/// that costs more than a useless prefetch.
#[inline]
pub fn prefetch_at<T>(items: &[T], index: u32) {
    let index = (index as usize).min(items.len().saturating_sub(1));
    prefetch_line(items.as_ptr().wrapping_add(index).cast());
}

#[inline]
fn prefetch_line(at: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that neither reads nor faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
