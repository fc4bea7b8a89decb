//! The network of QUIC interoperability tests: scenarios as those of the QUIC network simulator are
//! written, for the laboratory's link in real time.
//!
//! Such a test has a client and a server in containers and a third container as the network between
//! them. [`Network::parse`] reads the scenario that the third one gets, and [`Network::spec`] is
//! the link that carries it out.

mod arguments;
mod units;

use std::path::PathBuf;

use forebay_discipline::{Kind, QueueSpec};
use forebay_sim::Loss;
use forebay_units::{Bytes, Nanos, Rate};

use self::arguments::Arguments;
use crate::link::{BottleneckSpec, LinkSpec, LossLimits, OutageSpec};
use crate::scenario::Back;

/// The longest delay and the longest period of an outage: an hour.
const MAX_TIME: Nanos = Nanos::from_secs(3600);
/// The largest queue in packets.
const MAX_PACKETS: u32 = 100_000;
/// The scenarios that there are here.
const HERE: &str = "simple-p2p, drop-rate and blackhole";

/// Why a scenario is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The scenario is empty.
    #[error(
        "no scenario: write it in the variable SCENARIO or as an argument, such as \
         \"simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25\""
    )]
    Empty,
    /// There is no scenario of this name.
    #[error("unknown scenario `{0}`: there are {HERE}")]
    Unknown(String),
    /// The scenario exists elsewhere, but not here.
    #[error("scenario `{name}` is not supported, since {why}; there are {HERE}")]
    Unsupported {
        /// The name of the scenario.
        name: String,
        /// The reason why it is not supported.
        why: &'static str,
    },
    /// An argument has not the form of one.
    #[error("`{0}` is no argument of a scenario: write --NAME=VALUE")]
    Form(String),
    /// An argument occurs twice.
    #[error("--{0} occurs twice")]
    Twice(String),
    /// The scenario has no such argument.
    #[error("scenario `{scenario}` has no argument --{argument}")]
    NoArgument {
        /// The name of the scenario.
        scenario: String,
        /// The name of the argument.
        argument: String,
    },
    /// A required argument is missing.
    #[error("--{0} is missing")]
    Missing(&'static str),
    /// A queue cannot be that of a bottleneck.
    #[error("the queue `{0}` cannot be that of a bottleneck here")]
    Queue(&'static str),
    /// The value of an argument is wrong.
    #[error("--{name}={value}: write {must}")]
    Value {
        /// The name of the argument.
        name: &'static str,
        /// The value that was given.
        value: String,
        /// The values that are allowed.
        must: &'static str,
    },
}

/// The impairment of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Drops {
    /// The share of packets that are dropped.
    rate: f64,
    /// The largest number of packets that are dropped one after the other.
    burst: Option<u32>,
}

/// The network of a scenario. Both directions have the same rate, delay and queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    delay: Nanos,
    rate: Rate,
    /// The size of each queue in packets.
    queue: u32,
    to_client: Drops,
    to_server: Drops,
    outage: Option<OutageSpec>,
}

