//! An AF_XDP socket, which receives from and sends to one queue of an interface.

use std::collections::VecDeque;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread;
use std::time::Duration;

use super::assembly::Assembly;
use super::pieces::{Pieces, Split};
use super::ring::Ring;
use crate::error::{Error, last};
use crate::pool::{Frame, Pool};

/// The entries of each ring. A burst of 2048 full frames takes 256 ms at 96 Mbit/s, 2.5 ms at
/// 10 Gbit/s.
pub(super) const RING: u32 = 2048;

/// A socket with its rings. It owns the chunks in its fill, transmit and completion rings.
pub(super) struct XdpSocket {
    fd: OwnedFd,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    /// The chunks that wait in the fill ring for frames that arrive.
    depth: u32,
    /// The frame that is being received.
    assembly: Assembly,
    /// The entries of the transmit ring that the kernel has not reported as sent.
    sending: u32,
    /// The frames that these entries belong to.
    pieces: Pieces,
    pub(super) zero_copy: bool,
}

impl XdpSocket {
    pub(super) fn open(
        ifindex: u32,
        queue: u32,
        depth: u32,
        pool: &mut Pool,
    ) -> Result<Self, Error> {
        // Without a flag the kernel uses zero copy where the driver has it, and copies otherwise.
        // SAFETY: no pointers are involved.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(last("opening an AF_XDP socket"));
        }
        // SAFETY: `fd` is a fresh descriptor that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let raw = fd.as_raw_fd();
        let (addr, len) = pool.region();
        // SAFETY: all-zero is a valid `xdp_umem_reg`.
        let mut umem: libc::xdp_umem_reg = unsafe { zeroed() };
        umem.addr = addr;
        umem.len = len;
        umem.chunk_size = pool.kernel_chunk();
        set(raw, libc::XDP_UMEM_REG, &umem)?;
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            set(raw, ring, &RING)?;
        }
        // SAFETY: all-zero is a valid `xdp_mmap_offsets`.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
        get(raw, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
        let mut socket = Self {
            fill: Ring::map(raw, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, RING)?,
            completion: Ring::map(raw, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, RING)?,
            rx: Ring::map(raw, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, RING)?,
            tx: Ring::map(raw, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, RING)?,
            fd,
            depth,
            assembly: Assembly::default(),
            sending: 0,
            pieces: Pieces::new(pool),
            zero_copy: false,
        };
        // Since Linux 6.6 a frame may have several chunks.
        let jumbo = if pool.is_for_jumbo_frames() { libc::XDP_USE_SG } else { 0 };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | jumbo,
            sxdp_ifindex: ifindex,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        bind(raw, &address)
            .map_err(|e| Error::system(format!("binding AF_XDP to queue {queue}"), e))?;
        let mut options = 0u32;
        get(raw, libc::XDP_OPTIONS, &mut options)?;
        socket.zero_copy = options & libc::XDP_OPTIONS_ZEROCOPY != 0;
        socket.refill(pool);
        Ok(socket)
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Gives the kernel chunks for received frames.
    fn refill(&mut self, pool: &mut Pool) {
        // The ring is refilled in batches: each access to a shared counter costs a cache miss.
        let mut missing = self.depth.saturating_sub(self.fill.len());
        if missing >= self.depth / 8 {
            self.fill.write(|| {
                missing = missing.checked_sub(1)?;
                pool.take().map(u64::from)
            });
        }
        if self.fill.needs_wakeup() {
            // SAFETY: an empty receive; it only wakes the driver.
            unsafe {
                let none = std::ptr::null_mut();
                libc::recvfrom(self.fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast());
            }
        }
    }

    pub(super) fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize) -> u64 {
        let before = out.len();
        let Self { rx, assembly, .. } = self;
        rx.read(limit.min(RING as usize) as u32, |d| out.extend(assembly.take_in(&d, pool)));
        self.refill(pool);
        (out.len() - before) as u64
    }

    /// Passes frames to the kernel, and returns their number. Frames that do not fit stay in
    /// `frames`.
    pub(super) fn send(&mut self, pool: &mut Pool, frames: &mut VecDeque<Frame>) -> u64 {
        self.complete(pool);
        // The completion ring must have room for everything that is being sent, and a frame's
        // pieces stay together.
        let mut room = self.tx.room().min(RING - self.sending);
        let (mut split, mut count) = (Split::default(), 0);
        let Self { tx, pieces, .. } = self;
        let n = tx.write(|| {
            if let Some(piece) = split.next() {
                return Some(piece);
            }
            let whole = pieces.split(frames.front()?);
            room = room.checked_sub(whole.remaining())?;
            pieces.start(frames.pop_front()?, &whole);
            count += 1;
            split = whole;
            split.next()
        });
        self.sending += n;
        self.kick();
        self.complete(pool);
        count
    }

    /// Whether frames still wait for the interface.
    pub(super) fn is_sending(&self) -> bool {
        self.tx.len() > 0
    }

    /// Makes the kernel go on with sending, and returns whether it has frames that it has not sent.
    pub(super) fn finish_sending(&mut self, pool: &mut Pool) -> bool {
        self.kick();
        self.complete(pool);
        self.sending > 0
    }

    /// Makes the kernel send. In copy mode a call sends at most 32 frames, so several calls may be
    /// necessary. A busy interface ends the loop, and the frames stay in the ring.
    fn kick(&mut self) {
        while self.tx.len() > 0 && self.tx.needs_wakeup() {
            let before = self.tx.len();
            // SAFETY: an empty send; it only makes the kernel look at the ring.
            let sent = unsafe {
                let none = std::ptr::null();
                libc::sendto(self.fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), 0)
            };
            if sent < 0 && self.tx.len() == before {
                return;
            }
        }
    }

    /// Returns the chunks of sent frames to the pool.
    fn complete(&mut self, pool: &mut Pool) {
        let Self { completion, pieces, .. } = self;
        self.sending -= completion.read(RING, |addr| {
            if pieces.is_last(addr as u32) {
                pool.give(addr as u32);
            }
        });
    }

    /// Returns the received and the sent frames that were lost for want of room or chunks, or
    /// because a frame is larger than a chunk.
    pub(super) fn lost(&self) -> (u64, u64) {
        // SAFETY: all-zero is a valid `xdp_statistics`.
        let mut s: libc::xdp_statistics = unsafe { zeroed() };
        if get(self.fd(), libc::XDP_STATISTICS, &mut s).is_err() {
            return (0, 0);
        }
        (s.rx_dropped + s.rx_ring_full + self.assembly.lost(), s.tx_invalid_descs)
    }
}

