//! The meaning of an element's octets.
//!
//! Numbers may have fewer octets than usual (RFC 7011, section 6.2), so the length of a number does
//! not follow from its element.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The octets of an element. No element that is used is longer than an address.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Octets {
    octets: [u8; 16],
    length: usize,
}

impl Octets {
    /// Returns these octets; `None` if they are more than an address has.
    pub(crate) fn from_slice(slice: &[u8]) -> Option<Self> {
        let mut octets = [0; 16];
        octets.get_mut(..slice.len())?.copy_from_slice(slice);
        Some(Self { octets, length: slice.len() })
    }

    fn slice(&self) -> &[u8] {
        &self.octets[..self.length]
    }

    /// Returns the octets as a number; `None` if there are none, or more than eight.
    pub(crate) fn number(&self) -> Option<u64> {
        if !(1..=8).contains(&self.length) {
            return None;
        }
        Some(self.slice().iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
    }

    /// Returns the octets as a float of four or eight octets.
    pub(crate) fn float(&self) -> Option<f64> {
        match self.slice() {
            [a, b, c, d] => Some(f64::from(f32::from_be_bytes([*a, *b, *c, *d]))),
            eight => Some(f64::from_be_bytes(<[u8; 8]>::try_from(eight).ok()?)),
        }
    }

    /// Returns the octets as an address, by their length.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self.slice() {
            [a, b, c, d] => Some(Ipv4Addr::new(*a, *b, *c, *d).into()),
            sixteen => Some(Ipv6Addr::from(<[u8; 16]>::try_from(sixteen).ok()?).into()),
        }
    }

    /// Returns the octets as an address whose trailing octets may be missing, as exporters write
    /// prefixes.
    pub(crate) fn prefix(&self, of: u8) -> Option<IpAddr> {
        match of {
            4 if self.length <= 4 => {
                let [a, b, c, d, ..] = self.octets;
                Some(Ipv4Addr::new(a, b, c, d).into())
            }
            6 => Some(Ipv6Addr::from(self.octets).into()),
            _ => None,
        }
    }

    /// Returns an NTP timestamp (RFC 7011, section 6.1.9) as milliseconds since 1970. NTP counts
    /// from 1900.
    pub(crate) fn ntp(&self) -> Option<i64> {
        const SEVENTY_YEARS: i64 = 2_208_988_800;
        let number = self.number().filter(|_| self.length == 8)?;
        let (seconds, fraction) = ((number >> 32) as i64, number & u64::from(u32::MAX));
        Some((seconds - SEVENTY_YEARS) * 1000 + ((fraction * 1000) >> 32) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(slice: &[u8]) -> Octets {
        Octets::from_slice(slice).unwrap()
    }

    #[test]
    fn octets_have_the_values_of_hand_calculations() {
        assert_eq!(octets(&[1, 2, 3]).number(), Some(0x0001_0203));
        assert_eq!(octets(&[0xff; 8]).number(), Some(u64::MAX));
        assert_eq!((octets(&[]).number(), octets(&[1; 9]).number()), (None, None));
        assert_eq!(octets(&[0x3a, 0x80, 0, 0]).float(), Some(1.0 / 1024.0));
        assert_eq!(octets(&[0x3f, 0xe0, 0, 0, 0, 0, 0, 0]).float(), Some(0.5));
        assert_eq!(octets(&[0; 5]).float(), None);
        assert_eq!(octets(&[192, 0, 2, 1]).address(), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(octets(&[0; 16]).address(), Some("::".parse().unwrap()));
        assert_eq!(octets(&[10]).prefix(4), Some("10.0.0.0".parse().unwrap()));
        assert_eq!(octets(&[0x20, 1]).prefix(6), Some("2001::".parse().unwrap()));
        assert!(Octets::from_slice(&[0; 17]).is_none());
        // RFC 5905, figure 4: 1970 began at 2 208 988 800; half a second is 2^31.
        let half = (2_208_988_801_u64 << 32 | 1 << 31).to_be_bytes();
        assert_eq!(octets(&half).ntp(), Some(1500));
    }
}
