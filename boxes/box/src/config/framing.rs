//! The length of a packet on a link with its own framing.

use std::fmt;

use forebay_config::{ConfigError, Source, Spanned};
use forebay_units::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// The framing of a link: the bytes that it carries for a packet of the network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// The bytes added to each packet.
    pub overhead: u16,
    /// The least number of bytes for a packet, including the overhead.
    pub minimum: u16,
    /// The cells into which frames are split.
    pub cells: Cells,
}

/// The cells into which a link splits frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cells {
    /// Frames are not split.
    #[default]
    None,
    /// Cells of ATM: 53 bytes with 48 bytes of payload; the last cell is padded.
    Atm,
    /// PTM of VDSL2: one more byte for every 64 bytes or part of them (IEEE 802.3 clause 61.3.3).
    Ptm,
}

impl Framing {
    /// Returns the bytes that the link carries for a packet of `len`.
    #[inline]
    pub(crate) fn length(&self, len: Bytes) -> Bytes {
        let n = (len.0 + u64::from(self.overhead)).max(u64::from(self.minimum));
        Bytes(match self.cells {
            Cells::None => n,
            Cells::Atm => n.div_ceil(48) * 53,
            Cells::Ptm => n + n.div_ceil(64),
        })
    }

    pub(super) fn check(
        source: &Source,
        overhead: Option<Spanned<Overhead>>,
        minimum: Option<Spanned<u16>>,
        cells: Option<Spanned<Cells>>,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(overhead) = overhead else {
            let beside =
                [minimum.map(|m| (m.span(), "minimum")), cells.map(|c| (c.span(), "cells"))];
            return match beside.into_iter().flatten().next() {
                None => Ok(None),
                Some((span, key)) => {
                    let message = "this goes with link.overhead only";
                    Err(source.error_at(span, format!("link.{key}"), message))
                }
            };
        };
        let (framing, is_named) = match *overhead.get_ref() {
            Overhead::Bytes(overhead) => (Self { overhead, minimum: 0, cells: Cells::None }, false),
            Overhead::Of(framing) => (framing, true),
        };
        if framing.overhead > MAX || minimum.as_ref().is_some_and(|m| *m.get_ref() > MAX) {
            let (span, key) = match &minimum {
                Some(m) if framing.overhead <= MAX => (m.span(), "link.minimum"),
                _ => (overhead.span(), "link.overhead"),
            };
            return Err(source.error_at(span, key, format!("must be at most {MAX} bytes")));
        }
        if let (true, Some(cells)) = (is_named, &cells) {
            let message = "the name in link.overhead says that: remove it";
            return Err(source.error_at(cells.span(), "link.cells", message));
        }
        Ok(Some(Self {
            minimum: minimum.map_or(framing.minimum, Spanned::into_inner),
            cells: cells.map_or(framing.cells, Spanned::into_inner),
            ..framing
        }))
    }
}

/// The largest overhead: no link has more, so more is a mistake.
const MAX: u16 = 256;

/// Links by the names and with the figures of Linux's cake (`man tc-cake`).
const NAMES: [(&str, Framing); 8] = [
    ("ethernet", Framing { overhead: 38, minimum: 84, cells: Cells::None }),
    ("ether-vlan", Framing { overhead: 42, minimum: 88, cells: Cells::None }),
    ("docsis", Framing { overhead: 18, minimum: 64, cells: Cells::None }),
    ("pppoe-ptm", Framing { overhead: 30, minimum: 0, cells: Cells::Ptm }),
    ("bridged-ptm", Framing { overhead: 22, minimum: 0, cells: Cells::Ptm }),
    ("pppoe-llcsnap", Framing { overhead: 40, minimum: 0, cells: Cells::Atm }),
    ("pppoa-vcmux", Framing { overhead: 10, minimum: 0, cells: Cells::Atm }),
    ("conservative", Framing { overhead: 48, minimum: 0, cells: Cells::Atm }),
];

/// The key `overhead`: a number of bytes, or the name of a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Overhead {
    Bytes(u16),
    Of(Framing),
}

impl<'de> Deserialize<'de> for Overhead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Overhead;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or the name of a link: ")?;
                f.write_str(&NAMES.map(|(name, _)| name).join(", "))
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<Overhead, E> {
                let bytes = u16::try_from(n).map(Overhead::Bytes);
                bytes.map_err(|_| E::invalid_value(Unexpected::Signed(n), &self))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Overhead, E> {
                let known = NAMES.iter().find(|(name, _)| *name == text);
                let unknown = || E::invalid_value(Unexpected::Str(text), &self);
                known.map(|(_, framing)| Overhead::Of(*framing)).ok_or_else(unknown)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of a full packet and of an acknowledgement of 40 bytes.
    #[test]
    fn lengths_agree_with_a_calculation_by_hand() {
        let of = |name: &str| NAMES.iter().find(|(n, _)| *n == name).unwrap().1;
        for (name, full, short) in [
            ("ethernet", 1538, 84),
            ("docsis", 1518, 64),
            // 1530 + 24, and 70 + 2.
            ("pppoe-ptm", 1554, 72),
            // 1540 in 33 cells, 80 in two.
            ("pppoe-llcsnap", 1749, 106),
            // 1510 in 32 cells, 50 in two.
            ("pppoa-vcmux", 1696, 106),
        ] {
            let framing = of(name);
            assert_eq!(framing.length(Bytes(1500)), Bytes(full), "{name}");
            assert_eq!(framing.length(Bytes(40)), Bytes(short), "{name}");
        }
    }
}
