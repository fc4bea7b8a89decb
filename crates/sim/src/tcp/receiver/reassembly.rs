//! What arrived, in order and out of it, and the SACK blocks that tell of it.

use super::super::segment::{SACK_BLOCKS, Sack};

/// Blocks remembered, of which a segment has room for three (RFC 2018 section 4).
const BLOCKS: usize = SACK_BLOCKS + 1;

/// What a segment was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// All of it had come in order before.
    Old,
    /// It left a gap; `full` if that made a block fall out of memory.
    Ahead { full: bool },
    /// The next in order; `closed` if no gap is left of those there were.
    Next { closed: bool },
}

#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// The next byte in order.
    pub(super) next: u64,
    /// Bytes that came beyond a gap.
    pub(super) behind: u64,
    /// What came out of order, ascending and apart.
    islands: Vec<(u64, u64)>,
    /// The islands that grew last, latest first.
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
        !self.islands.is_empty()
    }

    fn advance(&mut self, end: u64) {
        self.next = end;
        if self.islands.is_empty() {
            return;
        }
        let absorbed = self.islands.iter().take_while(|i| i.0 <= self.next).count();
        for island in self.islands.drain(..absorbed) {
            self.next = self.next.max(island.1);
            self.behind -= island.1 - island.0;
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
        let first = self.islands.partition_point(|i| i.1 < start);
        let after = self.islands[first..].iter().take_while(|i| i.0 <= end).count() + first;
        let touched = &self.islands[first..after];
        if touched.iter().any(|i| i.0 <= start && end <= i.1) {
            self.duplicate = Some((start, end));
        }
        let known: u64 = touched.iter().map(|i| i.1 - i.0).sum();
        let whole = touched.iter().fold((start, end), |(a, b), i| (a.min(i.0), b.max(i.1)));
        self.behind += whole.1 - whole.0 - known;
        if touched.is_empty() {
            self.islands.insert(first, whole);
        } else {
            self.islands[first] = whole;
            self.islands.drain(first + 1..after);
        }
        // To the front, in place of all that it swallowed.
        let mut kept = 1;
        let mut full = false;
        let mut recent = [whole; BLOCKS];
        for block in &self.recent[..self.recents] {
            let swallowed = block.0 >= whole.0 && block.1 <= whole.1;
            if !swallowed && kept < BLOCKS {
                recent[kept] = *block;
                kept += 1;
            } else {
                full |= !swallowed;
            }
        }
        (self.recent, self.recents) = (recent, kept);
        full
    }

    /// The blocks for an acknowledgement that is sent now.
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
