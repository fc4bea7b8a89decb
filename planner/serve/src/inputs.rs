//! The input of plans: files that are read at the start, and demands, which are read for each
//! round.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use forebay_config::ConfigError;
use forebay_plan::hints::{Profile, Setting};
use forebay_plan::input::{self, Exporters, MAX_FILE, ProviderFile, Users};
use forebay_plan::network::{Demand, Network};
use forebay_plan::topology::{RouterId, Topology};
use forebay_plan::vswitch::{self, Map, View};
use forebay_units::Rate;
use ipnet::IpNet;

use crate::config::Files;

/// The files that do not change while the service runs.
#[derive(Debug)]
pub struct Fixed {
    /// The topology of the network.
    pub topology: Topology,
    /// The providers, with their profiles for hints.
    pub file: ProviderFile,
    /// The prefixes of users, as the file has them; none if they are learned.
    pub prefixes: Arc<BTreeMap<IpNet, Users>>,
    /// The router of each next hop, if prefixes are learned.
    pub next_hops: Option<BTreeMap<IpAddr, RouterId>>,
    /// The exporters of flow records, if demands are measured from these.
    pub exporters: Option<Exporters>,
    /// The share of the capacity of each link that plans leave free.
    pub reserve: f64,
}

impl Fixed {
    /// Reads all `files`.
    ///
    /// # Errors
    /// If a file cannot be read, or has the wrong contents.
    pub fn read(files: &Files) -> Result<Self, ConfigError> {
        let text = |path: &Path| forebay_input::text(path, MAX_FILE);
        let mut topology = input::topology(&files.topology, &text(&files.topology)?)?;
        if let Some(capacity) = files.capacity {
            topology.set_capacities(|_, link| link.capacity.or(Some(capacity)));
        }
        let file = input::providers(&files.providers, &text(&files.providers)?, &topology)?;
        let prefixes = match &files.prefixes {
            Some(path) => input::prefixes(path, &text(path)?, &topology)?,
            None => BTreeMap::new(),
        };
        let next_hops = files
            .next_hops
            .as_ref()
            .map(|path| input::next_hops(path, &text(path)?, &topology))
            .transpose()?;
        let exporters = files
            .exporters
            .as_ref()
            .map(|path| input::exporters(path, &text(path)?, &file.providers, &topology));
        let exporters = exporters.transpose()?;
        if let (Some((exporter, index)), None, Some(path)) =
            (exporters.as_ref().and_then(Exporters::shared), &next_hops, &files.exporters)
        {
            let message = format!(
                "interface {index} of {exporter} has no provider: write it, or learn routes with [bmp]"
            );
            let (file, key) = (path.clone(), String::new());
            return Err(ConfigError { file, line: None, key, message });
        }
        let (prefixes, reserve) = (Arc::new(prefixes), files.reserve);
        Ok(Self { topology, file, prefixes, next_hops, exporters, reserve })
    }

    /// Reads demands from a text; errors use `name` for it.
    ///
    /// # Errors
    /// If the text is not in its format.
    pub fn demands(&self, name: &Path, text: &DemandText) -> Result<Vec<Demand>, ConfigError> {
        let read = if text.json { input::demands_json } else { input::demands };
        read(name, &text.text, &self.file.providers, &self.topology)
    }
}

/// Demands as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandText {
    /// Whether the text is JSON. Otherwise it is CSV, or of SNDlib or REPETITA.
    pub json: bool,
    /// The whole text.
    pub text: String,
}

/// The core network for some demands, and the view of each provider.
#[derive(Debug)]
pub struct Core {
    /// The core with measured demands.
    pub network: Network,
    /// How the core was derived from the whole topology.
    pub map: Map,
    /// The number of demands that no entry reaches.
    pub lost: usize,
    /// The view of each provider, with its tag.
    pub views: Vec<(View, String)>,
    /// The prefixes of users.
    pub prefixes: Arc<BTreeMap<IpNet, Users>>,
}

impl Core {
    /// Derives the core for `demands` to the users of `prefixes`, with at most `limit` aggregate
    /// flows if possible.
    pub fn new(
        fixed: &Fixed,
        prefixes: Arc<BTreeMap<IpNet, Users>>,
        demands: Vec<Demand>,
        limit: usize,
    ) -> Self {
        let mut topology = fixed.topology.clone();
        if fixed.reserve > 0.0 {
            let usable = |c: Rate| Rate::from_bps_f64(c.as_bps() as f64 * (1.0 - fixed.reserve));
            topology.set_capacities(|_, link| link.capacity.map(usable));
        }
        let network = Network {
            topology,
            providers: fixed.file.providers.clone(),
            demands,
            avoided: BTreeSet::new(),
        };
        let map = vswitch::map(&network, limit);
        let (core, lost) = map.core(&network);
        let views = (0..network.providers.len()).map(|number| {
            let view = vswitch::view(&network, &map, &prefixes, number);
            let tag = view.tag();
            (view, tag)
        });
        let views = views.collect();
        Self { views, network: core, map, lost, prefixes }
    }

    /// Returns the input for hints, with `network`, which has the programs' demands, in place of
    /// the core.
    pub fn setting<'a>(&'a self, fixed: &'a Fixed, network: &'a Network) -> Setting<'a> {
        let profiles: &[Profile] = &fixed.file.profiles;
        Setting { network, map: &self.map, prefixes: &self.prefixes, profiles, asn: fixed.file.asn }
    }
}
