//! What a simulated network is made of, by number.

use forebay_units::Nanos;

use crate::pattern::PatternError;

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

impl RouteId {
    /// Its place in the order in which routes were added.
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
    /// added one after the other from `first` on, each with its own rate, delay and queue.
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
    /// The steps in their order; at least one, at most 255, and none twice.
    pub hops: Vec<Hop>,
    /// What records call packets on this route.
    pub source: u8,
    /// Their class at sendboxes, 0 being the most urgent.
    pub class: u8,
}

impl Route {
    /// Whether it leads somewhere, through what is there: `links` and `bundles` in all.
    pub(crate) fn check(&self, links: usize, bundles: usize) -> Result<(), SetupError> {
        let exists = |hop: &Hop| match hop {
            Hop::Link(_) | Hop::AnyOf { .. } => !hop.links().is_empty() && hop.links().end <= links,
            Hop::Sendbox(bundle) | Hop::Receivebox(bundle) => bundle.index() < bundles,
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
    /// The links that it may go through.
    fn links(&self) -> std::ops::Range<usize> {
        match *self {
            Self::Link(link) => link.index()..link.index() + 1,
            Self::AnyOf { first, count, .. } => first.index()..first.index() + usize::from(count),
            Self::Sendbox(_) | Self::Receivebox(_) => 0..0,
        }
    }
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
    /// A parameter that is impossible, or so far out that it must be a mistake.
    #[error("{what} must be {must}")]
    Range {
        /// Of what.
        what: &'static str,
        /// What is allowed.
        must: &'static str,
    },
    /// Packets would have to wait nowhere.
    #[error("a link of limited capacity needs a queue")]
    NoQueue,
    /// A route that leads nowhere.
    #[error("a route needs a hop: packets cannot arrive where they set out")]
    NoHops,
    /// A route that comes back to where it was.
    #[error(
        "hop {hop} of a route is on it a second time, or is a sendbox after its own receivebox: \
         routes have no loops"
    )]
    Loop {
        /// Which hop, from zero.
        hop: usize,
    },
    /// A bundle's own messages would be its traffic.
    #[error("a bundle's messages cannot go through its own boxes: give them a route of their own")]
    OwnMessages,
    /// A path or a bundle names a route that is not there.
    #[error("route {0} was not added")]
    Route(usize),
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
    /// Traffic that would send nothing, all at once, or impossible datagrams.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Traffic whose end is not after its start.
    #[error("traffic must stop after it starts")]
    Stops,
    /// A request is asked on a connection that is not there, before its predecessor, or for nothing.
    #[error(
        "request {0} of a schedule is out of order, its connection does not exist, or its answer is \
         empty"
    )]
    Schedule(usize),
    /// Traffic says of ECN what its senders may not or cannot.
    #[error(
        "what a traffic says of ECN: ECT(1) is for scalable congestion controls, which cannot do \
         without ECN (Prague not without ECT(1)), and no traffic begins as CE"
    )]
    Ecn,
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
