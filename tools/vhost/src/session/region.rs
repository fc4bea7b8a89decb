//! A region of a guest's memory, with the addresses that each side uses for it.

/// A region of a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Start address in the guest.
    pub(super) guest: u64,
    /// Length in bytes.
    pub(super) size: u64,
    /// Start address in the front end.
    pub(super) front_end: u64,
    /// Start offset in the file that holds the region.
    pub(super) offset: u64,
}

impl Region {
    /// Translates a front end's `address` to the guest's, if it lies in this region.
    pub(super) fn translate(&self, address: u64) -> Option<u64> {
        let within = address.checked_sub(self.front_end).filter(|w| *w < self.size)?;
        self.guest.checked_add(within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_front_end_translate_to_the_guest() {
        let region = Region { guest: 0x10_0000, size: 0x1000, front_end: 0x7000, offset: 0 };
        assert_eq!(region.translate(0x7000), Some(0x10_0000));
        assert_eq!(region.translate(0x7fff), Some(0x10_0fff));
        assert_eq!(region.translate(0x8000), None);
        assert_eq!(region.translate(0x6fff), None);
    }
}