impl Network {
    /// Reads a scenario, such as `simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25`.
    ///
    /// # Errors
    /// Fails if the scenario or one of its arguments is unknown, missing or out of range.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let (name, mut arguments) = Arguments::parse(text)?;
        let unsupported = |why| Err(ScenarioError::Unsupported { name: name.clone(), why });
        match name.as_str() {
            "simple-p2p" | "drop-rate" | "blackhole" => {}
            "tcp-cross-traffic" | "udp-cross-traffic" => {
                return unsupported("nothing here makes traffic between the containers");
            }
            "rebind" | "nat" => return unsupported("the link does not change addresses and ports"),
            "droplist" | "corrupt-rate" | "asymmetric-p2p" => {
                return unsupported("the link has no such losses or rates");
            }
            _ => return Err(ScenarioError::Unknown(name)),
        }
        let mut network = Self {
            delay: arguments.time("delay")?.ok_or(ScenarioError::Missing("delay"))?,
            rate: arguments.rate("bandwidth")?.ok_or(ScenarioError::Missing("bandwidth"))?,
            queue: arguments
                .number("queue", 1..=MAX_PACKETS, "a number of packets, 1 to 100000")?
                .ok_or(ScenarioError::Missing("queue"))?,
            to_client: Drops::default(),
            to_server: Drops::default(),
            outage: None,
        };
        if name == "drop-rate" {
            let mut drops = |rate, burst| {
                let percent = arguments.number(rate, 0..=99, "a percentage, 0 to 99")?;
                let percent = percent.ok_or(ScenarioError::Missing(rate))?;
                let burst = arguments.number(burst, 1..=u32::MAX, "a number of packets, 1 or more");
                Ok(Drops { rate: f64::from(percent) / 100.0, burst: burst? })
            };
            network.to_client = drops("rate_to_client", "burst_to_client")?;
            network.to_server = drops("rate_to_server", "burst_to_server")?;
        }
        if name == "blackhole" {
            network.outage = Some(outage(&mut arguments)?);
        }
        arguments.end(&name)?;
        Ok(network)
    }

    /// Returns the specification of the link between the interface towards the client and the one
    /// towards the server, with a queue of `kind` in each direction.
    ///
    /// The link writes its packet counts to `counters`.
    ///
    /// # Errors
    /// Fails if there is no such queue for a bottleneck.
    pub fn spec(
        &self,
        [client, server]: [String; 2],
        kind: Kind,
        seed: u64,
        counters: PathBuf,
    ) -> Result<LinkSpec, ScenarioError> {
        let queue = QueueSpec::of_packets(kind, self.queue);
        let queue = queue.ok_or(ScenarioError::Queue(kind.name()))?;
        let loss = |drops: Drops| match drops.rate {
            rate if rate > 0.0 => Loss::Random(rate),
            _ => Loss::None,
        };
        let back = Back {
            rate: Some(self.rate),
            // The queue below has its own limit.
            limit: Bytes(0),
            loss: loss(self.to_client),
        };
        Ok(LinkSpec {
            left: client,
            right: server,
            others: Vec::new(),
            rate_bps: self.rate.as_bps(),
            delay_ns: self.delay.0,
            capacity: None,
            delay_trace: None,
            loss: loss(self.to_server),
            jitter: forebay_sim::Jitter::default(),
            feedback_loss: 0.0,
            feedback_port: 0,
            policer: None,
            back: Some(back),
            back_queue: Some(queue.clone()),
            most_lost_in_a_row: LossLimits {
                to_right: self.to_server.burst,
                to_left: self.to_client.burst,
            },
            outage: self.outage,
            longer_ns: Vec::new(),
            ways: Vec::new(),
            sites: Vec::new(),
            per_packet: false,
            routes: Vec::new(),
            later: Vec::new(),
            seed,
            queue: BottleneckSpec::Forebay { queue },
            packet_log: PathBuf::from("/dev/null"),
            packet_limit: u64::MAX,
            counters,
        })
    }
}

/// Reads the name of a queue for a link.
///
/// # Errors
/// Fails with the names that there are.
pub fn queue(name: &str) -> Result<Kind, String> {
    let all = || Kind::ALL.iter().copied().filter(|k| QueueSpec::of_packets(*k, 1).is_some());
    let names: Vec<_> = all().map(Kind::name).collect();
    all().find(|kind| kind.name() == name).ok_or_else(|| format!("there are {}", names.join(", ")))
}

fn outage(arguments: &mut Arguments) -> Result<OutageSpec, ScenarioError> {
    let (to_client, to_server) = match arguments.take("direction") {
        None => (true, true),
        Some(direction) => match direction.as_str() {
            "both" => (true, true),
            "toclient" => (true, false),
            "toserver" => (false, true),
            _ => {
                let must = "both, toclient or toserver";
                return Err(ScenarioError::Value { name: "direction", value: direction, must });
            }
        },
    };
    Ok(OutageSpec {
        on_ns: arguments.time("on")?.ok_or(ScenarioError::Missing("on"))?.0,
        off_ns: arguments.time("off")?.ok_or(ScenarioError::Missing("off"))?.0,
        times: arguments
            .number("repeat", 1..=u32::MAX, "a number of outages, 1 or more")?
            .unwrap_or(1),
        to_right: to_server,
        to_left: to_client,
    })
}

#[cfg(test)]
mod tests;
