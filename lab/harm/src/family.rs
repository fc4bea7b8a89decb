//! The names of the families of paths.

use std::str::FromStr;

/// A family of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// A constant rate and a first-in-first-out buffer: what the loop was made for.
    Plain,
    /// Service in bursts, 1 to 40 ms apart, as Wi-Fi, LTE and Starlink have.
    Bursts,
    /// Service in bursts at random times.
    RandomBursts,
    /// Delay that varies, in order.
    Jitter,
    /// Delay that varies and reorders.
    Reordering,
    /// A rate that walks at random, with outages, as of a moving phone.
    Cellular,
    /// Rates that step up and down.
    Steps,
    /// Outages of 0.1 to 5 s, and the queue after them.
    Outages,
    /// A rate enforced by dropping what comes in bursts.
    Policer,
    /// Random and bursty loss, of data or of feedback.
    Loss,
    /// Buffers of 5 packets to half a bandwidth-delay product.
    Shallow,
    /// Buffers of up to 12 s.
    Deep,
    /// Rates from 0.5 to 5 Mbit/s.
    Slow,
    /// Rates from 300 Mbit/s to 2 Gbit/s.
    Fast,
    /// Round trips of 150 to 800 ms.
    Long,
    /// An AQM at the bottleneck.
    Aqm,
    /// Loss-based flows of others.
    Elastic,
    /// BBR flows of others.
    Bbr,
    /// Requests, constant streams, video, on-and-off traffic of others.
    Inelastic,
    /// Two to six bundles at one bottleneck.
    Bundles,
    /// A bundle of bundles.
    Nested,
    /// Hardly any traffic.
    Thin,
    /// A receivebox that dies, a route that changes.
    Faults,
}

/// All families, in the order in which cells are drawn from them.
pub(crate) const ALL: [Family; 23] = [
    Family::Plain,
    Family::Bursts,
    Family::RandomBursts,
    Family::Jitter,
    Family::Reordering,
    Family::Cellular,
    Family::Steps,
    Family::Outages,
    Family::Policer,
    Family::Loss,
    Family::Shallow,
    Family::Deep,
    Family::Slow,
    Family::Fast,
    Family::Long,
    Family::Aqm,
    Family::Elastic,
    Family::Bbr,
    Family::Inelastic,
    Family::Bundles,
    Family::Nested,
    Family::Thin,
    Family::Faults,
];

impl Family {
    /// The name on pages, in file names and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Bursts => "bursts",
            Self::RandomBursts => "random_bursts",
            Self::Jitter => "jitter",
            Self::Reordering => "reordering",
            Self::Cellular => "cellular",
            Self::Steps => "steps",
            Self::Outages => "outages",
            Self::Policer => "policer",
            Self::Loss => "loss",
            Self::Shallow => "shallow",
            Self::Deep => "deep",
            Self::Slow => "slow",
            Self::Fast => "fast",
            Self::Long => "long",
            Self::Aqm => "aqm",
            Self::Elastic => "elastic",
            Self::Bbr => "bbr",
            Self::Inelastic => "inelastic",
            Self::Bundles => "bundles",
            Self::Nested => "nested",
            Self::Thin => "thin",
            Self::Faults => "faults",
        }
    }
}

/// A name that is not a family's.
#[derive(Debug, thiserror::Error)]
#[error("no family is called `{name}`: the families are {}", names())]
pub struct UnknownFamily {
    name: String,
}

fn names() -> String {
    ALL.map(Family::name).join(", ")
}

impl FromStr for Family {
    type Err = UnknownFamily;

    fn from_str(name: &str) -> Result<Self, UnknownFamily> {
        let found = ALL.into_iter().find(|family| family.name() == name);
        found.ok_or_else(|| UnknownFamily { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_their_names() {
        for family in ALL {
            assert_eq!(family.name().parse::<Family>().unwrap(), family);
        }
        let error = "wifi".parse::<Family>().unwrap_err().to_string();
        assert!(error.starts_with("no family is called `wifi`: the families are plain, bursts"));
    }
}
