//! Survives a front end that truncates the file of its guest's memory.
//!
//! An access past the end of a mapped file raises SIGBUS, which would end the process and with it
//! the network of all virtual machines. The handler here replaces the mapping with zeros, so that
//! the access continues. It also marks the memory as lost, and the data thread then gives up the
//! rings of that virtual machine. What a ring says is never trusted, so zeros in it are one more
//! invalid ring. The decision is in docs/decisions/0039-memory-that-a-front-end-truncates.md.

use std::io;
use std::mem::zeroed;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vm_memory::{GuestMemoryBackend, GuestMemoryRegion};

use crate::ring::Memory;

/// Maximum number of watched regions: 64 virtual machines with 32 regions each, and as many while
/// their memory is replaced.
const MAX_REGIONS: usize = 2 * 64 * 32;

/// A watched region. The handler may read it at any time.
struct Place {
    /// First address of the region; 0 if the place is free.
    start: AtomicUsize,
    /// Length of the region in bytes.
    length: AtomicUsize,
    /// Whether the handler has replaced the region.
    lost: AtomicBool,
}

static PLACES: [Place; MAX_REGIONS] = [const {
    Place { start: AtomicUsize::new(0), length: AtomicUsize::new(0), lost: AtomicBool::new(false) }
}; MAX_REGIONS];

/// Whether the handler is installed. Held while places are taken.
static INSTALLED: Mutex<bool> = Mutex::new(false);

/// Watches the memory of a guest until it is dropped. It has to be dropped before the memory, or a
/// later mapping at the same address would be taken for it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    places: Vec<usize>,
}

impl Watch {
    /// Watches all regions of `memory`.
    ///
    /// # Errors
    /// If no place is free, or the handler cannot be installed.
    pub(crate) fn of(memory: &Memory) -> io::Result<Arc<Self>> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if !*installed {
            install()?;
            *installed = true;
        }
        let mut watch = Self::default();
        let mut free = (0..MAX_REGIONS).filter(|&i| PLACES[i].start.load(Ordering::Relaxed) == 0);
        for region in memory.iter() {
            let place = free.next().ok_or_else(|| io::Error::other("too many memory regions"))?;
            PLACES[place].lost.store(false, Ordering::Relaxed);
            PLACES[place].length.store(region.len() as usize, Ordering::Relaxed);
            PLACES[place].start.store(region.as_ptr().addr(), Ordering::Release);
            watch.places.push(place);
        }
        Ok(Arc::new(watch))
    }

    /// Whether a part of the memory was truncated and is read as zeros now.
    pub(crate) fn is_lost(&self) -> bool {
        self.places.iter().any(|&place| PLACES[place].lost.load(Ordering::Acquire))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for &place in &self.places {
            PLACES[place].start.store(0, Ordering::Release);
        }
    }
}

fn install() -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigaction`, whose mask is empty. The handler makes only system
    // calls and uses atomics, which signal handlers may do.
    let done = unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &action, null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Replaces the watched region around the faulting address. Any other fault ends the process as
/// without a handler, when the access is repeated.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `info`. Its address is that of the access, unless another
    // process sent the signal, and then its code is not that of an access.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    if !(code == libc::BUS_ADRERR && replace(address)) {
        // SAFETY: restores the default action, which the repeated access meets.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
}

fn replace(address: usize) -> bool {
    for place in &PLACES {
        let start = place.start.load(Ordering::Acquire);
        let length = place.length.load(Ordering::Relaxed);
        if start == 0 || address.wrapping_sub(start) >= length {
            continue;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the range is that of a mapping that exists while its place is taken, since the
        // thread that accesses it holds the memory and its `Watch`. All accesses to guest memory
        // are volatile, so its content may change. The thread's `errno` is kept.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            let at = without_provenance_mut(start);
            let mapped = libc::mmap(at, length, protection, flags, -1, 0);
            *errno = before;
            if mapped == libc::MAP_FAILED {
                return false;
            }
        }
        place.lost.store(true, Ordering::Release);
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::FromRawFd;

    use vm_memory::{Bytes, FileOffset, GuestAddress};

    use super::*;

    fn guest() -> (Arc<Memory>, File) {
        // SAFETY: the name is terminated, and nothing else owns the descriptor.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"guest".as_ptr(), 0)) };
        file.set_len(0x4000).unwrap();
        let own = FileOffset::new(file.try_clone().unwrap(), 0);
        let ranges = [(GuestAddress(0x1000), 0x4000, Some(own))];
        (Arc::new(Memory::from_ranges_with_files(&ranges).unwrap()), file)
    }

    #[test]
    fn a_truncated_memory_reads_as_zeros_and_others_are_untouched() {
        let (first, file) = guest();
        let (second, _kept) = guest();
        let (watch, other) = (Watch::of(&first).unwrap(), Watch::of(&second).unwrap());
        for memory in [&first, &second] {
            memory.write_obj(7u64, GuestAddress(0x3000)).unwrap();
        }
        file.set_len(0).unwrap();
        let read = |memory: &Memory| memory.read_obj::<u64>(GuestAddress(0x3000)).unwrap();
        assert_eq!((read(&first), read(&second)), (0, 7));
        first.write_obj(8u64, GuestAddress(0x1000)).unwrap();
        assert!(watch.is_lost() && !other.is_lost());
        // Memory that is mapped later is watched anew.
        drop((watch, first));
        let (third, _kept) = guest();
        assert!(!Watch::of(&third).unwrap().is_lost());
    }
}
