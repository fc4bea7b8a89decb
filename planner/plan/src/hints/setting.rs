//! What the choice of hints depends on: the network and its neighbours, and the thresholds.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::hints::Profile;
use crate::input::Users;
use crate::network::Network;
use crate::plan;
use crate::vswitch::Map;

/// The network and the neighbours that hints are computed for.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The core network, with the demands at the entries where they come in at present.
    pub network: &'a Network,
    /// How the core network was derived from the whole topology.
    pub map: &'a Map,
    /// The users behind each prefix. The ISP announces each of these prefixes at all entries.
    pub prefixes: &'a BTreeMap<IpNet, Users>,
    /// What each provider accepts, in the order of the network's providers.
    pub profiles: &'a [Profile],
    /// The ISP's own AS number.
    pub asn: Option<u32>,
}

/// The thresholds for giving and withdrawing hints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How the plan that the hints come from is computed.
    pub plan: plan::Config,
    /// The least gain for new hints: a neighbour gets them if without them the network would carry
    /// less by at least this part of its traffic.
    pub gain: f64,
    /// The gain at which hints are withdrawn: without them the network would carry less by at most
    /// this part of its traffic. Below `gain`, so that hints do not alternate.
    pub release: f64,
}
