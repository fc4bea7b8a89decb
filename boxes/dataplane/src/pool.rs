//! The memory of frames, shared by all ports of a box. A frame goes from one port through a queue
//! to another port without being copied.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, last};

/// A frame in a [`Pool`]. It is not `Clone`: a frame owns its chunk, and must go back to the pool
/// or into a port in the end.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// The offset of the frame's first byte in the pool.
    pub(crate) addr: u32,
    /// The length in bytes.
    pub(crate) len: u16,
}

impl Frame {
    /// The length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no frame is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }
}

/// A fixed number of equal chunks in one page-aligned mapping. When all chunks are in use, ports
/// stop receiving, and the kernel drops and counts further frames.
///
/// Each thread has a `Pool` of its own on the same chunks ([`Pool::share`]). A frame may be taken
/// from one and given back to another.
#[derive(Debug)]
pub struct Pool {
    memory: Arc<Memory>,
    chunk: u32,
    chunks: u32,
    /// The free chunks of this thread; all free chunks of a pool that is not shared.
    free: Vec<u32>,
    /// The free chunks of no thread, if the pool is shared.
    spare: Option<Arc<Spare>>,
}

/// The mapping of a pool.
#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, and is reached only through the pools on it. A
// frame owns its chunk and cannot be copied, so that no two threads reach the same bytes.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn map(len: usize) -> Result<Self, Error> {
        // SAFETY: a fresh anonymous mapping, no existing memory is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(last(format!("mapping {len} bytes for frames")));
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| last("mapping frames"))?;
        Ok(Self { start, len })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: unmaps what `map` mapped; the last pool is gone, so that no frame's bytes can be
        // borrowed any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The free chunks that threads pass to each other, in batches.
#[derive(Debug, Default)]
struct Spare(Mutex<Vec<u32>>);

impl Spare {
    /// The chunks that a thread takes or gives at a time.
    const BATCH: usize = 256;

    fn chunks(&self) -> MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Bytes that the kernel keeps free before a received frame (`XDP_PACKET_HEADROOM`).
    pub(crate) const HEADROOM: u32 = 256;
    /// Bytes that a frame has beside its MTU: the Ethernet header and two VLAN tags.
    const LINK_LAYER: u32 = 14 + 8;
    /// The largest chunk of the kernel, a page. A frame that AF_XDP receives or sends is in several
    /// chunks of the kernel if it is longer.
    pub(crate) const PAGE: u32 = 4096;
    /// The sizes of chunks.
    const SIZES: [u32; 3] = [2048, Self::PAGE, 3 * Self::PAGE];
    /// The largest MTU that fits.
    pub const MAX_MTU: u32 = Self::SIZES[2] - Self::HEADROOM - Self::LINK_LAYER;
    /// The largest size of a pool in bytes, since a frame has an address of 32 bits.
    const MAX_SIZE: u64 = 1 << 32;

    /// Maps a pool of `chunks` chunks, at most [`Pool::max_chunks`], for frames of `mtu` bytes.
    ///
    /// # Errors
    /// If the memory cannot be had.
    pub fn new(chunks: u32, mtu: u32) -> Result<Self, Error> {
        let chunk = Self::chunk_of(mtu);
        let chunks = chunks.min(Self::max_chunks(mtu));
        let memory = Arc::new(Memory::map(chunks as usize * chunk as usize)?);
        let free = (0..chunks).rev().map(|i| i * chunk).collect();
        Ok(Self { memory, chunk, chunks, free, spare: None })
    }

    /// Returns another pool on the same chunks, for another thread.
    #[must_use]
    pub fn share(&mut self) -> Self {
        let spare = Arc::clone(self.spare.get_or_insert_default());
        spare.chunks().append(&mut self.free);
        let Self { chunk, chunks, .. } = *self;
        Self {
            memory: Arc::clone(&self.memory),
            chunk,
            chunks,
            free: Vec::new(),
            spare: Some(spare),
        }
    }

    /// Returns the size in bytes of a chunk for frames of `mtu` bytes.
    pub const fn chunk_of(mtu: u32) -> u32 {
        let needed = mtu.saturating_add(Self::HEADROOM + Self::LINK_LAYER);
        let [small, page, large] = Self::SIZES;
        if needed <= small {
            small
        } else if needed <= page {
            page
        } else {
            large
        }
    }

    /// Returns the largest number of chunks of a pool for frames of `mtu` bytes.
    pub const fn max_chunks(mtu: u32) -> u32 {
        (Self::MAX_SIZE / Self::chunk_of(mtu) as u64) as u32
    }

