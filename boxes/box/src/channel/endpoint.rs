//! The place of the other box: where its file says, or where its messages come from. It does no IO.

use std::net::{IpAddr, SocketAddr};

use forebay_units::Nanos;

/// The shortest time between two log lines about moves of one box. Somebody on the path can send on
/// its messages from another address each time.
const QUIET: Nanos = Nanos::from_secs(10);

/// The time for which messages from a place that a changed file has left move nothing. The other
/// box learns of the change by a message to its new address, and answers there from then on.
const SETTLING: Nanos = Nanos::from_secs(5);

/// The place of the other box of a bundle.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The address of the configuration; `None` if there is none, or its name has no address yet.
    configured: Option<SocketAddr>,
    /// The address to which messages go.
    current: Option<SocketAddr>,
    /// The place that a changed file has left, and until when it is not followed there.
    left: Option<(SocketAddr, Nanos)>,
    /// The number of times that the box was followed to another address.
    moves: u64,
    /// The time before which no further move is logged.
    quiet_until: Nanos,
}

/// A box has another address than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// The address before; `None` if none was known.
    pub(crate) from: Option<SocketAddr>,
    /// The address from now on.
    pub(crate) to: SocketAddr,
    /// Whether a line about it may be logged.
    pub(crate) is_said: bool,
}

impl Endpoint {
    /// Begins with the address of the configuration.
    pub(crate) fn new(configured: Option<SocketAddr>) -> Self {
        Self { configured, current: configured, left: None, moves: 0, quiet_until: Nanos::ZERO }
    }

    /// Begins with the address of a configuration that has changed. Messages that are still on the
    /// way from the former place do not lead back to it.
    pub(crate) fn changed(&self, now: Nanos, configured: Option<SocketAddr>) -> Self {
        let left = configured.and(self.current).map(|address| (address, now + SETTLING));
        Self { left, ..Self::new(configured) }
    }

    /// Begins with the address that another process has used, if it had the same configuration.
    pub(crate) fn resumed(configured: Option<SocketAddr>, current: Option<SocketAddr>) -> Self {
        let new = Self::new(configured);
        Self { current: current.or(new.current), ..new }
    }

    /// Returns the address to which messages go; `None` if it is not known.
    pub(crate) fn current(&self) -> Option<SocketAddr> {
        self.current
    }

    /// Returns the address of the configuration, if messages go to another one.
    pub(crate) fn elsewhere(&self) -> Option<SocketAddr> {
        self.configured.filter(|configured| self.current != Some(*configured))
    }

    /// Returns the number of times that the box was followed to another address.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Notes that a fresh message of the box came from `from`. A box is not followed to where no
    /// message can go, as somebody on the path may send its messages on from there.
    pub(crate) fn follow(&mut self, now: Nanos, from: SocketAddr) -> Option<Move> {
        let is_left = self.left.is_some_and(|(left, until)| left == from && now < until);
        if self.current == Some(from) || is_left || !can_be_answered(from) {
            return None;
        }
        let is_said = now >= self.quiet_until;
        if is_said {
            self.quiet_until = now + QUIET;
        }
        let before = self.current.replace(from);
        self.moves += u64::from(before.is_some());
        Some(Move { from: before, to: from, is_said })
    }

    /// Notes that the name of the configuration has the address `to`. A box that answers from
    /// elsewhere is not left for it.
    pub(crate) fn on_resolved(&mut self, to: SocketAddr, is_silent: bool) -> Option<Move> {
        let before = self.configured.replace(to);
        let leaves = is_silent || self.current.is_none() || self.current == before;
        if before == Some(to) || self.current == Some(to) || !leaves {
            return None;
        }
        Some(Move { from: self.current.replace(to), to, is_said: true })
    }
}

