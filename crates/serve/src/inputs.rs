//! What the service plans with: files that are read at the start, and demands, which are read again for each round.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forebay_config::{ConfigError, read_text};
use forebay_plan::hints::{Profile, Setting};
use forebay_plan::input::{self, Exporters, LARGEST, ProviderFile, Users};
use forebay_plan::network::{Demand, Network};
use forebay_plan::topology::Topology;
use forebay_plan::vswitch::{self, Map, View};
use ipnet::IpNet;

use crate::config::Files;

/// What does not change while the service runs.
#[derive(Debug)]
pub struct Fixed {
    /// The network.
    pub topology: Topology,
    /// The providers, with what they heed.
    pub file: ProviderFile,
    /// Where users are.
    pub prefixes: BTreeMap<IpNet, Users>,
    /// Who sends flow records, if demands are measured by them.
    pub exporters: Option<Exporters>,
}

impl Fixed {
    /// What is in `files`.
    ///
    /// # Errors
    /// If one cannot be read, or is not what it should be.
    pub fn read(files: &Files) -> Result<Self, ConfigError> {
        let text = |path: &Path| read_text(path, LARGEST);
        let mut topology = input::topology(&files.topology, &text(&files.topology)?)?;
        if let Some(capacity) = files.capacity {
            topology.set_capacities(|_, link| link.capacity.or(Some(capacity)));
        }
        let file = input::providers(&files.providers, &text(&files.providers)?, &topology)?;
        let prefixes = input::prefixes(&files.prefixes, &text(&files.prefixes)?, &topology)?;
        let exporters = files
            .exporters
            .as_ref()
            .map(|path| input::exporters(path, &text(path)?, &file.providers, &topology));
        Ok(Self { topology, file, prefixes, exporters: exporters.transpose()? })
    }

    /// The demands in a text, which errors call `name`.
    ///
    /// # Errors
    /// If it is none of its form.
    pub fn demands(&self, name: &Path, text: &DemandText) -> Result<Vec<Demand>, ConfigError> {
        let read = if text.json { input::demands_json } else { input::demands_csv };
        read(name, &text.text, &self.file.providers, &self.topology)
    }
}

/// Demands as somebody wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandText {
    /// JSON, or CSV.
    pub json: bool,
    /// All of it.
    pub text: String,
}

/// The network's core for some demands, and what each provider sees of it.
#[derive(Debug)]
pub struct Core {
    /// The core, with measured demands.
    pub network: Network,
    /// How it was made.
    pub map: Map,
    /// How many demands no entry reaches.
    pub lost: usize,
    /// For each provider, its view and the view's tag.
    pub views: Vec<(View, String)>,
}

impl Core {
    /// The core for `demands`, of at most `limit` aggregate flows if that can be.
    pub fn new(fixed: &Fixed, demands: Vec<Demand>, limit: usize) -> Self {
        let network = Network {
            topology: fixed.topology.clone(),
            providers: fixed.file.providers.clone(),
            demands,
            avoided: BTreeSet::new(),
        };
        let map = vswitch::map(&network, limit);
        let (core, lost) = map.core(&network);
        let views = (0..network.providers.len()).map(|number| {
            let view = vswitch::view(&network, &map, &fixed.prefixes, number);
            let tag = view.tag();
            (view, tag)
        });
        Self { views: views.collect(), network: core, map, lost }
    }

    /// What hints are made of, with `network` in the place of the core: the core with programs in it.
    pub fn setting<'a>(&'a self, fixed: &'a Fixed, network: &'a Network) -> Setting<'a> {
        let profiles: &[Profile] = &fixed.file.profiles;
        Setting {
            network,
            map: &self.map,
            prefixes: &fixed.prefixes,
            profiles,
            asn: fixed.file.asn,
        }
    }
}
