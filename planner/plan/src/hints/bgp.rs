//! Hints as BGP announcements, for each session with a neighbour.
//!
//! The ISP announces its prefixes at all entries already. A hint changes the attributes of a
//! prefix, or adds more specific prefixes. Only entries with a session (`peer`) get announcements.

use std::fmt::Write;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::hints::{Community, Hint, Hints, Method, Neighbour, Profile};
use crate::network::Network;

/// The MEDs at the hinted entry and at the others; the lower one is preferred (RFC 4271, section
/// 9.1.2.2 c). A neighbour's own rules may add to a MED, so the two are far apart.
pub const MED: (u32, u32) = (0, 100);
/// The number of times that the ISP's AS number is added to the path at entries that are not
/// hinted.
pub const PREPENDS: u8 = 3;

/// An announcement of one prefix in one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The name of the neighbour.
    pub neighbour: String,
    /// The neighbour's address in the session.
    pub peer: IpAddr,
    /// The ISP's router that has the session.
    pub entry: String,
    /// The address at which that router's BGP speaker takes commands, if it is known.
    pub speaker: Option<String>,
    /// The prefix that is announced.
    pub prefix: IpNet,
    /// The next hop; `None` means the speaker itself.
    #[serde(default)]
    pub next_hop: Option<IpAddr>,
    /// The multi-exit discriminator, if one is set.
    pub med: Option<u32>,
    /// The number of times that the ISP's own AS number is added to the path.
    pub prepends: u8,
    /// The ISP's AS number, where `prepends` needs it.
    pub asn: Option<u32>,
    /// The community as text, if one is set.
    pub community: Option<String>,
    /// The local preference, if one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_preference: Option<u32>,
}

/// Returns all announcements for `hints`, by neighbour, prefix and entry.
pub fn announcements(
    hints: &Hints,
    network: &Network,
    profiles: &[Profile],
    asn: Option<u32>,
) -> Vec<Announcement> {
    let mut out = Vec::new();
    for neighbour in &hints.neighbours {
        let number = network.providers.iter().position(|p| p.name == neighbour.name);
        let Some(number) = number else { continue };
        for hint in &neighbour.hints {
            out.extend(of_hint(neighbour, hint, network, &profiles[number], number, asn));
        }
    }
    out
}

fn of_hint(
    neighbour: &Neighbour,
    hint: &Hint,
    network: &Network,
    profile: &Profile,
    number: usize,
    asn: Option<u32>,
) -> Vec<Announcement> {
    let Some(method) = hint.method else { return Vec::new() };
    let prefixes: Vec<IpNet> = match hint.prefix.subnets(hint.prefix.prefix_len() + 1) {
        Ok(halves) if method == Method::MoreSpecific && hint.prefix == hint.of => halves.collect(),
        _ => vec![hint.prefix],
    };
    let mut out = Vec::new();
    let entries = network.providers[number].entries.iter().enumerate();
    for (at, entry) in entries {
        let Some(peer) = profile.peers.get(at).copied().flatten() else { continue };
        let router = &network.topology.routers()[entry.router.index()].name;
        let here = *router == hint.entry;
        let community = |(prefer, avoid): (Community, Community)| {
            (if here { prefer } else { avoid }).to_string()
        };
        if method == Method::MoreSpecific && !here {
            continue;
        }
        let is = |wanted| method == wanted;
        out.extend(prefixes.iter().map(|prefix| Announcement {
            neighbour: neighbour.name.clone(),
            peer,
            entry: router.clone(),
            speaker: profile.speakers.get(at).cloned().flatten(),
            prefix: *prefix,
            next_hop: profile.next_hop(at, prefix),
            med: is(Method::Med).then_some(if here { MED.0 } else { MED.1 }),
            prepends: if is(Method::Prepend) && !here { PREPENDS } else { 0 },
            asn: if is(Method::Prepend) { asn } else { None },
            community: profile.accepts.communities.filter(|_| is(Method::Community)).map(community),
            local_preference: None,
        }));
    }
    out
}

/// Formats announcements as lines for ExaBGP's text interface, which a process of ExaBGP's writes
/// to it.
pub fn exabgp(announcements: &[Announcement], withdraw: bool) -> String {
    let mut text = String::new();
    for a in announcements {
        let verb = if withdraw { "withdraw" } else { "announce" };
        let hop = a.next_hop.map_or("self".to_owned(), |hop| hop.to_string());
        let mut line = format!("neighbor {} {verb} route {} next-hop {hop}", a.peer, a.prefix);
        // Writing to a string cannot fail.
        if let Some(med) = a.med {
            let _ = write!(line, " med {med}");
        }
        if let (1.., Some(asn)) = (a.prepends, a.asn) {
            let path = vec![asn.to_string(); usize::from(a.prepends)].join(" ");
            let _ = write!(line, " as-path [ {path} ]");
        }
        if let Some(community) = &a.community {
            let kind =
                if community.matches(':').count() == 2 { "large-community" } else { "community" };
            let _ = write!(line, " {kind} [ {community} ]");
        }
        text += &line;
        text.push('\n');
    }
    text
}