/// Whether a message can go to where another one came from.
fn can_be_answered(from: SocketAddr) -> bool {
    let ip = from.ip();
    let is_broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    from.port() != 0 && !(ip.is_unspecified() || ip.is_multicast() || is_broadcast)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_box_is_followed_to_another_port_host_and_ip_version() {
        let first = at("192.0.2.1:28316");
        let mut place = Endpoint::new(Some(first));
        assert_eq!((place.follow(SECOND, first), place.moves()), (None, 0));
        let mut before = first;
        let all = ["192.0.2.1:1024", "192.0.2.2:1024", "[2001:db8::1]:1024", "192.0.2.1:28316"];
        for (n, to) in (1..).zip(all.map(at)) {
            let moved = place.follow(SECOND * (20 * n), to).unwrap();
            assert_eq!(moved, Move { from: Some(before), to, is_said: true });
            assert_eq!((place.current(), place.moves()), (Some(to), n));
            assert_eq!(place.elsewhere(), Some(first).filter(|first| *first != to));
            before = to;
        }
    }

    #[test]
    fn a_box_is_not_followed_to_where_no_message_can_go() {
        let first = at("192.0.2.1:28316");
        let mut place = Endpoint::new(Some(first));
        for from in ["192.0.2.1:0", "0.0.0.0:9", "255.255.255.255:9", "224.0.0.1:9", "[ff02::1]:9"]
        {
            assert_eq!(place.follow(SECOND, at(from)), None, "{from}");
        }
        assert_eq!((place.current(), place.moves()), (Some(first), 0));
    }

    #[test]
    fn messages_from_before_a_change_of_the_file_do_not_lead_back() {
        let [old, new, third] =
            ["192.0.2.1:28316", "[2001:db8::1]:28316", "192.0.2.9:1024"].map(at);
        let mut place = Endpoint::new(Some(old)).changed(SECOND, Some(new));
        assert_eq!(place.current(), Some(new));
        assert_eq!(place.follow(SECOND * 6 - Nanos(1), old), None);
        assert_eq!(place.follow(SECOND * 6, old).map(|m| m.to), Some(old), "it is still there");
        // Other places are followed at once, and a file without an address leaves none.
        let mut place = Endpoint::new(Some(old)).changed(SECOND, Some(new));
        assert_eq!(place.follow(SECOND, third).map(|m| m.to), Some(third));
        let mut place = Endpoint::new(Some(old)).changed(SECOND, None);
        assert_eq!(place.follow(SECOND, old).map(|m| m.to), Some(old));
    }

    #[test]
    fn a_box_without_an_address_is_found_by_its_first_message() {
        let mut place = Endpoint::new(None);
        assert_eq!((place.current(), place.elsewhere()), (None, None));
        let to = at("[2001:db8::7]:9");
        let moved = place.follow(SECOND, to).unwrap();
        assert_eq!(moved, Move { from: None, to, is_said: true });
        assert_eq!((place.current(), place.moves(), place.elsewhere()), (Some(to), 0, None));
    }

    #[test]
    fn a_box_that_moves_all_the_time_is_followed_and_logged_now_and_then() {
        let mut place = Endpoint::new(Some(at("192.0.2.1:1")));
        let said = (1..=3000u64).filter(|n| {
            let to = SocketAddr::from(([198, 51, 100, 1], *n as u16));
            let moved = place.follow(Nanos::from_millis(10) * *n, to).unwrap();
            assert_eq!(place.current(), Some(to));
            moved.is_said
        });
        assert_eq!(said.count(), 3, "30 s");
        assert_eq!(place.moves(), 3000);
    }

    #[test]
    fn a_name_moves_a_silent_box_and_leaves_one_that_answers_elsewhere() {
        let [old, new, elsewhere] = ["192.0.2.1:1", "192.0.2.2:1", "203.0.113.5:777"].map(at);
        let moved = |from| Some(Move { from, to: new, is_said: true });
        let mut unknown = Endpoint::new(None);
        assert_eq!(unknown.on_resolved(new, false), moved(None));
        let mut there = Endpoint::new(Some(old));
        assert_eq!(there.on_resolved(old, true), None);
        assert_eq!(there.on_resolved(new, false), moved(Some(old)));
        let mut roamed = Endpoint::new(Some(old));
        roamed.follow(SECOND, elsewhere);
        assert_eq!(roamed.on_resolved(old, true), None, "the name has not moved");
        assert_eq!(roamed.on_resolved(new, false), None);
        assert_eq!((roamed.current(), roamed.elsewhere()), (Some(elsewhere), Some(new)));
        assert_eq!(roamed.on_resolved(old, true).map(|m| m.to), Some(old));
    }
}
