//! Asking for memory ahead of its use.
//!
//! A tick of one bundle among thousands finds none of its state in the caches near the core. Who ticks
//! knows which bundles come next, so it can ask for them while it still computes.

/// Asks for all of `item`. Does nothing where there is no way to ask.
#[inline]
pub(crate) fn prefetch<T: ?Sized>(item: &T) {
    prefetch_first(item, size_of_val(item));
}

/// Asks for the first `bytes` of `item`.
#[inline]
pub(crate) fn prefetch_first<T: ?Sized>(item: &T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        /// The length of a cache line on every x86-64.
        const LINE: usize = 64;
        let start = core::ptr::from_ref(item).cast::<i8>();
        // From the line on that it begins in, so that its last bytes are not left out.
        let before = start.addr() % LINE;
        for offset in (0..before + bytes).step_by(LINE) {
            // SAFETY: a prefetch is a hint that neither reads nor faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_sub(before).wrapping_add(offset)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (item, bytes);
}
