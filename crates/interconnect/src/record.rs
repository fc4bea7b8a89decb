//! What was seen, schema `forebay-plan-demo/1`: any change that could break a reader changes its number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The schema's name and version.
pub const SCHEMA: &str = "forebay-plan-demo/1";

/// By provider and prefix, the entry that the provider's traffic takes.
pub type Tables = BTreeMap<String, BTreeMap<String, String>>;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// From the first namespace to the last look at a table, in seconds.
    pub seconds: f64,
    /// The load of this machine over the last minute, at the end.
    pub load: f64,
    /// The ISP's entries, in its own order.
    pub entries: Vec<String>,
    /// The tables before there were hints.
    pub first: Tables,
    /// With the hints in force.
    pub hinted: Tables,
    /// After they were taken back.
    pub withdrawn: Tables,
    /// The hints that were in force.
    pub hints: Vec<HintSeen>,
    /// The service's rounds, until it came to rest.
    pub rounds: Vec<Round>,
    /// What was carried before there were hints.
    pub before: Throughput,
    /// With the hints in force.
    pub after: Throughput,
    /// All the time.
    pub series: Vec<Sample>,
    /// What happened when, in seconds from when traffic began.
    pub events: Vec<(f64, String)>,
    /// What must hold.
    pub checks: Vec<Check>,
}

/// A hint, and how it was told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HintSeen {
    /// To whom.
    pub neighbour: String,
    /// About what.
    pub prefix: String,
    /// Where it should come in.
    pub entry: String,
    /// The way of BGP.
    pub method: String,
}

/// A round of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// What the demands were estimated to be in all.
    pub demand_mbps: f64,
    /// What the planner expected to be carried without changes.
    pub before_mbps: f64,
    /// And with them.
    pub after_mbps: f64,
    /// Hints that are new, moved or withdrawn.
    pub changes: usize,
    /// Routes announced or withdrawn.
    pub steps: usize,
    /// How long planning took.
    pub seconds: f64,
    /// What went wrong.
    pub error: Option<String>,
}

/// What was carried over a while, in Mbit/s, headers included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// How long was counted.
    pub seconds: f64,
    /// What reached users, by provider.
    pub providers: BTreeMap<String, f64>,
    /// What each entry's link into the network carried.
    pub entries: BTreeMap<String, f64>,
    /// What came in, by provider and entry; some of it may have been dropped behind.
    pub arrived: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Throughput {
    /// What reached users in all.
    pub fn total(&self) -> f64 {
        self.providers.values().sum()
    }
}

/// [`Throughput`] at an instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of what was counted, in seconds from when traffic began.
    pub at: f64,
    /// What reached users, by provider.
    pub providers: BTreeMap<String, f64>,
    /// What each entry's link into the network carried.
    pub entries: BTreeMap<String, f64>,
}

/// Something that must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What.
    pub what: String,
    /// Whether it does.
    pub holds: bool,
    /// What was seen.
    pub seen: String,
}
