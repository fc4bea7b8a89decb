//! The parts of a simulated network: links, bundles, routes and paths.

use std::net::SocketAddr;

use forebay_units::Nanos;

use crate::pattern::PatternError;

/// The number of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u16);

/// The number of a bundle with its two boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundleId(pub(crate) u16);

/// The number of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteId(pub(crate) u16);

impl LinkId {
    /// The link that was added first.
    pub const FIRST: Self = Self(0);

    /// Returns its place in the order in which links were added.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl RouteId {
    /// Returns its place in the order in which routes were added.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl BundleId {
    /// Returns its place in the order in which bundles were added.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// A link that the packet crosses.
    Link(LinkId),
    /// One of several links, chosen by the flow's hash (equal-cost multipath). The `count` links
    /// from `first` on were added consecutively; each has its own rate, delay and queue.
    AnyOf {
        /// The first of the links.
        first: LinkId,
        /// The number of links.
        count: u16,
        /// Chooses a link for each packet instead of each flow.
        per_packet: bool,
    },
    /// The queue of a bundle at its sendbox.
    Sendbox(BundleId),
    /// The receivebox of a bundle, which counts the packet.
    Receivebox(BundleId),
    /// The way back through a bundle's sendbox, which only has to be alive.
    BackThrough(BundleId),
}

/// A route from one host to another, in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The hops in order; at least one, at most 255, and none twice.
    pub hops: Vec<Hop>,
    /// The number that records use for packets on this route.
    pub source: u8,
    /// The class of the packets at sendboxes; 0 is the most urgent.
    pub class: u8,
}

impl Route {
    /// Creates a route over one link.
    pub fn over(link: LinkId) -> Self {
        Self { hops: vec![Hop::Link(link)], ..Self::default() }
    }

    /// Returns whether a packet crosses a link.
    pub(crate) fn crosses_link(&self) -> bool {
        self.hops.iter().any(|hop| !hop.links().is_empty())
    }

    /// Checks that the route has hops, that all of them exist in a network of `links` links and
    /// `bundles` bundles, and that it has no loop.
    pub(crate) fn check(&self, links: usize, bundles: usize) -> Result<(), SetupError> {
        let exists = |hop: &Hop| match hop {
            Hop::Link(_) | Hop::AnyOf { .. } => !hop.links().is_empty() && hop.links().end <= links,
            Hop::Sendbox(bundle) | Hop::Receivebox(bundle) | Hop::BackThrough(bundle) => {
                bundle.index() < bundles
            }
        };
        let returns = |(n, hop): (usize, &Hop)| {
            self.hops[..n].iter().any(|before| match (before, hop) {
                (Hop::Sendbox(a), Hop::Sendbox(b))
                | (Hop::Receivebox(a), Hop::Sendbox(b) | Hop::Receivebox(b)) => a == b,
                _ => {
                    let (a, b) = (before.links(), hop.links());
                    a.start.max(b.start) < a.end.min(b.end)
                }
            })
        };
        if self.hops.is_empty() {
            return Err(SetupError::NoHops);
        }
        if self.hops.len() > usize::from(u8::MAX) {
            return Err(SetupError::TooMany("hops of a route"));
        }
        if let Some(hop) = self.hops.iter().position(|hop| !exists(hop)) {
            return Err(SetupError::Hop { hop });
        }
        match self.hops.iter().enumerate().position(returns) {
            Some(hop) => Err(SetupError::Loop { hop }),
            None => Ok(()),
        }
    }

    pub(crate) fn passes_boxes_of(&self, bundle: BundleId) -> bool {
        self.hops
            .iter()
            .any(|hop| matches!(hop, Hop::Sendbox(b) | Hop::Receivebox(b) if *b == bundle))
    }
}

impl Hop {
    /// Returns the links that the packet may cross.
    fn links(&self) -> std::ops::Range<usize> {
        match *self {
            Self::Link(link) => link.index()..link.index() + 1,
            Self::AnyOf { first, count, .. } => first.index()..first.index() + usize::from(count),
            Self::Sendbox(_) | Self::Receivebox(_) | Self::BackThrough(_) => 0..0,
        }
    }
}

/// The packet counters of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCounters {
    /// Packets sent on the route.
    pub sent: u64,
    /// Packets that reached its end.
    pub arrived: u64,
}

/// The reason why a network or its traffic is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetupError {
    /// A parameter is impossible or out of its plausible range.
    #[error("{what} must be {must}")]
    Range {
        /// The name of the parameter.
        what: &'static str,
        /// The values that are allowed.
        must: &'static str,
    },
    /// A link of limited capacity has no queue.
    #[error("a link of limited capacity needs a queue")]
    NoQueue,
    /// A route has no hops.
    #[error("a route needs at least one hop")]
    NoHops,
    /// A route has a loop.
    #[error(
        "hop {hop} of a route occurs twice, or is a sendbox after its own receivebox: remove the \
         loop"
    )]
    Loop {
        /// The index of the hop, from zero.
        hop: usize,
    },
    /// The messages of a bundle would pass through its own boxes.
    #[error("a bundle's messages cannot go through its own boxes: give them a separate route")]
    OwnMessages,
    /// A path or a bundle refers to a route that does not exist.
    #[error("route {0} was not added")]
    Route(usize),
    /// A route refers to a link or bundle that does not exist.
    #[error("hop {hop} of a route is a link or bundle that was not added before it")]
    Hop {
        /// The index of the hop, from zero.
        hop: usize,
    },
    /// A route between endpoints crosses no link.
    #[error("route {0} joins endpoints, so it must cross a link")]
    NoLink(usize),
    /// Two endpoints have the same address.
    #[error("another endpoint has the address {0}")]
    AddressInUse(SocketAddr),
    /// Two joined endpoints have addresses of different families.
    #[error("{first} and {second} cannot be joined: one is IPv4 and the other one IPv6")]
    Families {
        /// The address of the first endpoint.
        first: SocketAddr,
        /// The address of the second endpoint.
        second: SocketAddr,
    },
    /// Two endpoints are joined already, or are the same.
    #[error("{first} and {second} are joined already, or are the same endpoint")]
    Joined {
        /// The address of the first endpoint.
        first: SocketAddr,
        /// The address of the second endpoint.
        second: SocketAddr,
    },
    /// Two endpoints are not joined.
    #[error("{first} and {second} are not joined: join them first")]
    NotJoined {
        /// The address of the first endpoint.
        first: SocketAddr,
        /// The address of the second endpoint.
        second: SocketAddr,
    },
    /// The network has too many parts of a kind.
    #[error("too many {0}: add fewer")]
    TooMany(&'static str),
    /// The configuration of a bundle's control loop is refused.
    #[error("the control loop: {0}")]
    Control(forebay_control::ConfigError),
    /// A pattern of datagrams is refused.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Traffic stops before it starts.
    #[error("traffic must stop after it starts")]
    Stops,
    /// A scheduled request has no connection, is earlier than the one before, or has an empty
    /// answer.
    #[error(
        "request {0} of a schedule is out of order, its connection does not exist, or its answer is \
         empty"
    )]
    Schedule(usize),
    /// The ECN codepoint of a traffic does not fit its senders.
    #[error(
        "the ECN codepoint of a traffic: ECT(1) is for scalable congestion controls, which need ECN \
         (Prague needs ECT(1)), and no traffic is sent as CE"
    )]
    Ecn,
}

/// The two routes between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The route towards the receivers.
    pub forward: RouteId,
    /// The route back to the senders.
    pub backward: RouteId,
    /// The round-trip time that the handshake measured before the simulation began.
    pub rtt: Nanos,
}
