//! What a simulated network is made of, by number.

use forebay_units::Nanos;

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u16);

/// A bundle and its two boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundleId(pub(crate) u16);

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteId(pub(crate) u16);

impl LinkId {
    /// Its place in the order in which links were added.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl BundleId {
    /// Its place in the order in which bundles were added.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One step of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Through a link.
    Link(LinkId),
    /// Through one of several links, by the flow's hash (equal-cost multipath): of `count` links
    /// added one after the other from `first` on. What goes through none is misrouted by nobody:
    /// the count is at least one.
    AnyOf {
        /// The first of them.
        first: LinkId,
        /// How many there are.
        count: u16,
        /// Chooses anew for each packet instead of each flow.
        per_packet: bool,
    },
    /// Into a bundle's queue at its sendbox.
    Sendbox(BundleId),
    /// Past a bundle's receivebox, which counts it.
    Receivebox(BundleId),
}

/// The way from one host to another, and back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The steps in their order; at most 255.
    pub hops: Vec<Hop>,
    /// What records call packets on this route.
    pub source: u8,
}

/// Packets on a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCounters {
    /// That set out.
    pub sent: u64,
    /// That reached its end.
    pub arrived: u64,
}

/// Why a network or its traffic is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetupError {
    /// A link would never let a packet through.
    #[error("a link needs a rate above zero, and a queue unless its capacity is unlimited")]
    Link,
    /// A route leads through something that is not there.
    #[error("hop {hop} of a route leads through a link or bundle that was not added before it")]
    Hop {
        /// Which hop, from zero.
        hop: usize,
    },
    /// More of something than there are numbers for.
    #[error("{0}: add fewer")]
    TooMany(&'static str),
    /// A bundle's control loop does not take its configuration.
    #[error("the control loop: {0}")]
    Control(forebay_control::ConfigError),
    /// Traffic that never ends an instant.
    #[error("traffic at a rate of zero, or of empty datagrams: give it a rate and a size")]
    Nothing,
    /// A request is asked on a connection that is not there, or before its predecessor.
    #[error("request {0} of a schedule is out of order, or its connection does not exist")]
    Schedule(usize),
}

/// Both ways between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Towards the receivers.
    pub forward: RouteId,
    /// Back.
    pub backward: RouteId,
    /// The round-trip time that a handshake took before the simulation began.
    pub rtt: Nanos,
}
