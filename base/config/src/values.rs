use std::fmt;
use std::str::FromStr;

use forebay_units::{Bytes, Nanos, Rate};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// A value with a unit that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {what}: write a number and a unit, such as {example}")]
pub struct ValueError {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// `NUMBER UNIT` in the smallest unit, rounded to a whole; `None` if it is not that, or too large.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let value = (number * *scale as f64).round();
    // u64::MAX as f64 rounds up to 2^64, which no u64 holds.
    (value < u64::MAX as f64).then_some(value as u64)
}

/// Splits `96 Mbit/s`; the blank may be left out. Only digits and a point make a number: no sign,
/// no exponent.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

/// A value read from a string by `FromStr`, with one example for all its errors.
macro_rules! from_string {
    ($name:ident, $what:literal, $example:literal) => {
        impl $name {
            fn error(text: &str) -> ValueError {
                ValueError { text: text.to_owned(), what: $what, example: $example }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!($what, " such as ", $example))
                    }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

/// A rate as people write it: `"96 Mbit/s"`, `"800 kbit/s"`, `"1 Gbit/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RateValue(pub Rate);

from_string!(RateValue, "a rate", "\"96 Mbit/s\" (bit/s, kbit/s, Mbit/s, Gbit/s)");

impl FromStr for RateValue {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        const UNITS: [(&str, u64); 4] =
            [("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
        scaled(text, &UNITS).map(|n| Self(Rate::from_bps(n))).ok_or_else(|| Self::error(text))
    }
}

/// A span of time as it is written: `"50 ms"`, `"2 s"`, `"250 us"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurationValue(pub Nanos);

from_string!(DurationValue, "a span of time", "\"50 ms\" (ns, us, ms, s, min)");

impl From<DurationValue> for Nanos {
    fn from(value: DurationValue) -> Self {
        value.0
    }
}

const TIMES: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];

impl FromStr for DurationValue {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        scaled(text, &TIMES).map(|n| Self(Nanos(n))).ok_or_else(|| Self::error(text))
    }
}

/// A number of bytes as it is written: `"20 MB"`, `"64 kB"`, `"1514 B"`. Units are decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeValue(pub Bytes);

from_string!(SizeValue, "a size", "\"20 MB\" (B, kB, MB, GB)");

const SIZES: [(&str, u64); 4] = [("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];

impl FromStr for SizeValue {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        scaled(text, &SIZES).map(|n| Self(Bytes(n))).ok_or_else(|| Self::error(text))
    }
}

/// A share of the whole, from 0 to 1, as it is written: `"0.1 %"`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ShareValue(pub f64);

from_string!(ShareValue, "a share", "\"0.1 %\" (0 % to 100 %)");

impl FromStr for ShareValue {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        match number_and_unit(text) {
            Some((percent, "%")) if percent <= 100.0 => Ok(Self(percent / 100.0)),
            _ => Err(Self::error(text)),
        }
    }
}

/// A queue's limit: `"1000 packets"`, `"1 MB"`, `"100 ms"` or `"2 bdp"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A number of packets.
    Packets(u64),
    /// A number of bytes.
    Bytes(Bytes),
    /// The bytes that the link sends in this time.
    Time(Nanos),
    /// A multiple of the bytes that the link sends in a round-trip time.
    Bdp(f64),
}

from_string!(Limit, "a limit", "\"1000 packets\" (packets, B, kB, MB, us, ms, s, bdp)");

impl FromStr for Limit {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some((number, "bdp")) = number_and_unit(text) {
            return Ok(Self::Bdp(number));
        }
        scaled(text, &[("packets", 1), ("packet", 1)])
            .map(Self::Packets)
            .or_else(|| scaled(text, &SIZES).map(|n| Self::Bytes(Bytes(n))))
            .or_else(|| scaled(text, &TIMES).map(|n| Self::Time(Nanos(n))))
            .ok_or_else(|| Self::error(text))
    }
}

/// The text from which the limit can be read again, exactly.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(n) => write!(f, "{n} packets"),
            Self::Bytes(n) => write!(f, "{n}"),
            Self::Time(t) => write!(f, "{} ns", t.0),
            Self::Bdp(x) => write!(f, "{x} bdp"),
        }
    }
}

