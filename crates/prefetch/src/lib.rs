//! Asking for memory ahead of its use.
//!
//! With thousands of flows, connections or bundles nearly every access to one goes to main memory, 100 ns
//! or more away. Who serves them in turn knows which come next, and asks for them while it still computes.
//! Where a processor has no way to ask, or none that is known here, nothing happens.
#![no_std]

/// Bytes of a cache line, on every x86-64.
const LINE: usize = 64;

/// Asks for all of `item`.
#[inline]
pub fn prefetch<T: ?Sized>(item: &T) {
    prefetch_first(item, size_of_val(item));
}

/// Asks for the first `bytes` of `item`.
#[inline]
pub fn prefetch_first<T: ?Sized>(item: &T, bytes: usize) {
    let start = core::ptr::from_ref(item).cast::<i8>();
    // From the line on that it begins in, so that its last bytes are not left out.
    let before = start.addr() % LINE;
    for offset in (0..before + bytes).step_by(LINE) {
        ask(start.wrapping_sub(before).wrapping_add(offset));
    }
}

/// Asks for the line in which `item` begins, for items that lie in one.
#[inline]
pub fn prefetch_start<T>(item: &T) {
    ask(core::ptr::from_ref(item).cast());
}

/// Asks for where `items[index]` begins, or the last item if there is no such one: a branch would have to be
/// guessed, mostly wrongly, and cost more than an idle hint.
#[inline]
pub fn prefetch_at<T>(items: &[T], index: u32) {
    let index = (index as usize).min(items.len().saturating_sub(1));
    ask(items.as_ptr().wrapping_add(index).cast());
}

#[inline]
fn ask(at: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that neither reads nor faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
