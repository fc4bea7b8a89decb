//! What did not come into the sums, by reason.

use serde::Serialize;

/// Why something is not in the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A message of somebody who is not in the table of exporters.
    Exporter,
    /// A message of another version, or of none.
    Version,
    /// A message or a set that breaks its protocol's rules.
    Malformed,
    /// A message of a domain that is one too many.
    Domain,
    /// A set whose template never came, or that there was no room to wait for it.
    Template,
    /// A flow that came in at an interface that is no provider's.
    Interface,
    /// A flow to an address that no prefix has.
    Prefix,
    /// A flow that was seen as it left.
    Leaving,
    /// A flow without octets, or without a destination.
    Incomplete,
    /// A flow at times that cannot be.
    Times,
    /// What was of a flow before the window, or after it.
    Window,
    /// A flow that there is no room for.
    Full,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Exporter,
        Self::Version,
        Self::Malformed,
        Self::Domain,
        Self::Template,
        Self::Interface,
        Self::Prefix,
        Self::Leaving,
        Self::Incomplete,
        Self::Times,
        Self::Window,
        Self::Full,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exporter => "exporter",
            Self::Version => "version",
            Self::Malformed => "malformed",
            Self::Domain => "domain",
            Self::Template => "template",
            Self::Interface => "interface",
            Self::Prefix => "prefix",
            Self::Leaving => "leaving",
            Self::Incomplete => "incomplete",
            Self::Times => "times",
            Self::Window => "window",
            Self::Full => "full",
        }
    }

    /// What it is, and what may be done.
    pub fn words(self) -> &'static str {
        match self {
            Self::Exporter => "messages of an exporter that is not in the table: add it",
            Self::Version => "messages that are neither NetFlow v9 nor IPFIX",
            Self::Malformed => "messages and sets that cannot be read",
            Self::Domain => "messages of an observation domain that is one too many",
            Self::Template => "sets whose template has not come",
            Self::Interface => "flows that came in at an interface that is no provider's",
            Self::Prefix => "flows to an address that is in no prefix",
            Self::Leaving => "flows that were seen as they left the router",
            Self::Incomplete => "flows without octets or a destination",
            Self::Times => "flows at times that cannot be",
            Self::Window => "flows that were outside the window, or in part",
            Self::Full => "flows that there was no room for",
        }
    }
}

/// How many things, and how many octets they stand for, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    /// Messages, sets, or flows, by the reason.
    pub times: u64,
    /// With sampling corrected.
    pub octets: f64,
}

/// All reasons' counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts([Counted; Reason::ALL.len()]);

impl Counts {
    pub(crate) fn add(&mut self, reason: Reason, octets: f64) {
        let counted = &mut self.0[reason as usize];
        counted.times += 1;
        counted.octets += octets;
    }

    pub(crate) fn of(&self, reason: Reason) -> Counted {
        self.0[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_place() {
        let mut counts = Counts::default();
        for (reason, at) in Reason::ALL.into_iter().zip(0..) {
            assert_eq!(reason as usize, at);
            counts.add(reason, at as f64);
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.name()));
        }
        assert_eq!(counts.of(Reason::Times), Counted { times: 1, octets: 9.0 });
    }
}
