//! Asking for memory ahead of its use: with thousands of flows nearly every packet finds its
//! connection outside the caches, and links know which packets come next.

/// Asks for all of `item`. Does nothing where there is no way to ask.
#[inline]
pub(crate) fn prefetch<T>(item: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        /// The length of a cache line on every x86-64.
        const LINE: usize = 64;
        let start = std::ptr::from_ref(item).cast::<i8>();
        for offset in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: a prefetch is a hint that neither reads nor faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