    /// Whether the frames of an interface with this MTU fit into a chunk.
    pub fn fits(&self, mtu: u32) -> bool {
        mtu <= Self::MAX_MTU && Self::chunk_of(mtu) <= self.chunk
    }

    /// Returns the size of a chunk in bytes.
    pub(crate) fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Returns the size in bytes of a chunk of AF_XDP in the kernel. A larger chunk of the pool
    /// consists of several.
    pub(crate) fn kernel_chunk(&self) -> u32 {
        self.chunk.min(Self::PAGE)
    }

    /// Whether AF_XDP may receive a frame in several chunks.
    pub(crate) fn is_for_jumbo_frames(&self) -> bool {
        self.chunk > Self::PAGE
    }

    /// Returns the offset of `addr` in its chunk.
    fn offset(&self, addr: u32) -> u32 {
        // A division takes several times as long as a mask.
        if self.chunk.is_power_of_two() { addr & (self.chunk - 1) } else { addr % self.chunk }
    }

    /// Returns the number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks as usize
    }

    fn start(&self) -> *mut u8 {
        self.memory.start.as_ptr()
    }

    /// Returns the address and the length of the mapping, for the kernel.
    pub(crate) fn region(&self) -> (u64, u64) {
        (self.start() as u64, u64::from(self.chunks) * u64::from(self.chunk))
    }

    /// Returns the length of the longest frame that fits into a chunk.
    pub(crate) fn capacity(&self) -> usize {
        (self.chunk - Self::HEADROOM) as usize
    }

    /// Returns the number of chunks that are not in use, without those of other threads.
    pub fn available(&self) -> usize {
        self.free.len() + self.spare.as_ref().map_or(0, |spare| spare.chunks().len())
    }

    /// Takes a chunk, and returns the offset of its first byte.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.free.is_empty()
            && let Some(spare) = &self.spare
        {
            let mut chunks = spare.chunks();
            let rest = chunks.len().saturating_sub(Spare::BATCH);
            self.free.extend(chunks.drain(rest..));
        }
        self.free.pop()
    }

    /// Gives back the chunk that contains the offset `addr`.
    pub(crate) fn give(&mut self, addr: u32) {
        debug_assert!(self.free.len() < self.chunks as usize, "a chunk was given back twice");
        self.free.push(addr - self.offset(addr));
        if let Some(spare) = &self.spare
            && self.free.len() >= 2 * Spare::BATCH
        {
            spare.chunks().extend(self.free.drain(Spare::BATCH..));
        }
    }

    /// Gives a frame's chunk back.
    #[allow(clippy::needless_pass_by_value, reason = "the frame is used up")]
    pub fn release(&mut self, frame: Frame) {
        self.give(frame.addr);
    }

    /// Makes a frame with these bytes; `None` if the pool is empty or the bytes do not fit.
    pub fn frame(&mut self, bytes: &[u8]) -> Option<Frame> {
        if bytes.len() > self.capacity() {
            return None;
        }
        let addr = self.take()? + Self::HEADROOM;
        let mut frame = Frame { addr, len: bytes.len() as u16 };
        self.bytes_mut(&mut frame).copy_from_slice(bytes);
        Some(frame)
    }

    /// Returns the bytes of a frame.
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        // SAFETY: a frame's range lies in its chunk, which it alone owns while it exists; the
        // borrow of `self` keeps the mapping alive.
        unsafe { std::slice::from_raw_parts(self.start().add(frame.addr as usize), frame.len()) }
    }

    /// Returns the bytes of a frame, for changing them.
    pub fn bytes_mut(&mut self, frame: &mut Frame) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut Frame` shows that nothing else reads this chunk.
        unsafe {
            std::slice::from_raw_parts_mut(self.start().add(frame.addr as usize), frame.len())
        }
    }

    /// Copies the bytes of `next`, which follow those of `frame`, into the chunk of `frame`.
    /// Returns whether they fit.
    pub(crate) fn append(&mut self, frame: &mut Frame, next: &Frame) -> bool {
        let used = self.offset(frame.addr) + u32::from(frame.len);
        if u32::from(next.len) > self.chunk - used {
            return false;
        }
        // SAFETY: both ranges are in chunks of the mapping that these frames own. They are not the
        // same chunk, since a chunk has one owner, so the ranges do not overlap.
        unsafe {
            let start = self.start();
            let to = start.add(frame.addr as usize + frame.len());
            start.add(next.addr as usize).copy_to_nonoverlapping(to, next.len());
        }
        frame.len += next.len;
        true
    }

    /// Returns where the kernel may write a frame into the chunk at `addr`, and how many bytes.
    pub(crate) fn space(&mut self, addr: u32) -> (*mut u8, usize) {
        // SAFETY: `addr` is a chunk's first byte, so the sum stays inside the mapping.
        let start = unsafe { self.start().add((addr + Self::HEADROOM) as usize) };
        (start, self.capacity())
    }
}

/// Leaves the free chunks to the other threads.
impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(spare) = &self.spare {
            spare.chunks().append(&mut self.free);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_one_owner_at_a_time() {
        let mut pool = Pool::new(2, 1500).unwrap();
        let a = pool.frame(b"first").unwrap();
        let b = pool.frame(b"second").unwrap();
        assert_eq!(pool.frame(b"third"), None, "the pool is empty");
        assert_eq!((pool.bytes(&a), pool.bytes(&b)), (&b"first"[..], &b"second"[..]));
        pool.release(a);
        assert_eq!(pool.available(), 1);
        let mut c = pool.frame(b"third").unwrap();
        pool.bytes_mut(&mut c)[0] = b'T';
        assert_eq!((pool.bytes(&c), pool.bytes(&b)), (&b"Third"[..], &b"second"[..]));
    }

    /// One thread only takes chunks and another one only gives them back, as where frames arrive at
    /// one and leave by the other.
    #[test]
    fn chunks_pass_between_threads_and_none_is_lost() {
        const CHUNKS: usize = 2_000;
        let mut first = Pool::new(CHUNKS as u32, 1500).unwrap();
        let mut second = first.share();
        assert_eq!(first.available(), CHUNKS);
        let (to, from) = std::sync::mpsc::sync_channel::<Frame>(100);
        let receiver = std::thread::spawn(move || {
            let mut frames = 0u32;
            for frame in from {
                assert_eq!(second.bytes(&frame), frames.to_ne_bytes());
                second.release(frame);
                frames += 1;
            }
            (second, frames)
        });
        let mut sent = 0u32;
        while sent < 5 * CHUNKS as u32 {
            let Some(frame) = first.frame(&sent.to_ne_bytes()) else { continue };
            to.send(frame).unwrap();
            sent += 1;
        }
        drop(to);
        let (second, received) = receiver.join().unwrap();
        assert_eq!(received, sent);
        drop(second);
        assert_eq!(first.available(), CHUNKS);
        let mut all: Vec<_> = std::iter::from_fn(|| first.take()).collect();
        all.sort_unstable();
        let expected: Vec<u32> = (0..CHUNKS as u32).map(|i| i * first.chunk()).collect();
        assert_eq!(all, expected, "each chunk is free once");
    }

    #[test]
    fn a_frame_that_does_not_fit_is_refused() {
        let mut pool = Pool::new(1, 1500).unwrap();
        assert_eq!(pool.frame(&[0; 1793]), None);
        assert_eq!(pool.available(), 1);
    }

    #[test]
    fn chunks_are_as_large_as_frames_need() {
        let sizes = [1500, 1770, 1771, 3818, 3819, 9000, Pool::MAX_MTU].map(Pool::chunk_of);
        assert_eq!(sizes, [2048, 2048, 4096, 4096, 12_288, 12_288, 12_288]);
        assert_eq!(Pool::max_chunks(1500), 1 << 21);
        for mtu in [1500, 3000, 9000] {
            let bytes = u64::from(Pool::max_chunks(mtu)) * u64::from(Pool::chunk_of(mtu));
            assert!(bytes <= 1 << 32, "an address has 32 bits");
            let mut pool = Pool::new(3, mtu).unwrap();
            let longest = vec![7; pool.capacity()];
            assert!(longest.len() >= mtu as usize + 22);
            let frames: Vec<_> = (0..3).map(|_| pool.frame(&longest).unwrap()).collect();
            frames.into_iter().for_each(|frame| pool.release(frame));
            let mut starts: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
            starts.sort_unstable();
            assert_eq!(starts, [0, 1, 2].map(|i| i * pool.chunk()), "each chunk came back once");
        }
    }

    #[test]
    fn what_is_appended_follows_and_fits_or_changes_nothing() {
        let mut pool = Pool::new(2, 9000).unwrap();
        let mut frame = pool.frame(&[1; 3840]).unwrap();
        let next = pool.frame(&[2; 3840]).unwrap();
        assert!(pool.append(&mut frame, &next) && pool.append(&mut frame, &next));
        let bytes = pool.bytes(&frame);
        assert_eq!((bytes.len(), bytes[3839], bytes[3840], bytes[11_519]), (11_520, 1, 2, 2));
        assert!(!pool.append(&mut frame, &next), "12 032 bytes are the capacity");
        assert_eq!(frame.len(), 11_520);
    }
}
