//! One round: from measured demands and the neighbours' programs to new hints.

use std::collections::BTreeMap;

use forebay_plan::hints::{self, Hints, bgp};
use forebay_plan::lp::SolveError;
use forebay_plan::network::Network;
use forebay_plan::paths::PathCache;
use forebay_plan::plan::Report;
use forebay_plan::topology::RouterId;
use forebay_plan::vswitch::{self, Program, Refusal};
use serde::Serialize;

use crate::inputs::{Core, Fixed};

/// The result of a round.
#[derive(Debug)]
pub struct Planned {
    /// The hints in force from now on.
    pub hints: Hints,
    /// The network as it is, beside the network with the hints followed.
    pub report: Report,
    /// The providers whose programs could not be used, and the reasons.
    pub lapsed: BTreeMap<u32, Refusal>,
    /// The demands by entry, now and if the hints are followed.
    pub flows: Vec<Flow>,
    /// The announcements of the hints.
    pub announcements: Vec<bgp::Announcement>,
}

/// The demand of a provider through one entry to the users behind one boundary router.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// The name of the provider.
    pub provider: String,
    /// The router of the entry.
    pub entry: String,
    /// The boundary router.
    pub router: String,
    /// The present demand, in bits per second.
    pub now: f64,
    /// The demand if the hints are followed, in bits per second.
    pub after: f64,
}

fn flows(now: &Network, after: &Network) -> Vec<Flow> {
    let mut sums: BTreeMap<(u32, u32, RouterId), (f64, f64)> = BTreeMap::new();
    for demand in &now.demands {
        let key = (demand.provider, demand.entry, demand.egress);
        sums.entry(key).or_default().0 += demand.rate.as_bps() as f64;
    }
    for demand in &after.demands {
        let key = (demand.provider, demand.entry, demand.egress);
        sums.entry(key).or_default().1 += demand.rate.as_bps() as f64;
    }
    let name = |router: RouterId| now.topology.routers()[router.index()].name.clone();
    let flow = |((provider, entry, router), (before, after))| {
        let provider = &now.providers[provider as usize];
        Flow {
            provider: provider.name.clone(),
            entry: name(provider.entries[entry as usize].router),
            router: name(router),
            now: before,
            after,
        }
    };
    sums.into_iter().map(flow).collect()
}

/// Computes a round.
///
/// `programs` are by the index of the provider, each with the tag of the view that it was written
/// for. A program for a view that has changed is not used, since its output numbers may have
/// changed too.
///
/// # Errors
/// If the solver fails.
pub fn plan(
    fixed: &Fixed,
    core: &Core,
    programs: &BTreeMap<u32, Program>,
    last: &Hints,
    paths: &mut PathCache,
    config: &hints::Config,
) -> Result<Planned, SolveError> {
    let current = |number: &u32, program: &Program| {
        let tag = core.views.get(*number as usize).map(|v| &v.1);
        program.view.as_ref().is_none_or(|view| Some(view) == tag)
    };
    let (now, old): (BTreeMap<_, _>, BTreeMap<_, _>) =
        programs.clone().into_iter().partition(|(number, program)| current(number, program));
    let (network, mut lapsed) =
        vswitch::consolidate(&core.network, &core.map, &core.prefixes, &now);
    lapsed.extend(old.into_keys().map(|number| {
        let message = "is for a view that has changed: get /v1/vswitch and put the program again";
        (number, Refusal { field: "view".to_owned(), message: message.to_owned() })
    }));
    let setting = core.setting(fixed, &network);
    let hints = hints::hints(setting, paths, config, last)?;
    let report = hints::outcome(setting, paths, config, &hints)?;
    let flows = flows(&network, &hints::followed(setting, &hints));
    let announcements = bgp::announcements(&hints, &network, &fixed.file.profiles, fixed.file.asn);
    Ok(Planned { hints, report, lapsed, flows, announcements })
}
