//! Hints: where a neighbour should hand over the traffic to which prefixes (Unison, section 3.3).
//!
//! A plan gives the part of an aggregate that should come in at each entry. [`hints`] turns a plan
//! into hints: it assigns each prefix to one entry, and leaves out changes that gain too little,
//! since a change of routing has a cost of its own. Hints in force stay until a change gains as
//! much as a new hint must, or until nothing is lost without them. The two thresholds differ, so
//! that a hint does not come and go. [`bgp`] and [`alto`] convert hints to BGP announcements and
//! ALTO maps.

pub mod alto;
pub mod announce;
pub mod bgp;
mod choose;
mod divide;
mod in_force;
mod outcome;
mod profile;
mod setting;
mod steering;
mod text;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use choose::{followed, hints};
pub use in_force::read;
pub use outcome::outcome;
pub use profile::{Accepts, Community, Method, Profile};
pub use setting::{Config, Setting};

/// The version of the format of [`Hints`]; it grows when a field changes its meaning or is removed.
pub const VERSION: u32 = 1;

/// All hints of a network, as the operator sees and keeps them. Rates are in bits per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hints {
    /// The version of the format, [`VERSION`].
    pub version: u32,
    /// The name of the network.
    pub network: String,
    /// The demand of all aggregates together.
    pub demand: f64,
    /// The traffic that the network would carry if the hints in force before are followed, and no
    /// others.
    pub before: f64,
    /// The traffic that the network would carry if these hints are followed.
    pub after: f64,
    /// The neighbours that have hints, had hints, or cannot receive any.
    pub neighbours: Vec<Neighbour>,
}

impl Default for Hints {
    /// Returns hints for no neighbour.
    fn default() -> Self {
        Self {
            version: VERSION,
            network: String::new(),
            demand: 0.0,
            before: 0.0,
            after: 0.0,
            neighbours: Vec::new(),
        }
    }
}

/// The hints of one neighbour, as the operator sees them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The name of the neighbour.
    pub name: String,
    /// The traffic that would be lost without its hints while all others stay, in bits per second.
    pub gain: f64,
    /// The part, from 0 to 1, of the traffic with hints in force that comes in where they say.
    #[serde(default)]
    pub followed: Option<f64>,
    /// The hints of the neighbour, by prefix.
    pub hints: Vec<Hint>,
    /// The hints that were in force and are withdrawn.
    #[serde(default)]
    pub withdrawn: Vec<Hint>,
    /// Why the neighbour has no more hints than these, for the operator.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The entry where the traffic to a prefix should come in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// The prefix that the hint is about.
    pub prefix: IpNet,
    /// The prefix that the ISP announces without hints; `prefix` is equal to it or a part of it.
    pub of: IpNet,
    /// The router of the entry.
    pub entry: String,
    /// The boundary router in front of the users.
    pub router: String,
    /// The entries where traffic to that router came in before there were hints for it.
    pub before: Vec<Part>,
    /// The demand to the prefix, as far as it is known, in bits per second.
    pub demand: f64,
    /// The BGP attribute that carries the hint; `None` if only the service can deliver it.
    pub method: Option<Method>,
    /// How the hint relates to the hint that was in force before.
    pub state: State,
}

/// The part of an aggregate's traffic that comes in at one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The router of the entry.
    pub entry: String,
    /// The part of the traffic, from 0 to 1.
    pub part: f64,
}

/// How a hint relates to the hint that was in force before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There was no hint for this prefix.
    New,
    /// The hint in force named another entry.
    Moved,
    /// The same hint was in force.
    Kept,
}

/// The hints of one neighbour in the form that the neighbour may see: with its entries and
/// prefixes, and without anything of the network behind them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedHints {
    /// The version of the format, [`VERSION`].
    pub version: u32,
    /// The name of the neighbour.
    pub neighbour: String,
    /// The hints of the neighbour.
    pub hints: Vec<PublishedHint>,
}

/// A hint in the form that the neighbour may see.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedHint {
    /// The prefix that the hint is about.
    pub prefix: IpNet,
    /// The entry where traffic to the prefix should come in.
    pub entry: String,
    /// How the hint relates to the hint that was in force before.
    pub state: State,
}

impl Neighbour {
    /// Returns a neighbour without hints.
    pub fn none(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            gain: 0.0,
            followed: None,
            hints: Vec::new(),
            withdrawn: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Returns what the neighbour may see of its hints.
    pub fn published(&self) -> PublishedHints {
        let hint =
            |h: &Hint| PublishedHint { prefix: h.prefix, entry: h.entry.clone(), state: h.state };
        PublishedHints {
            version: VERSION,
            neighbour: self.name.clone(),
            hints: self.hints.iter().map(hint).collect(),
        }
    }
}

impl Hints {
    /// Returns the neighbour with this name, if it has hints.
    pub fn of(&self, name: &str) -> Option<&Neighbour> {
        self.neighbours.iter().find(|n| n.name == name)
    }

    /// Whether any hint is new, moved or withdrawn.
    pub fn changes(&self) -> bool {
        self.neighbours
            .iter()
            .any(|n| !n.withdrawn.is_empty() || n.hints.iter().any(|h| h.state != State::Kept))
    }

    /// Returns the gain of the hints, relative to what is carried without changes.
    pub fn gain(&self) -> f64 {
        if self.before > 0.0 { self.after / self.before - 1.0 } else { 0.0 }
    }
}
