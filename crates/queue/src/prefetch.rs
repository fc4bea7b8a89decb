//! Asking for memory ahead of its use.
//!
//! With a million flows nearly every access to a flow goes to main memory, 100 ns or more away. The
//! qdiscs know which flows come next, so they ask for them a few turns ahead.

/// Asks for `items[index]`, or for the last item if there is no such one: a branch would have to be
/// guessed, mostly wrongly, and cost more than an idle hint. Does nothing where there is no way to
/// ask.
#[inline]
pub(crate) fn prefetch<T>(items: &[T], index: u32) {
    let index = (index as usize).min(items.len().saturating_sub(1));
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = items.as_ptr().wrapping_add(index).cast::<i8>();
        // SAFETY: a prefetch is a hint that neither reads nor faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}
