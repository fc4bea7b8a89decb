//! The answer of the service about paths inside the network, and how it is made from a plan.

use std::collections::BTreeMap;

use forebay_plan::paths::Waypoints;
use forebay_plan::plan::Report;
use forebay_plan::topology::{RouterId, Topology};
use forebay_plan::vswitch::Map;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The path of the answer.
pub const PATHS: &str = "/v1/paths";
/// The path of its version alone, which clients ask for often.
pub const VERSION: &str = "/v1/paths/version";

/// The version of the paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// A tag that changes when the paths change.
    pub version: String,
}

/// The paths of a plan between entries and boundary routers that differ from the present ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paths {
    /// A tag that changes when the paths change.
    pub version: String,
    /// The number of the round that planned them.
    pub round: u64,
    /// The prefixes behind each boundary router.
    pub outputs: Vec<Output>,
    /// The paths by entry and boundary router.
    pub flows: Vec<Flow>,
}

/// The users behind a boundary router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The name of the boundary router.
    pub router: String,
    /// The prefixes of its users.
    pub prefixes: Vec<IpNet>,
}

/// The traffic from an entry to a boundary router, of all providers together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The name of the ingress router.
    pub entry: String,
    /// The name of the boundary router.
    pub router: String,
    /// The paths of the traffic.
    pub ways: Vec<Way>,
}

/// A path with its part of the traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// All routers of the path, both ends included.
    pub path: Vec<String>,
    /// The routers between the ends that fix the path; `None` if none do.
    pub via: Option<Vec<String>>,
    /// Why no routers fix the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The planned rate in bits per second.
    pub rate: f64,
}

impl Paths {
    /// Returns the paths of `report`, which is a plan in the core of `topology`, without the number
    /// of a round. Flows that stay on
    /// the only shortest path need no change of the network and are left out.
    pub fn of(
        report: &Report,
        topology: &Topology,
        map: &Map,
        prefixes: impl Iterator<Item = (IpNet, RouterId)>,
    ) -> Self {
        let routers = topology.by_name();
        let name = |router: RouterId| topology.routers()[router.index()].name.clone();
        let mut rates: BTreeMap<(&str, &str), BTreeMap<&[String], f64>> = BTreeMap::new();
        for aggregate in &report.routing {
            let ways = aggregate.ways.iter().filter(|w| w.rate > 0.0 && w.path.len() > 1);
            for way in ways {
                let flow = rates.entry((&way.entry, &aggregate.router)).or_default();
                *flow.entry(&way.path).or_default() += way.rate;
            }
        }
        let mut waypoints = Waypoints::new(topology);
        let mut via = |path: &[String]| -> Result<Vec<String>, String> {
            let known: Option<Vec<RouterId>> =
                path.iter().map(|router| routers.get(router.as_str()).copied()).collect();
            let known = known.ok_or("the path has a router that the topology lacks")?;
            match waypoints.of(&known) {
                Ok(found) => Ok(found.into_iter().map(name).collect()),
                Err((from, to)) => Err(format!(
                    "the link from {} to {} is not the only shortest path between them",
                    name(from),
                    name(to)
                )),
            }
        };
        let mut flows = Vec::new();
        for ((entry, router), ways) in rates {
            let way = |(path, rate): (&[String], f64)| {
                let (via, why) = match via(path) {
                    Ok(via) => (Some(via), None),
                    Err(why) => (None, Some(why)),
                };
                Way { path: path.to_vec(), via, why, rate }
            };
            let ways: Vec<Way> = ways.into_iter().map(way).collect();
            if !matches!(&ways[..], [Way { via: Some(via), .. }] if via.is_empty()) {
                flows.push(Flow { entry: entry.to_owned(), router: router.to_owned(), ways });
            }
        }
        let mut behind: BTreeMap<RouterId, Vec<IpNet>> = BTreeMap::new();
        for (prefix, router) in prefixes {
            if let Some(boundary) = map.boundary[router.index()] {
                behind.entry(boundary).or_default().push(prefix);
            }
        }
        let outputs = behind.into_iter().map(|(router, prefixes)| (name(router), prefixes));
        let outputs = outputs
            .filter(|(router, _)| flows.iter().any(|flow| flow.router == *router))
            .map(|(router, prefixes)| Output { router, prefixes })
            .collect();
        let mut paths = Self { version: String::new(), round: 0, outputs, flows };
        let text = serde_json::to_string(&paths).unwrap_or_default();
        paths.version = crate::token::Hash::of(text.as_bytes()).to_string();
        paths
    }
}
