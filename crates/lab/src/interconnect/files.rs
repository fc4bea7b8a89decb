//! The network of the demonstration, as the files that the planner reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use forebay_config::ConfigError;
use forebay_plan::hints::Profile;
use forebay_plan::input::{self, Users};
use forebay_plan::network::{self, Provider};
use forebay_plan::topology::Topology;
use ipnet::IpNet;

use crate::engine::EngineError;

/// Name and text of the topology.
const TOPOLOGY: (&str, &str) =
    ("isp.json", include_str!("../../../../experiments/interconnect/isp.json"));
/// Of the providers.
const PROVIDERS: (&str, &str) =
    ("providers.toml", include_str!("../../../../experiments/interconnect/providers.toml"));
/// Of the prefixes.
const PREFIXES: (&str, &str) =
    ("prefixes.csv", include_str!("../../../../experiments/interconnect/prefixes.csv"));

/// Where the files are in a directory: what a round of the controller reads and writes.
pub(super) struct Files(pub(super) PathBuf);

impl Files {
    pub(super) fn topology(&self) -> PathBuf {
        self.0.join(TOPOLOGY.0)
    }

    pub(super) fn providers(&self) -> PathBuf {
        self.0.join(PROVIDERS.0)
    }

    pub(super) fn prefixes(&self) -> PathBuf {
        self.0.join(PREFIXES.0)
    }

    /// What was measured last; it is replaced as a whole, and that is the sign for a round.
    pub(super) fn demands(&self) -> PathBuf {
        self.0.join("demands.csv")
    }

    /// The hints in force.
    pub(super) fn hints(&self) -> PathBuf {
        self.0.join("hints.json")
    }

    /// What was announced.
    pub(super) fn journal(&self) -> PathBuf {
        self.0.join("announced")
    }

    /// A line of JSON for each round.
    pub(super) fn rounds(&self) -> PathBuf {
        self.0.join("rounds.jsonl")
    }

    /// The id of the controller's process.
    pub(super) fn pid(&self) -> PathBuf {
        self.0.join("controller.pid")
    }

    /// Writes the network's files there.
    pub(super) fn write(&self) -> Result<(), EngineError> {
        for (name, text) in [TOPOLOGY, PROVIDERS, PREFIXES] {
            let path = self.0.join(name);
            fs::write(&path, text)
                .map_err(EngineError::io(format!("writing {}", path.display())))?;
        }
        Ok(())
    }
}

/// What the files say.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) topology: Topology,
    pub(super) providers: Vec<Provider>,
    pub(super) profiles: Vec<Profile>,
    pub(super) asn: u32,
    pub(super) prefixes: BTreeMap<IpNet, Users>,
}

impl Network {
    /// The one that the program carries.
    ///
    /// # Errors
    /// None for the files that the project carries; a test holds them to that.
    pub(super) fn carried() -> Result<Self, ConfigError> {
        let topology = input::topology(Path::new(TOPOLOGY.0), TOPOLOGY.1)?;
        let file = input::providers(Path::new(PROVIDERS.0), PROVIDERS.1, &topology)?;
        let prefixes = input::prefixes(Path::new(PREFIXES.0), PREFIXES.1, &topology)?;
        Ok(Self {
            asn: file.asn.unwrap_or_default(),
            providers: file.providers,
            profiles: file.profiles,
            topology,
            prefixes,
        })
    }

    /// It with no demands, as the planner has it.
    pub(super) fn plain(&self) -> network::Network {
        network::Network {
            topology: self.topology.clone(),
            providers: self.providers.clone(),
            demands: Vec::new(),
            avoided: BTreeSet::new(),
        }
    }

    /// A router's name.
    pub(super) fn router(&self, id: forebay_plan::topology::RouterId) -> &str {
        &self.topology.routers()[id.index()].name
    }
}
