//! Programs: what neighbours want of the vSwitch, put together with what was measured.

use std::collections::BTreeMap;

use forebay_units::Rate;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::input::Users;
use crate::network::{Demand, Network};
use crate::topology::RouterId;
use crate::vswitch::Map;
use crate::vswitch::view::outputs;

/// The number of an output in the provider's [`View`](crate::vswitch::View).
pub type Output = u32;

/// What a provider wants of its vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// A wish for each output that it has one for; what was measured holds for the others.
    pub wishes: Vec<Wish>,
}

/// What a provider wants for one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// The output.
    pub output: Output,
    /// The input where the traffic would come in.
    pub input: String,
    /// How much it would send, in bits per second.
    pub demand: Rate,
}

/// A provider cannot ask for more than its interconnection carries, or it has sent, by this factor: an interconnection
/// is congested when more is asked for than it carries, and no traffic grows a thousandfold in minutes.
const PLAUSIBLE_GROWTH: u64 = 4;

/// Puts the programs of providers, by their numbers, in the place of what was measured of them. `network` is the core,
/// with measured demands.
///
/// # Errors
/// By provider, what is wrong with its program, which then counts as none; the programs of others hold. A wish may not
/// name an input or output that the provider does not have, one of both twice, or more traffic than four times what its
/// interconnection carries or, where that is unknown, what it has sent in all.
pub fn consolidate(
    network: &Network,
    map: &Map,
    prefixes: &BTreeMap<IpNet, Users>,
    programs: &BTreeMap<u32, Program>,
) -> (Network, BTreeMap<u32, String>) {
    let outputs: Vec<RouterId> = outputs(map, prefixes).into_iter().map(|o| o.0).collect();
    let mut whole = network.clone();
    let mut refused = BTreeMap::new();
    for (provider, program) in programs {
        match demands(network, &outputs, *provider, program) {
            Ok(wanted) => {
                // Where it has wishes for an output, they replace what was measured there, from all its inputs.
                whole.demands.retain(|d| {
                    d.provider != *provider || !wanted.iter().any(|w| w.egress == d.egress)
                });
                whole.demands.extend(wanted);
            }
            Err(why) => {
                refused.insert(*provider, why);
            }
        }
    }
    whole.demands.sort_by_key(|d| (d.provider, d.entry, d.egress));
    (whole, refused)
}

fn demands(
    network: &Network,
    outputs: &[RouterId],
    number: u32,
    program: &Program,
) -> Result<Vec<Demand>, String> {
    let provider =
        network.providers.get(number as usize).ok_or("is from a provider that is not known")?;
    let measured = network.demands.iter().filter(|d| d.provider == number).map(|d| d.rate.as_bps());
    let measured = measured.fold(0u64, u64::saturating_add);
    let mut sums = vec![0u64; provider.entries.len()];
    let mut wanted: BTreeMap<(u32, RouterId), Rate> = BTreeMap::new();
    for wish in &program.wishes {
        let egress = *outputs.get(wish.output as usize).ok_or_else(|| {
            format!("names output {}: the last is {}", wish.output, outputs.len().saturating_sub(1))
        })?;
        let name = |router: RouterId| network.topology.routers()[router.index()].name.as_str();
        let entry = provider.entries.iter().position(|e| name(e.router) == wish.input);
        let entry = entry
            .ok_or_else(|| format!("names input {:?}, which is none of its own", wish.input))?;
        sums[entry] = sums[entry].saturating_add(wish.demand.as_bps());
        let known = provider.entries[entry].capacity.map_or(measured, Rate::as_bps);
        let most = known.saturating_mul(PLAUSIBLE_GROWTH);
        if sums[entry] > most {
            return Err(format!(
                "asks for more than {} through {}, which is not plausible",
                Rate::from_bps(most),
                wish.input
            ));
        }
        if wanted.insert((entry as u32, egress), wish.demand).is_some() {
            return Err(format!(
                "has two wishes for output {} from {}: put them together",
                wish.output, wish.input
            ));
        }
    }
    let demand = |((entry, egress), rate)| Demand { provider: number, entry, egress, rate };
    Ok(wanted.into_iter().map(demand).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Entry, Provider};
    use crate::topology::{Link, Router, Topology};
    use crate::vswitch::map;

    fn setting() -> (Network, Map, BTreeMap<IpNet, Users>) {
        let routers = ["a", "b"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
        let link =
            |from, to| Link { from: RouterId(from), to: RouterId(to), capacity: None, metric: 1 };
        let provider = |name: &str, capacity| Provider {
            name: name.to_owned(),
            participates: true,
            weight: 1.0,
            entries: vec![Entry { router: RouterId(0), capacity }],
        };
        let demand = |provider| Demand {
            provider,
            entry: 0,
            egress: RouterId(1),
            rate: Rate::from_mbps(10),
        };
        let network = Network {
            topology: Topology::new(
                String::new(),
                routers,
                vec![link(0, 1), link(1, 0)],
                Vec::new(),
            ),
            providers: vec![provider("x", Some(Rate::from_mbps(30))), provider("y", None)],
            demands: vec![demand(0), demand(1)],
        };
        let map = map(&network, 10);
        (network, map, [("10.0.0.0/8".parse().unwrap(), Users::behind(RouterId(1)))].into())
    }

    fn wish(output: Output, input: &str, mbps: u64) -> Wish {
        Wish { output, input: input.to_owned(), demand: Rate::from_mbps(mbps) }
    }

    #[test]
    fn a_program_replaces_what_was_measured_and_others_never_notice_a_bad_one() {
        let (network, map, prefixes) = setting();
        let run = |x: Vec<Wish>, y: Vec<Wish>| {
            let programs = [(0, Program { wishes: x }), (1, Program { wishes: y })].into();
            let (network, refused) = consolidate(&network, &map, &prefixes, &programs);
            let rates: Vec<_> =
                network.demands.iter().map(|d| (d.provider, d.rate.as_mbps_f64())).collect();
            (rates, refused)
        };
        let (rates, refused) = run(vec![wish(0, "a", 25)], vec![wish(0, "a", 1_000_000_000_000)]);
        assert_eq!(rates, [(0, 25.0), (1, 10.0)]);
        assert_eq!(refused.len(), 1);
        assert_eq!(
            refused[&1],
            "asks for more than 40.000 Mbit/s through a, which is not plausible"
        );
        let bad = [
            (
                vec![wish(0, "a", 121)],
                "asks for more than 120.000 Mbit/s through a, which is not plausible",
            ),
            (vec![wish(7, "a", 1)], "names output 7: the last is 0"),
            (vec![wish(0, "b", 1)], "names input \"b\", which is none of its own"),
            (
                vec![wish(0, "a", 1), wish(0, "a", 1)],
                "has two wishes for output 0 from a: put them together",
            ),
        ];
        for (wishes, why) in bad {
            let (rates, refused) = run(wishes, vec![]);
            assert_eq!((rates, refused[&0].as_str()), (vec![(0, 10.0), (1, 10.0)], why));
        }
    }
}
