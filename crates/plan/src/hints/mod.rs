//! Hints: where a neighbour should hand over the traffic to which prefixes (section 3.3).
//!
//! A plan says how much of an aggregate should come in where. [`hints`] makes hints of it: it gives each prefix to one
//! entry, and leaves out what does not gain enough, since changes of routing cost something too. Hints that are in force
//! stay until something better by as much is found, or nothing is lost without them: the two thresholds are apart, so
//! that a hint does not come and go. [`bgp`] and [`alto`] say the same in the words of others.

pub mod alto;
pub mod bgp;
mod choose;
mod divide;
mod last;
mod outcome;
mod profile;
pub mod speak;
mod steering;
mod text;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use choose::{Config, Setting, followed, hints};
pub use last::read;
pub use outcome::outcome;
pub use profile::{Accepts, Community, Method, Profile};

/// The version of the form of [`Hints`]; it grows when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// All hints, as the operator sees and keeps them. Rates are in bits per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hints {
    /// [`VERSION`].
    pub version: u32,
    /// The network's name.
    pub network: String,
    /// What is asked for in all.
    pub demand: f64,
    /// What the network would carry if all hints that were in force before are followed, and no other.
    pub before: f64,
    /// What it would carry if these are followed.
    pub after: f64,
    /// The neighbours that have hints, had some, or could not be told any.
    pub neighbours: Vec<Neighbour>,
}

impl Default for Hints {
    /// None.
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

/// The hints of one neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its name.
    pub name: String,
    /// What would not be carried without its hints, the others' being as they are.
    pub gain: f64,
    /// How much of the traffic that hints in force are about comes in where they say, from 0 to 1.
    #[serde(default)]
    pub followed: Option<f64>,
    /// Its hints, by prefix.
    pub hints: Vec<Hint>,
    /// What was in force, and is no more.
    #[serde(default)]
    pub withdrawn: Vec<Hint>,
    /// Why there are no more hints, in words.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Where the traffic to a prefix should come in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hint {
    /// The prefix.
    pub prefix: IpNet,
    /// The prefix that the ISP announces anyway, which this one is, or is a part of.
    pub of: IpNet,
    /// The router of the entry.
    pub entry: String,
    /// The boundary router before the users.
    pub router: String,
    /// Where traffic to that router came in before there were hints for it.
    pub before: Vec<Part>,
    /// What is asked for, as far as it is known.
    pub demand: f64,
    /// How it is told by BGP; `None` if only the service can tell it.
    pub method: Option<Method>,
    /// Whether it is new.
    pub state: State,
}

/// A part of an aggregate's traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The entry's router.
    pub entry: String,
    /// From 0 to 1.
    pub part: f64,
}

/// What became of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// There was none for this prefix.
    New,
    /// It named another entry.
    Moved,
    /// It was in force.
    Kept,
}

/// The hints of one neighbour as that neighbour sees them: entries and prefixes, which it knows, and nothing of the
/// network inside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// [`VERSION`].
    pub version: u32,
    /// The neighbour.
    pub neighbour: String,
    /// Its hints.
    pub hints: Vec<ToldHint>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToldHint {
    /// The prefix.
    pub prefix: IpNet,
    /// The entry where traffic to it should come in.
    pub entry: String,
    /// Whether it is new.
    pub state: State,
}

impl Neighbour {
    /// One without hints.
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

    /// What it may see of this.
    pub fn told(&self) -> Told {
        let hint = |h: &Hint| ToldHint { prefix: h.prefix, entry: h.entry.clone(), state: h.state };
        Told {
            version: VERSION,
            neighbour: self.name.clone(),
            hints: self.hints.iter().map(hint).collect(),
        }
    }
}

impl Hints {
    /// The neighbour of that name, if it has hints.
    pub fn of(&self, name: &str) -> Option<&Neighbour> {
        self.neighbours.iter().find(|n| n.name == name)
    }

    /// Whether anything is other than it was: a hint that is new, moved or withdrawn.
    pub fn changes(&self) -> bool {
        self.neighbours
            .iter()
            .any(|n| !n.withdrawn.is_empty() || n.hints.iter().any(|h| h.state != State::Kept))
    }

    /// By how much more is carried, as a part of what is carried without changes.
    pub fn gain(&self) -> f64 {
        if self.before > 0.0 { self.after / self.before - 1.0 } else { 0.0 }
    }
}
