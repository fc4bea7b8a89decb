//! From a packet's headers to its class.

use std::net::IpAddr;

use forebay_wire::Headers;

use crate::config::{Match, Policy};

/// What the classes of a policy match, the last (which takes the rest) left out.
#[derive(Debug)]
pub(crate) struct Classes(Vec<Match>);

impl Classes {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self(policy.matches().cloned().collect())
    }

    /// The first class that fits.
    pub(crate) fn find(&self, headers: &Headers) -> u8 {
        // At most 256, as a policy has.
        self.0.iter().position(|m| fits(m, headers)).map_or(self.rest(), |class| class as u8)
    }

    /// The class of what has no headers to go by.
    pub(crate) fn rest(&self) -> u8 {
        self.0.len() as u8
    }
}

/// Every list that is not empty must have something that fits.
fn fits(m: &Match, headers: &Headers) -> bool {
    let port = |p: u16| headers.ports.is_some_and(|q| q.source == p || q.destination == p);
    let within = |a: IpAddr| m.prefixes.iter().any(|p| p.contains(&a));
    (m.dscp.is_empty() || m.dscp.contains(&headers.dscp))
        && (m.ports.is_empty() || m.ports.iter().any(|p| port(*p)))
        && (m.prefixes.is_empty() || within(headers.source) || within(headers.destination))
}
