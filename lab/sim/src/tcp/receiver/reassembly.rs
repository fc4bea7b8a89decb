//! Reassembly of data in and out of order, and the SACK blocks.

use super::super::segment::{SACK_BLOCKS, Sack};

/// The number of SACK blocks in memory; a segment has room for three (RFC 2018 section 4).
const BLOCKS: usize = SACK_BLOCKS + 1;

/// The position of an arriving segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// All of the segment had already arrived in order.
    Old,
    /// The segment is after a gap; `full` if a SACK block was lost from memory.
    Ahead { full: bool },
    /// The segment is the next in order; `closed` if it closed the last gap.
    Next { closed: bool },
}

/// The data that has arrived.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// The next byte in order.
    pub(super) next: u64,
    /// The number of bytes that arrived after a gap.
    pub(super) out_of_order: u64,
    /// The ranges that arrived out of order, ascending and disjoint.
    ranges: Vec<(u64, u64)>,
    /// The ranges that grew last, the latest first.
    recent: [(u64, u64); BLOCKS],
    recents: usize,
    duplicate: Option<(u64, u64)>,
}

impl Reassembly {
    pub(super) fn take(&mut self, start: u64, end: u64) -> Arrival {
        if end <= self.next {
            self.duplicate = Some((start, end));
            return Arrival::Old;
        }
        if start > self.next {
            return Arrival::Ahead { full: self.ahead(start, end) };
        }
        let gaps = self.has_gaps();
        self.advance(end);
        Arrival::Next { closed: gaps && !self.has_gaps() }
    }

    pub(super) fn has_gaps(&self) -> bool {
        !self.ranges.is_empty()
    }

    fn advance(&mut self, end: u64) {
        self.next = end;
        if self.ranges.is_empty() {
            return;
        }
        let absorbed = self.ranges.iter().take_while(|i| i.0 <= self.next).count();
        for range in self.ranges.drain(..absorbed) {
            self.next = self.next.max(range.1);
            self.out_of_order -= range.1 - range.0;
        }
        let (next, mut kept) = (self.next, 0);
        for i in 0..self.recents {
            if self.recent[i].0 > next {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recents = kept;
    }

    fn ahead(&mut self, start: u64, end: u64) -> bool {
        let first = self.ranges.partition_point(|i| i.1 < start);
        let after = self.ranges[first..].iter().take_while(|i| i.0 <= end).count() + first;
        let touched = &self.ranges[first..after];
        if touched.iter().any(|i| i.0 <= start && end <= i.1) {
            self.duplicate = Some((start, end));
        }
        let known: u64 = touched.iter().map(|i| i.1 - i.0).sum();
        let whole = touched.iter().fold((start, end), |(a, b), i| (a.min(i.0), b.max(i.1)));
        self.out_of_order += whole.1 - whole.0 - known;
        if touched.is_empty() {
            self.ranges.insert(first, whole);
        } else {
            self.ranges[first] = whole;
            self.ranges.drain(first + 1..after);
        }
        // Moves to the front and replaces all blocks inside it.
        let mut kept = 1;
        let mut full = false;
        let mut recent = [whole; BLOCKS];
        for block in &self.recent[..self.recents] {
            let absorbed = block.0 >= whole.0 && block.1 <= whole.1;
            if !absorbed && kept < BLOCKS {
                recent[kept] = *block;
                kept += 1;
            } else {
                full |= !absorbed;
            }
        }
        (self.recent, self.recents) = (recent, kept);
        full
    }

    /// Returns the SACK blocks of an acknowledgement that is sent now.
    pub(super) fn sack(&mut self) -> Sack {
        let mut sack = Sack::default();
        if let Some(block) = self.duplicate.take() {
            sack.duplicate = true;
            sack.push(self.next, block);
        }
        for block in &self.recent[..self.recents] {
            sack.push(self.next, *block);
        }
        sack
    }
}
