use core::fmt;

/// The reason why a sequence number was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replay {
    /// The number was accepted before.
    Seen,
    /// The number is below the window, so it is unknown whether it was accepted.
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

/// The window of sequence numbers that have been received: the sliding bitmap of RFC 4303 section
/// 3.4.3, kept as a ring so that no bits are shifted.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// The highest number accepted, zero if there is none.
    highest: u64,
    /// One bit for each of the 1024 numbers up to `highest`. The bit of n has the index n mod 1024.
    seen: [u64; WORDS as usize],
}

impl ReplayWindow {
    /// Number of sequence numbers that the window covers. Feedback comes about ten times a round
    /// trip, so this is far more than any reordering.
    pub const SIZE: u64 = 1024;
    /// Number of words that hold a bit for each number.
    pub const WORDS: usize = WORDS as usize;

    /// Creates a window in which no number was received. The first number is 1.
    pub const fn new() -> Self {
        // Zero is below the first number and counts as received.
        let mut seen = [0; WORDS as usize];
        seen[0] = 1;
        Self { highest: 0, seen }
    }

    /// Makes the window that another one was, by its highest number and its bits.
    pub const fn resumed(highest: u64, seen: [u64; Self::WORDS]) -> Self {
        Self { highest, seen }
    }

    /// Returns one bit for each of the last numbers, by which [`Self::resumed`] makes the window.
    pub const fn seen(&self) -> &[u64; Self::WORDS] {
        &self.seen
    }

    /// Returns the highest number accepted, zero if there is none.
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Accepts `sequence` if it is the highest so far, or within the window and new.
    ///
    /// # Errors
    /// Returns whether the number was accepted before or is below the window.
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

    /// Clears the bits of the numbers above `highest` up to `sequence`.
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
