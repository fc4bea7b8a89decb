//! The rings that AF_XDP shares with the kernel. One side writes, the other reads, and two counters
//! that only grow say how far each side is.

use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, last};

/// A ring of entries `T`, mapped from an AF_XDP socket.
#[derive(Debug)]
pub(super) struct Ring<T> {
    map: NonNull<libc::c_void>,
    map_len: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
}

// SAFETY: the mapping is shared with the kernel only, through atomics; no other thread has it.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `size` entries (a power of two) at `page_offset` of the socket.
    pub(super) fn map(
        socket: RawFd,
        page_offset: u64,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> Result<Self, Error> {
        let map_len = offsets.desc as usize + size as usize * size_of::<T>();
        // SAFETY: maps kernel memory of the socket; no existing mapping is touched.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket,
                page_offset as libc::off_t,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(last("mapping an AF_XDP ring"));
        }
        let map = NonNull::new(map).ok_or_else(|| last("mapping an AF_XDP ring"))?;
        // SAFETY: the kernel gave these offsets for this mapping, aligned for their types.
        unsafe {
            let at = |offset: u64| map.byte_add(offset as usize);
            Ok(Self {
                map,
                map_len,
                producer: at(offsets.producer).cast(),
                consumer: at(offsets.consumer).cast(),
                flags: at(offsets.flags).cast(),
                entries: at(offsets.desc).cast(),
                size,
            })
        }
    }

    fn counter(&self, which: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: points into the mapping, which lives as long as `self`.
        unsafe { which.as_ref() }
    }

    /// Returns the number of entries that are written and not yet read.
    pub(super) fn len(&self) -> u32 {
        let written = self.counter(self.producer).load(Ordering::Acquire);
        written.wrapping_sub(self.counter(self.consumer).load(Ordering::Acquire))
    }

    /// Returns the number of entries that can be written.
    pub(super) fn room(&self) -> u32 {
        self.size - self.len()
    }

    /// Whether the kernel needs a system call before it continues.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.counter(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Writes entries from `next` until it has none or the ring is full; returns their number.
    pub(super) fn write(&mut self, mut next: impl FnMut() -> Option<T>) -> u32 {
        let (start, room) = (self.counter(self.producer).load(Ordering::Relaxed), self.room());
        let mut n = 0;
        while n < room {
            let Some(entry) = next() else { break };
            let at = start.wrapping_add(n) & (self.size - 1);
            // SAFETY: `at` is inside the ring, and the kernel does not read it before the store
            // below makes it visible.
            unsafe { self.entries.add(at as usize).write(entry) };
            n += 1;
        }
        self.counter(self.producer).store(start.wrapping_add(n), Ordering::Release);
        n
    }

    /// Passes at most `limit` entries to `each`; returns their number.
    pub(super) fn read(&mut self, limit: u32, mut each: impl FnMut(T)) -> u32 {
        let (start, n) =
            (self.counter(self.consumer).load(Ordering::Relaxed), self.len().min(limit));
        for i in 0..n {
            let at = start.wrapping_add(i) & (self.size - 1);
            // SAFETY: `at` is inside the ring, and the kernel has finished writing it (`len` read
            // its counter with acquire ordering).
            each(unsafe { self.entries.add(at as usize).read() });
        }
        self.counter(self.consumer).store(start.wrapping_add(n), Ordering::Release);
        n
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped.
        unsafe { libc::munmap(self.map.as_ptr(), self.map_len) };
    }
}
