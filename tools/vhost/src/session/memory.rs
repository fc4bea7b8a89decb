//! The message with a guest's memory table.
//!
//! This module reads it instead of the library, because User-mode Linux sends it with room for two
//! regions and only one filled in. The library refuses that length.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use vm_memory::{FileOffset, GuestAddress, GuestMemoryRegion, GuestRegionMmap, MmapRegion};

use super::handler::Handler;
use super::message::{self, Message};
use super::region::Region;
use crate::ring::Memory;
use crate::truncation::Watch;

/// Maximum number of regions of a table: a message can carry as many files.
const MAX_REGIONS: usize = 32;
/// Length in bytes of the table's header: the number of regions, and padding.
const HEADER: usize = 8;
/// Length in bytes of a region in the table.
const REGION: usize = 32;

/// Receives the memory table that waits at `stream`.
pub(super) fn receive(stream: &UnixStream, handler: &Arc<Mutex<Handler>>) -> io::Result<()> {
    let message = Message::read(stream, HEADER + MAX_REGIONS * REGION, MAX_REGIONS)?;
    let needs_reply = message.needs_reply();
    let regions = regions(&message.body)?;
    if regions.len() != message.files.len() {
        return Err(invalid("the memory table does not have one file for each region"));
    }
    let memory = map(&regions, message.files)?;
    let watch = Watch::of(&memory)?;
    let mut handler = handler.lock().unwrap_or_else(PoisonError::into_inner);
    handler.set_memory(memory, watch, regions);
    if needs_reply && handler.replies() { message::acknowledge(stream, 0) } else { Ok(()) }
}

fn regions(body: &[u8]) -> io::Result<Vec<Region>> {
    let invalid = || invalid("the length of the memory table does not fit its regions");
    let (header, rest) = body.split_at_checked(HEADER).ok_or_else(invalid)?;
    let count = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if count == 0 || rest.len() / REGION < count {
        return Err(invalid());
    }
    let word = |of: &[u8], i: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&of[8 * i..8 * i + 8]);
        u64::from_ne_bytes(bytes)
    };
    let region = |of: &[u8]| Region {
        guest: word(of, 0),
        size: word(of, 1),
        front_end: word(of, 2),
        offset: word(of, 3),
    };
    Ok(rest.chunks_exact(REGION).take(count).map(region).collect())
}

/// Maps each of `regions` from its file. A region must lie inside its file. A file that becomes
/// shorter later is handled by [`Watch`].
fn map(regions: &[Region], files: Vec<File>) -> io::Result<Memory> {
    let mut mapped = Vec::new();
    for (region, file) in regions.iter().zip(files) {
        let end = region.offset.checked_add(region.size);
        let ends =
            [end, region.guest.checked_add(region.size), region.front_end.checked_add(region.size)];
        if region.size == 0 || ends.iter().any(Option::is_none) {
            return Err(invalid("a memory region exceeds the address space"));
        }
        let length = file.metadata()?;
        if length.is_file() && end.is_none_or(|end| end > length.len()) {
            return Err(invalid("a memory region is longer than its file"));
        }
        let map = MmapRegion::from_file(FileOffset::new(file, region.offset), region.size as usize)
            .map_err(io::Error::other)?;
        let map = GuestRegionMmap::new(map, GuestAddress(region.guest))
            .ok_or_else(|| invalid("a memory region exceeds the address space"))?;
        mapped.push(map);
    }
    mapped.sort_by_key(GuestMemoryRegion::start_addr);
    Memory::from_regions(mapped).map_err(io::Error::other)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(count: u32, room: usize) -> Vec<u8> {
        let mut body = count.to_ne_bytes().to_vec();
        body.extend([0; 4]);
        for i in 0..room as u64 {
            let words =
                if i < u64::from(count) { [i << 20, 0x1000, 0x7000_0000 + i, 0] } else { [0; 4] };
            words.iter().for_each(|w| body.extend(w.to_ne_bytes()));
        }
        body
    }

    #[test]
    fn a_table_may_have_more_room_than_regions() {
        // User-mode Linux sends such a table.
        let one = regions(&table(1, 2)).unwrap();
        assert_eq!(one, [Region { guest: 0, size: 0x1000, front_end: 0x7000_0000, offset: 0 }]);
        assert_eq!(regions(&table(2, 2)).unwrap().len(), 2);
        for wrong in [table(3, 2), table(0, 1), table(u32::MAX, 1), vec![1, 0], Vec::new()] {
            assert!(regions(&wrong).is_err());
        }
    }

    #[test]
    fn a_region_past_its_file_is_refused() {
        let file = File::open("/proc/self/exe").unwrap();
        let long = file.metadata().unwrap().len().next_multiple_of(4096) + 4096;
        let region = Region { guest: 0, size: long, front_end: 0, offset: 0 };
        assert!(
            map(&[region], vec![file]).unwrap_err().to_string().contains("longer than its file")
        );
        let far = Region { guest: u64::MAX - 10, size: 4096, front_end: 0, offset: 0 };
        let file = File::open("/proc/self/exe").unwrap();
        assert!(map(&[far], vec![file]).is_err());
    }
}
