//! The record of a run, in the schema `forebay-plan-demo/1`. Any change that could break a reader
//! changes its number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The name and the version of the schema.
pub const SCHEMA: &str = "forebay-plan-demo/1";

/// The name and the version of the schema of a run with several ISPs.
pub const SCHEMA_OF_SEVERAL: &str = "forebay-plan-demo-isps/1";

/// The entry that the provider's traffic takes, by provider and prefix.
pub type Tables = BTreeMap<String, BTreeMap<String, String>>;

/// The whole record of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The schema, [`SCHEMA`].
    pub schema: String,
    /// The duration from the first namespace to the last reading of a table, in seconds.
    pub seconds: f64,
    /// The load average of this machine over the last minute, at the end.
    pub load: f64,
    /// The ISP's entries, in the order of the topology.
    pub entries: Vec<String>,
    /// The providers' tables before there were hints.
    pub first: Tables,
    /// The tables with the hints in force.
    pub hinted: Tables,
    /// The tables after the hints were withdrawn.
    pub withdrawn: Tables,
    /// The hints that were in force.
    pub hints: Vec<HintSeen>,
    /// The rounds of the service, until nothing changed.
    pub rounds: Vec<Round>,
    /// The throughput before there were hints.
    pub before: Throughput,
    /// The throughput with the hints in force.
    pub after: Throughput,
    /// The links inside, and the traffic with the plan's paths inside carried out; `None` if this
    /// kernel cannot do that.
    #[serde(default)]
    pub inside: Option<Inside>,
    /// The throughput over time.
    pub series: Vec<Sample>,
    /// The events, with their times in seconds from the start of traffic.
    pub events: Vec<(f64, String)>,
    /// The properties that were checked.
    pub checks: Vec<Check>,
}

/// The record of a run with several ISPs, in the schema [`SCHEMA_OF_SEVERAL`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Several {
    /// The schema, [`SCHEMA_OF_SEVERAL`].
    pub schema: String,
    /// The duration, as in [`Record::seconds`].
    pub seconds: f64,
    /// The load average, as in [`Record::load`].
    pub load: f64,
    /// The records of the ISPs, by name.
    pub isps: BTreeMap<String, Record>,
    /// The properties of all ISPs together that were checked.
    pub checks: Vec<Check>,
}

impl Default for Several {
    fn default() -> Self {
        Self {
            schema: SCHEMA_OF_SEVERAL.to_owned(),
            seconds: 0.0,
            load: 0.0,
            isps: BTreeMap::new(),
            checks: Vec::new(),
        }
    }
}

/// A hint, and how it was delivered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HintSeen {
    /// The neighbour that got the hint.
    pub neighbour: String,
    /// The prefix that the hint is about.
    pub prefix: String,
    /// The entry where traffic to the prefix should come in.
    pub entry: String,
    /// The BGP attribute of the hint.
    pub method: String,
}

/// A round of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The estimated demand of all providers, in Mbit/s.
    pub demand_mbps: f64,
    /// The traffic that the planner expected without changes, in Mbit/s.
    pub before_mbps: f64,
    /// The traffic that the planner expected with the changes, in Mbit/s.
    pub after_mbps: f64,
    /// The number of hints that are new, moved or withdrawn.
    pub changes: usize,
    /// The number of routes announced or withdrawn.
    pub steps: usize,
    /// The duration of planning, in seconds.
    pub seconds: f64,
    /// The error of the round, if it failed.
    pub error: Option<String>,
}

/// The throughput over some time in Mbit/s, headers included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The time over which it was counted, in seconds.
    pub seconds: f64,
    /// The traffic that reached users, by provider.
    pub providers: BTreeMap<String, f64>,
    /// The traffic on each entry's link into the network.
    pub entries: BTreeMap<String, f64>,
    /// The traffic that came in, by provider and entry; some of it may have been dropped later.
    pub arrived: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Throughput {
    /// Returns the traffic that reached users from all providers.
    pub fn total(&self) -> f64 {
        self.providers.values().sum()
    }
}

/// What happened inside the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// The throughput with hints in force and paths carried out.
    pub throughput: Throughput,
    /// The links with traffic to users, in the order of the topology.
    pub links: Vec<InsideLink>,
    /// The link with the highest load while hints were in force and paths were not.
    pub hot: String,
    /// The paths that the plan has, in words.
    pub paths: Vec<String>,
    /// Times that were measured, in seconds, by what happened.
    pub times: Vec<(String, f64)>,
}

/// A link inside, at three times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InsideLink {
    /// The names of both ends.
    pub link: String,
    /// The capacity in Mbit/s.
    pub capacity: f64,
    /// Without hints and paths.
    pub before: LinkUse,
    /// With hints alone.
    pub hinted: LinkUse,
    /// With hints and paths.
    pub steered: LinkUse,
}

/// The use of a link over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkUse {
    /// The rate in Mbit/s.
    pub mbps: f64,
    /// The mean wait in the queue in front of it, in milliseconds.
    pub wait_ms: f64,
    /// The share of packets that this queue dropped.
    pub loss: f64,
}

/// The throughput at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of the counting, in seconds from the start of traffic.
    pub at: f64,
    /// The traffic that reached users, by provider.
    pub providers: BTreeMap<String, f64>,
    /// The traffic on each entry's link into the network.
    pub entries: BTreeMap<String, f64>,
}

/// A property that must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The property in words.
    pub what: String,
    /// Whether the property holds.
    pub holds: bool,
    /// What was observed.
    pub seen: String,
}
