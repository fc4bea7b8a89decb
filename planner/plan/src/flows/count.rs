//! Counts what is not in the sums, by reason.

use serde::Serialize;

/// Why something is not in the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The message is of a sender that is not in the table of exporters.
    Exporter,
    /// The message has an unsupported version.
    Version,
    /// The message or set breaks the rules of its protocol.
    Malformed,
    /// The message is of a domain beyond the limit.
    Domain,
    /// The template of the set never came, or there was no room for the set to wait.
    Template,
    /// The flow came in at an interface of no provider.
    Interface,
    /// The flow came in at an interface of several providers, and its source is of none that has an
    /// entry there.
    Source,
    /// The destination of the flow is in no prefix.
    Prefix,
    /// The flow was counted as it left the router.
    Leaving,
    /// The flow has no octets or no destination.
    Incomplete,
    /// The times of the flow are impossible.
    Times,
    /// The flow, or part of it, was before or after the window.
    Window,
    /// There is no room for another sum.
    Full,
    /// The sampled packet is not IP, or behind headers that are not read (sFlow).
    NotIp,
    /// The sample has no packet: it has counters, or is of an unknown kind (sFlow).
    Packetless,
    /// The exporter dropped the sample itself (sFlow).
    Dropped,
}

impl Reason {
    /// All reasons, in the order of their counts.
    pub const ALL: [Self; 16] = [
        Self::Exporter,
        Self::Version,
        Self::Malformed,
        Self::Domain,
        Self::Template,
        Self::Interface,
        Self::Source,
        Self::Prefix,
        Self::Leaving,
        Self::Incomplete,
        Self::Times,
        Self::Window,
        Self::Full,
        Self::NotIp,
        Self::Packetless,
        Self::Dropped,
    ];

    /// Returns the name of the reason in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exporter => "exporter",
            Self::Version => "version",
            Self::Malformed => "malformed",
            Self::Domain => "domain",
            Self::Template => "template",
            Self::Interface => "interface",
            Self::Source => "source",
            Self::Prefix => "prefix",
            Self::Leaving => "leaving",
            Self::Incomplete => "incomplete",
            Self::Times => "times",
            Self::Window => "window",
            Self::Full => "full",
            Self::NotIp => "not_ip",
            Self::Packetless => "packetless",
            Self::Dropped => "dropped",
        }
    }

    /// Returns a description of the reason, with what to do about it.
    pub fn description(self) -> &'static str {
        match self {
            Self::Exporter => "messages of exporters that are not in the table: add them",
            Self::Version => "messages that are not IPFIX, NetFlow v9 or v5, or sFlow v5",
            Self::Malformed => "messages, sets and samples that cannot be read",
            Self::Domain => "messages of observation domains beyond the limit",
            Self::Template => "sets whose template has not come",
            Self::Interface => "flows that came in at an interface of no provider",
            Self::Source => "flows at interfaces of several providers, from no provider's AS",
            Self::Prefix => "flows to addresses in no prefix",
            Self::Leaving => "flows counted as they left the router",
            Self::Incomplete => "flows without octets or a destination",
            Self::Times => "flows with impossible times",
            Self::Window => "flows outside the window, or in part",
            Self::Full => "flows beyond the limit of sums",
            Self::NotIp => "samples of packets that are not IP",
            Self::Packetless => "samples without a packet, such as counters",
            Self::Dropped => "samples that the exporter dropped itself",
        }
    }
}

/// A number of messages, sets, samples or flows, and the octets that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counted {
    /// The number of messages, sets or flows, by the reason.
    pub times: u64,
    /// The octets with sampling corrected, as far as they are known.
    pub octets: f64,
}

/// The counts of all reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts([Counted; Reason::ALL.len()]);

impl Counts {
    pub(crate) fn add(&mut self, reason: Reason, octets: f64) {
        let counted = &mut self.0[reason as usize];
        counted.times += 1;
        counted.octets += octets;
    }

    /// Adds this many, whose octets are unknown.
    pub(crate) fn add_times(&mut self, reason: Reason, times: u64) {
        self.0[reason as usize].times += times;
    }

    pub(crate) fn of(&self, reason: Reason) -> Counted {
        self.0[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_indexed_by_their_order() {
        let mut counts = Counts::default();
        for (reason, at) in Reason::ALL.into_iter().zip(0..) {
            assert_eq!(reason as usize, at);
            counts.add(reason, at as f64);
            let json = serde_json::to_string(&reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.name()));
        }
        assert_eq!(counts.of(Reason::Times), Counted { times: 1, octets: 10.0 });
    }
}