/// The text from which the limit can be read again.
impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Limit {
    /// The frame that packets and bytes are converted with: 1500 B and an Ethernet header.
    const FRAME: u64 = 1514;

    /// Returns the limit in bytes at a link of `rate` on a path of round-trip time `rtt`.
    pub fn bytes(self, rate: Rate, rtt: Nanos) -> Bytes {
        match self {
            Self::Packets(n) => Bytes(n.saturating_mul(Self::FRAME)),
            Self::Bytes(b) => b,
            Self::Time(t) => rate.bytes_in(t),
            Self::Bdp(x) => Bytes((x * rate.bytes_in(rtt).as_f64()).round() as u64),
        }
    }

    /// Returns the limit in full-sized packets, rounded up.
    pub fn packets(self, rate: Rate, rtt: Nanos) -> u64 {
        match self {
            Self::Packets(n) => n,
            other => other.bytes(rate, rtt).0.div_ceil(Self::FRAME),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_scale() {
        let rate = |s: &str| s.parse::<RateValue>().unwrap().0.as_bps();
        assert_eq!(rate("96 Mbit/s"), 96_000_000);
        assert_eq!(rate("800kbit/s"), 800_000);
        assert_eq!(rate(" 1.5 Gbit/s "), 1_500_000_000);
        let time = |s: &str| s.parse::<DurationValue>().unwrap().0;
        assert_eq!(time("50 ms"), Nanos::from_millis(50));
        assert_eq!(time("0.25 s"), Nanos::from_millis(250));
        assert_eq!(time("2 min"), Nanos::from_secs(120));
        let size = |s: &str| s.parse::<SizeValue>().unwrap().0;
        assert_eq!(size("20 MB"), Bytes(20_000_000));
        assert_eq!(size("1514 B"), Bytes(1514));
    }

    #[test]
    fn shares_are_read_as_fractions() {
        let share = |s: &str| s.parse::<ShareValue>().map(|s| s.0);
        assert_eq!(share("0.5 %"), Ok(0.005));
        assert_eq!(share("100%"), Ok(1.0));
        assert!(share("101 %").is_err() && share("0.5").is_err() && share("-1 %").is_err());
    }

    #[test]
    fn malformed_values_are_refused() {
        for text in
            ["", "96", "Mbit/s", "-1 Mbit/s", "1e3 Mbit/s", "1 MB", "1 mbit/s", "1.2.3 bit/s"]
        {
            assert!(text.parse::<RateValue>().is_err(), "{text}");
        }
        assert!("99999999999 Gbit/s".parse::<RateValue>().is_err(), "does not fit");
        assert!("50".parse::<DurationValue>().is_err(), "no unit");
        assert!("5 KB".parse::<SizeValue>().is_err(), "kilo is a small k");
        let error = "5 KB".parse::<SizeValue>().unwrap_err().to_string();
        assert!(error.contains("\"5 KB\"") && error.contains("kB, MB, GB"), "{error}");
    }

    #[test]
    fn limits_convert() {
        let (rate, rtt) = (Rate::from_mbps(96), Nanos::from_millis(50));
        let limit = |s: &str| s.parse::<Limit>().unwrap();
        assert_eq!(limit("2 bdp").bytes(rate, rtt), Bytes(1_200_000));
        assert_eq!(limit("2 bdp").packets(rate, rtt), 793);
        assert_eq!(limit("100 ms").bytes(rate, rtt), Bytes(1_200_000));
        assert_eq!(limit("1 packet").bytes(rate, rtt), Bytes(1514));
        assert_eq!(limit("1000 packets").packets(rate, rtt), 1000);
        assert_eq!(limit("1 MB").packets(rate, rtt), 661);
        assert!("2 bdps".parse::<Limit>().is_err());
        for text in ["2 bdp", "0.5 bdp", "100 ms", "1 packet", "1 MB"] {
            assert_eq!(limit(&limit(text).to_string()), limit(text));
        }
    }
}
