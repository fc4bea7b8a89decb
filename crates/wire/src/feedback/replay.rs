use core::fmt;

/// Why a sequence number was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replay {
    /// It was accepted before.
    Seen,
    /// It is so old that it is no longer known whether it was accepted.
    TooOld,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seen => "received before",
            Self::TooOld => "too old to tell whether it was received before",
        })
    }
}

impl core::error::Error for Replay {}

const WORDS: u64 = ReplayWindow::SIZE / 64;

/// Which sequence numbers have been received: the sliding bitmap of RFC 4303 section 3.4.3, kept as
/// a ring so that nothing is shifted.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// The highest number accepted, zero if none was.
    highest: u64,
    /// Bit n mod 1024 tells of n, for the 1024 numbers up to `highest`.
    seen: [u64; WORDS as usize],
}

impl ReplayWindow {
    /// How many numbers, up to the highest, it remembers. Feedback comes some ten times a round
    /// trip, so this is far more than any reordering.
    pub const SIZE: u64 = 1024;

    /// Nothing has been received. The first number is 1.
    pub const fn new() -> Self {
        // Zero is below the first number and counts as seen.
        let mut seen = [0; WORDS as usize];
        seen[0] = 1;
        Self { highest: 0, seen }
    }

    /// The highest number accepted, zero if none was.
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Accepts `sequence` if it is above all others so far, or within the window and new.
    ///
    /// # Errors
    /// If it was accepted before, or is below the window.
    pub fn accept(&mut self, sequence: u64) -> Result<(), Replay> {
        if sequence > self.highest {
            self.forget_up_to(sequence);
            self.highest = sequence;
        } else if self.highest - sequence >= Self::SIZE {
            return Err(Replay::TooOld);
        }
        let (word, bit) = Self::place(sequence);
        if self.seen[word] & bit != 0 {
            return Err(Replay::Seen);
        }
        self.seen[word] |= bit;
        Ok(())
    }

    /// Clears the places of the numbers above `highest` up to `sequence`.
    fn forget_up_to(&mut self, sequence: u64) {
        if sequence - self.highest >= Self::SIZE {
            self.seen = [0; WORDS as usize];
            return;
        }
        for n in self.highest + 1..=sequence {
            let (word, bit) = Self::place(n);
            self.seen[word] &= !bit;
        }
    }

    const fn place(sequence: u64) -> (usize, u64) {
        ((sequence / 64 % WORDS) as usize, 1 << (sequence % 64))
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}
