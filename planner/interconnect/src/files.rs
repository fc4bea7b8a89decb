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

/// The name of the file of the topology.
pub(super) const TOPOLOGY: &str = "isp.json";
/// The name of the file of the providers.
pub(super) const PROVIDERS: &str = "providers.toml";
/// The name of the file of the prefixes.
pub(super) const PREFIXES: &str = "prefixes.csv";

/// The planner's files of one ISP, as text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts {
    topology: &'static str,
    providers: &'static str,
    prefixes: &'static str,
}

/// Reads the files in a directory of the experiments into the program.
macro_rules! texts {
    ($directory:literal) => {
        Texts {
            topology: include_str!(concat!("../../../experiments/", $directory, "/isp.json")),
            providers: include_str!(concat!(
                "../../../experiments/",
                $directory,
                "/providers.toml"
            )),
            prefixes: include_str!(concat!("../../../experiments/", $directory, "/prefixes.csv")),
        }
    };
}

/// The ISP of the demonstration with one.
pub(super) const ALONE: Texts = texts!("interconnect");
/// The ISPs of the demonstration with two, by name.
pub(super) const TWO: [(&str, Texts); 2] =
    [("coast", texts!("interconnect/two/coast")), ("inland", texts!("interconnect/two/inland"))];

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

    /// Returns the path of the routers behind next hops.
    pub(super) fn next_hops(&self) -> PathBuf {
        self.0.join("hops.csv")
    }

    /// Returns the path of the service's configuration.
    pub(super) fn config(&self) -> PathBuf {
        self.0.join("serve.toml")
    }

    /// Writes the files of the network, and makes their directory if it does not exist.
    pub(super) fn write(&self, texts: &Texts) -> Result<(), EngineError> {
        let failed = EngineError::io(format!("making {}", self.0.display()));
        fs::create_dir_all(&self.0).map_err(failed)?;
        let files =
            [(TOPOLOGY, texts.topology), (PROVIDERS, texts.providers), (PREFIXES, texts.prefixes)];
        for (name, text) in files {
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
    /// Reads the network of the demonstration with one ISP.
    ///
    /// # Errors
    /// As [`Network::of`].
    #[cfg(test)]
    pub(super) fn carried() -> Result<Self, ConfigError> {
        Self::of(&ALONE)
    }

    /// Reads a network that is built into the program.
    ///
    /// # Errors
    /// A test makes sure that there are none for the built-in files.
    pub(super) fn of(texts: &Texts) -> Result<Self, ConfigError> {
        let topology = input::topology(Path::new(TOPOLOGY), texts.topology)?;
        let file = input::providers(Path::new(PROVIDERS), texts.providers, &topology)?;
        let prefixes = input::prefixes(Path::new(PREFIXES), texts.prefixes, &topology)?;
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
