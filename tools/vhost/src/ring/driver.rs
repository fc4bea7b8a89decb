//! The driver's side of a ring, for tests.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};

use super::{Memory, Setup};
use crate::offload::HEADER;

/// Length in bytes of each descriptor's buffer.
pub(crate) const BUFFER: u64 = 4096;
const NEXT: u16 = 1;
const WRITE: u16 = 2;

/// A driver with its ring, and the chains that the device has not returned.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) memory: Arc<Memory>,
    pub(crate) size: u16,
    base: u64,
    available: u16,
    seen: u16,
    free: Vec<u16>,
    chains: Vec<Vec<u16>>,
    event_index: bool,
}

impl Driver {
    /// Length in bytes of a ring of `size` with its buffers.
    pub(crate) fn room(size: u16) -> u64 {
        0x10000 + u64::from(size) * BUFFER
    }

    pub(crate) fn new(memory: Arc<Memory>, base: u64, size: u16, event_index: bool) -> Self {
        let free = (0..size).rev().collect();
        let chains = vec![Vec::new(); size.into()];
        Self { memory, size, base, available: 0, seen: 0, free, chains, event_index }
    }

    fn available_at(&self) -> u64 {
        self.base + 16 * u64::from(self.size)
    }

    fn used_at(&self) -> u64 {
        (self.available_at() + 6 + 2 * u64::from(self.size)).next_multiple_of(4)
    }

    fn buffer(&self, descriptor: u16) -> u64 {
        self.base + 0x10000 + u64::from(descriptor) * BUFFER
    }

    pub(crate) fn setup(&self, merge: bool) -> Setup {
        Setup {
            size: self.size,
            descriptors: self.base,
            available: self.available_at(),
            used: self.used_at(),
            next: 0,
            event_index: self.event_index,
            merge,
            header: HEADER,
            kick: None,
            call: None,
        }
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn read16(&self, at: u64) -> u16 {
        u16::from_le(self.memory.read_obj(GuestAddress(at)).unwrap())
    }

    fn describe(&self, descriptor: u16, len: u32, flags: u16, next: u16) {
        let mut bytes = self.buffer(descriptor).to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.write(self.base + 16 * u64::from(descriptor), &bytes);
    }

    /// Makes a chain of these pieces available; returns its head, or `None` if there are too few
    /// descriptors. A piece is what the device reads, or how much it may write.
    fn offer(&mut self, pieces: &[Result<&[u8], u32>]) -> Option<u16> {
        if self.free.len() < pieces.len() {
            return None;
        }
        let own: Vec<_> = pieces.iter().filter_map(|_| self.free.pop()).collect();
        for (i, (piece, descriptor)) in pieces.iter().zip(&own).enumerate() {
            let next = own.get(i + 1).copied();
            let flag = if next.is_some() { NEXT } else { 0 };
            let (len, flags) = match piece {
                Ok(bytes) => {
                    self.write(self.buffer(*descriptor), bytes);
                    (bytes.len() as u32, flag)
                }
                Err(len) => (*len, flag | WRITE),
            };
            self.describe(*descriptor, len, flags, next.unwrap_or(0));
        }
        let head = own[0];
        let place = self.available_at() + 4 + 2 * u64::from(self.available % self.size);
        self.write(place, &head.to_le_bytes());
        self.chains[usize::from(head)] = own;
        self.available = self.available.wrapping_add(1);
        self.write(self.available_at() + 2, &self.available.to_le_bytes());
        Some(head)
    }

    /// Sends a frame with this header in a chain that is split at `cut`.
    pub(crate) fn send(&mut self, header: [u8; HEADER], frame: &[u8], cut: usize) -> Option<u16> {
        let all = [&header[..], frame].concat();
        let (a, b) = all.split_at(cut.clamp(1, all.len() - 1));
        let pieces: Vec<_> =
            a.chunks(BUFFER as usize).chain(b.chunks(BUFFER as usize)).map(Ok).collect();
        self.offer(&pieces)
    }

    /// Offers a buffer for received frames.
    pub(crate) fn post(&mut self, len: u32) -> Option<u16> {
        self.offer(&[Err(len)])
    }

    /// Sends a request to the device, with a byte for its answer.
    pub(crate) fn request(&mut self, request: &[u8]) -> Option<u16> {
        self.offer(&[Ok(request), Err(1)])
    }

    /// The answer byte of a request whose chain begins at `head`, before the chain is reaped.
    pub(crate) fn answer_of(&self, head: u16) -> u8 {
        let answer = self.chains[usize::from(head)][1];
        self.memory.read_obj(GuestAddress(self.buffer(answer))).unwrap()
    }

    /// Whether the device asks for a kick for chains that became available after number `before`.
    pub(crate) fn wants_kick(&self, before: u16) -> bool {
        if self.event_index {
            let event = self.read16(self.used_at() + 4 + 8 * u64::from(self.size));
            let new = self.available;
            new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(before)
        } else {
            self.read16(self.used_at()) & 1 == 0
        }
    }

    pub(crate) fn available(&self) -> u16 {
        self.available
    }

    /// Asks the device for a call when it uses the next chain.
    pub(crate) fn ask_for_call(&self) {
        self.write(self.available_at() + 4 + 2 * u64::from(self.size), &self.seen.to_le_bytes());
    }

    /// Returns the chains that the device has used since the last call, each with what it wrote.
    pub(crate) fn reap(&mut self) -> Vec<(u16, Vec<u8>)> {
        let mut back = Vec::new();
        while self.seen != self.read16(self.used_at() + 2) {
            let at = self.used_at() + 4 + 8 * u64::from(self.seen % self.size);
            let word = |at| u32::from_le(self.memory.read_obj(GuestAddress(at)).unwrap());
            let (head, len) = (word(at) as u16, word(at + 4));
            let mut bytes = vec![0; len as usize];
            self.memory.read_slice(&mut bytes, GuestAddress(self.buffer(head))).unwrap();
            let own = std::mem::take(&mut self.chains[usize::from(head)]);
            assert!(!own.is_empty(), "the device returned a chain that it did not have");
            self.free.extend(own);
            back.push((head, bytes));
            self.seen = self.seen.wrapping_add(1);
        }
        back
    }
}

/// Creates memory for `rings` rings of `size`; returns it with the start of each ring.
pub(crate) fn memory(size: u16, rings: u64) -> (Arc<Memory>, Vec<u64>) {
    let each = Driver::room(size).next_multiple_of(0x1000);
    let memory = Memory::from_ranges(&[(GuestAddress(0), (each * rings) as usize)]).unwrap();
    (Arc::new(memory), (0..rings).map(|i| i * each).collect())
}
