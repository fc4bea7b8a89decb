//! Checks of the path between the boxes: MTU, routes, the other box's answer, address translation.

use std::net::{IpAddr, SocketAddr};

use crate::doctor::facts::{Interface, Peer, PeerRoute, Plan, Reply};
use crate::doctor::report::{Check, Role};

const AREA: &str = "between the boxes";

pub(super) fn checks(plan: &Plan, interfaces: &[Interface]) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.extend(wire(plan, interfaces));
    for peer in &plan.peers {
        checks.extend(strays(plan, peer));
        let Some(address) = peer.address else {
            let what = format!("{}: the other box", peer.bundle);
            checks.push(Check::new(AREA, what, "its messages tell its address").note(
                "nothing is sent to it before it sends: its file must have this box's address",
            ));
            continue;
        };
        checks.push(route(plan, peer, address, interfaces));
        checks.extend(peer.reply.as_ref().map(|r| reply(peer, address, r)));
        checks.push(translation(peer, address));
    }
    checks
}

/// Checks that frames of each interface fit the other one: a sendbox in user space is a wire.
fn wire(plan: &Plan, interfaces: &[Interface]) -> Option<Check> {
    if plan.role != Role::SendboxUser {
        return None;
    }
    let named = |i: usize| {
        plan.interfaces.get(i).and_then(|name| interfaces.iter().find(|i| i.name == *name))
    };
    let (outer, inner) = (named(0)?, named(1)?);
    let what = format!("{} to {}", inner.name, outer.name);
    let found = format!("MTU {} and {}", inner.mtu, outer.mtu);
    let check = Check::new(AREA, what, found);
    Some(if inner.mtu == outer.mtu {
        check
    } else {
        check.stops(
            &[Role::SendboxUser],
            "the sendbox is a wire and tells nobody that a packet is too large: give both one MTU",
        )
    })
}

fn route(plan: &Plan, peer: &Peer, address: SocketAddr, interfaces: &[Interface]) -> Check {
    let what = format!("{}: to {address}", peer.bundle);
    let route = match &peer.route {
        Ok(route) => route,
        Err(why) => {
            return Check::new(AREA, what, why)
                .stops(&[plan.role], "the other box cannot be told anything: add a route");
        }
    };
    let check = Check::new(AREA, what, format!("by {}, MTU {}", route.device, route.mtu));
    let outer = plan.interfaces.first().and_then(|o| interfaces.iter().find(|i| i.name == *o));
    match outer {
        Some(outer) if route.mtu < outer.mtu => check.note(format!(
            "the route to the other box has an MTU below {}, of {}: full packets are fragmented or dropped on \
             it, as in a tunnel. Lower the MTU where the site's packets come in, or clamp their MSS",
            outer.mtu, outer.name
        )),
        _ => check,
    }
}

fn strays(plan: &Plan, peer: &Peer) -> Option<Check> {
    // A bridge has no routes for the packets that it forwards.
    if plan.role != Role::SendboxKernel || peer.strays.is_empty() {
        return None;
    }
    let all: Vec<String> =
        peer.strays.iter().map(|(prefix, device)| format!("{prefix} by {device}")).collect();
    let check = Check::new(AREA, format!("{}: routes", peer.bundle), all.join(", "));
    Some(check.note(
        "what leaves by another interface than sendbox.outside is not in the bundle's queue; nothing to \
         do if this machine bridges, or those routes are meant",
    ))
}

fn reply(peer: &Peer, address: SocketAddr, reply: &Reply) -> Check {
    let what = format!("{}: the receivebox", peer.bundle);
    match reply {
        Reply::Answered { after, from } if *from == address => {
            Check::new(AREA, what, format!("answered after {after}, with the right key"))
        }
        Reply::Answered { from, .. } => {
            Check::new(AREA, what, format!("answered from {from}, with the right key"))
                .note(format!("not from {address}: its address is translated on the way back"))
        }
        Reply::Refused(why) => Check::new(AREA, what, why)
            .stops(&[Role::SendboxUser, Role::SendboxKernel], "bring the same key file to both boxes"),
        Reply::Undelivered(why) => Check::new(AREA, what, format!("not there: {why}")).note(
            "the bundle stays open until it answers: is that its address and port, and does it run?",
        ),
        Reply::Silent => Check::new(AREA, what, "no answer").note(
            "the bundle stays open until it answers: does it run, do firewalls let UDP pass both ways, is \
             its bundle's `sendbox` this machine's address?",
        ),
        Reply::Running(mode) => {
            Check::new(AREA, what, format!("answers the sendbox that runs here ({mode})"))
        }
        Reply::Trouble(trouble) => {
            Check::new(AREA, what, trouble).note("a sendbox runs here, and says this")
        }
        Reply::NotAsked(why) => Check::new(AREA, what, format!("not asked: {why}")).note(
            "a running sendbox asks it; see its log for the answer",
        ),
    }
}

/// Checks for address translation as far as possible: the protocol does not report the addresses
/// that the other box sees.
fn translation(peer: &Peer, address: SocketAddr) -> Check {
    let what = format!("{}: address translation", peer.bundle);
    let unknown = "it is not known whether packets keep their addresses and IP IDs on the path: with a NAT between \
                   the boxes, no boundary packet is recognised and the bundle stays open";
    let ours = match &peer.route {
        Ok(PeerRoute { source: Some(source), .. }) => *source,
        _ => return Check::new(AREA, what, "unknown").note(unknown),
    };
    let theirs = address.ip();
    if is_private(ours) && !is_private(theirs) {
        return Check::new(AREA, what, format!("likely: {ours} is private, {theirs} is not")).note(
            "a translation above this machine's queues does no harm; after a translation between the \
             boxes no boundary packet is recognised, and the bundle stays open. Put the sendbox behind the NAT, on its public side, \
             or a tunnel between the boxes",
        );
    }
    let kind = if is_private(ours) { "private" } else { "public" };
    let found = format!("no sign: {ours} and {theirs} are both {kind}");
    match (is_private(ours), is_private(theirs)) {
        (false, true) => {
            Check::new(AREA, what, format!("likely: {theirs} is private, {ours} is not"))
                .note(unknown)
        }
        _ => Check::new(AREA, what, found).note(unknown),
    }
}

/// Whether the internet does not route an address: RFC 1918, RFC 6598, RFC 3927, RFC 4193, and
/// link-local addresses.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            let [first, second, ..] = a.octets();
            let shared = first == 100 && second & 0xc0 == 64;
            a.is_private() || a.is_link_local() || a.is_loopback() || shared
        }
        IpAddr::V6(a) => a.is_loopback() || a.is_unique_local() || a.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_those_of_their_rfcs() {
        let of = |text: &str| is_private(text.parse().unwrap());
        for private in ["10.0.0.1", "172.31.0.1", "192.168.9.9", "100.64.0.1", "100.127.0.1"] {
            assert!(of(private), "{private}");
        }
        for private in ["169.254.1.1", "fd00::1", "fe80::1", "::1"] {
            assert!(of(private), "{private}");
        }
        for public in ["100.63.0.1", "100.128.0.1", "172.32.0.1", "8.8.8.8", "2001:db8::1"] {
            assert!(!of(public), "{public}");
        }
    }
}
