//! The network of the demonstration, in the files that the planner reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use forebay_config::ConfigError;
use forebay_plan::hints::Profile;
use forebay_plan::input::{self, Users};
use forebay_plan::network::{self, Provider};
use forebay_plan::topology::Topology;
use ipnet::IpNet;

use forebay_lab::engine::EngineError;

/// The name and the text of the topology.
pub(super) const TOPOLOGY: (&str, &str) =
    ("isp.json", include_str!("../../../experiments/interconnect/isp.json"));
/// The name and the text of the providers.
pub(super) const PROVIDERS: (&str, &str) =
    ("providers.toml", include_str!("../../../experiments/interconnect/providers.toml"));
/// The name and the text of the prefixes.
pub(super) const PREFIXES: (&str, &str) =
    ("prefixes.csv", include_str!("../../../experiments/interconnect/prefixes.csv"));

/// The directory with the files that the service reads and writes.
pub(super) struct Files(pub(super) PathBuf);

impl Files {
    /// Returns the path of the demands that were measured last.
    pub(super) fn demands(&self) -> PathBuf {
        self.0.join("demands.csv")
    }

    /// Returns the path of the link loads that were measured with them.
    pub(super) fn links(&self) -> PathBuf {
        self.0.join("links.json")
    }

    /// Returns the path of the journal of announcements.
    pub(super) fn journal(&self) -> PathBuf {
        self.0.join("announced")
    }

    /// Returns the path of the service's configuration.
    pub(super) fn config(&self) -> PathBuf {
        self.0.join("serve.toml")
    }

    /// Writes the files of the network.
    pub(super) fn write(&self) -> Result<(), EngineError> {
        for (name, text) in [TOPOLOGY, PROVIDERS, PREFIXES] {
            let path = self.0.join(name);
            fs::write(&path, text)
                .map_err(EngineError::io(format!("writing {}", path.display())))?;
        }
        Ok(())
    }
}

/// Writes a file so that readers see either the old or the new one.
///
/// # Errors
/// If it cannot be written.
pub(super) fn put(path: &Path, text: &str) -> Result<(), EngineError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&new, path))
        .map_err(EngineError::io(format!("writing {}", path.display())))
}

/// The network that the files describe.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) topology: Topology,
    pub(super) providers: Vec<Provider>,
    pub(super) profiles: Vec<Profile>,
    pub(super) asn: u32,
    pub(super) prefixes: BTreeMap<IpNet, Users>,
}

impl Network {
    /// Reads the network that is built into the program.
    ///
    /// # Errors
    /// A test makes sure that there are none for the built-in files.
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

    /// Returns the network without demands, in the planner's form.
    pub(super) fn plain(&self) -> network::Network {
        network::Network {
            topology: self.topology.clone(),
            providers: self.providers.clone(),
            demands: Vec::new(),
            avoided: BTreeSet::new(),
        }
    }

    /// Returns the name of a router.
    pub(super) fn router(&self, id: forebay_plan::topology::RouterId) -> &str {
        &self.topology.routers()[id.index()].name
    }
}
