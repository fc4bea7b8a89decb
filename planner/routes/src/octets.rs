//! Reads fields in network byte order from the front of a slice.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Malformed;

/// The octets that are left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Octets<'a>(pub(crate) &'a [u8]);

impl<'a> Octets<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next `count` octets.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn part(&mut self, count: usize) -> Result<Self, Malformed> {
        self.take(count).map(Self)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[octet]| octet)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn v4(&mut self) -> Result<Ipv4Addr, Malformed> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    pub(crate) fn v6(&mut self) -> Result<Ipv6Addr, Malformed> {
        self.array::<16>().map(Ipv6Addr::from)
    }
}
