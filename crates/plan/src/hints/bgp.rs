//! Hints as BGP announcements: for each session with a neighbour, what is said there.
//!
//! The ISP announces its prefixes at all entries already. A hint changes what is said of a prefix, or adds parts of it.
//! Only entries with a session (`peer`) are spoken to.

use std::fmt::Write;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::hints::{Community, Hint, Hints, Method, Neighbour, Profile};
use crate::network::Network;

/// The MED at the entry that is hinted, and at the others: less is preferred (RFC 4271, section 9.1.2.2 c). A
/// neighbour's own rules may add to it, so they are far apart.
pub const MED: (u32, u32) = (0, 100);
/// How often the ISP's number stands in the path of the others, beside once as always.
pub const PREPENDS: u8 = 3;

/// An announcement in one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announcement {
    /// The neighbour's name.
    pub neighbour: String,
    /// Its address in the session.
    pub peer: IpAddr,
    /// The router of ours that has the session.
    pub entry: String,
    /// Where that router takes commands, if that is known.
    pub speaker: Option<String>,
    /// The prefix.
    pub prefix: IpNet,
    /// Where traffic should be sent; `None` is to the speaker itself.
    #[serde(default)]
    pub next_hop: Option<IpAddr>,
    /// The MED, if one is set.
    pub med: Option<u32>,
    /// How often the ISP's own number is put before the path.
    pub prepends: u8,
    /// The ISP's number, where `prepends` needs it.
    pub asn: Option<u32>,
    /// A community, as text.
    pub community: Option<String>,
}

/// All announcements that `hints` ask for, by neighbour, prefix and entry.
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
        }));
    }
    out
}

/// Announcements as lines for ExaBGP's text interface, to be written to it by a process of its own.
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