/// Binds the socket. The kernel frees the queue of a dead process a moment after its death, so
/// "busy" is tried again for a while.
fn bind(fd: RawFd, address: &libc::sockaddr_xdp) -> io::Result<()> {
    const TRIES: u32 = 50;
    const PAUSE: Duration = Duration::from_millis(20);
    let len = size_of::<libc::sockaddr_xdp>() as u32;
    for _ in 1..TRIES {
        // SAFETY: `address` is valid and of the size given.
        if unsafe { libc::bind(fd, std::ptr::from_ref(address).cast(), len) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) {
            return Err(error);
        }
        thread::sleep(PAUSE);
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

fn set<T>(fd: RawFd, option: i32, value: &T) -> Result<(), Error> {
    // SAFETY: `value` is valid for reading its own size.
    let done = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    if done < 0 { Err(last("setting up an AF_XDP socket")) } else { Ok(()) }
}

fn get<T>(fd: RawFd, option: i32, value: &mut T) -> Result<(), Error> {
    let mut len = size_of::<T>() as u32;
    // SAFETY: `value` is valid for writing the size that `len` says.
    let done = unsafe {
        libc::getsockopt(fd, libc::SOL_XDP, option, std::ptr::from_mut(value).cast(), &mut len)
    };
    if done < 0 { Err(last("asking an AF_XDP socket")) } else { Ok(()) }
}
