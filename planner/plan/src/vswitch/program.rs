//! Programs: what neighbours ask of the vSwitch, merged with what was measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

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

/// What a provider asks of its vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The tag of the view that the output numbers are from; `None` means the present view.
    #[serde(default)]
    pub view: Option<String>,
    /// The wishes by output. Outputs without a wish keep the measured demands.
    #[serde(default)]
    pub wishes: Vec<Wish>,
    /// The inputs that hints must not name.
    #[serde(default)]
    pub avoid: Vec<Avoid>,
}

/// What a provider asks for at one output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// The output of the traffic.
    pub output: Output,
    /// The input where the traffic would come in.
    pub input: String,
    /// The rate that the provider would send, in bits per second.
    pub demand: Rate,
}

/// An input that a provider does not want to use for an output: hints do not name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Avoid {
    /// The output of the traffic.
    pub output: Output,
    /// The input that is avoided.
    pub input: String,
}

/// What is wrong with a program, and in which of its fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// The field, as in `wishes[3].demand`; empty if the text is not a program at all.
    pub field: String,
    /// What is wrong with the field.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

/// The most that a provider can ask for, relative to the capacity of its interconnection or to its
/// measured rate. Demand may exceed capacity, but traffic does not grow a thousandfold in minutes.
const PLAUSIBLE_GROWTH: u64 = 4;

/// The demands and avoided inputs of a program, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Checked {
    demands: Vec<Demand>,
    avoided: BTreeSet<(u32, u32, RouterId)>,
}

/// Replaces the measured demands of providers by what their programs ask for.
///
/// `network` is the core with measured demands, and `programs` are by the index of the provider.
///
/// # Errors
/// For each provider with an invalid program, what is wrong with it, as [`check`] says. That
/// program is ignored, and those of others are used.
pub fn consolidate(
    network: &Network,
    map: &Map,
    prefixes: &BTreeMap<IpNet, Users>,
    programs: &BTreeMap<u32, Program>,
) -> (Network, BTreeMap<u32, Refusal>) {
    let outputs: Vec<RouterId> = outputs(map, prefixes).into_iter().map(|o| o.0).collect();
    let mut whole = network.clone();
    let mut refused = BTreeMap::new();
    for (provider, program) in programs {
        match check_program(network, &outputs, *provider, program) {
            Ok(Checked { demands, avoided }) => {
                // Wishes for an output replace what was measured there at all of the provider's
                // inputs.
                whole.demands.retain(|d| {
                    d.provider != *provider || !demands.iter().any(|w| w.egress == d.egress)
                });
                whole.demands.extend(demands);
                whole.avoided.extend(avoided);
            }
            Err(why) => {
                refused.insert(*provider, why);
            }
        }
    }
    whole.demands.sort_by_key(|d| (d.provider, d.entry, d.egress));
    (whole, refused)
}

/// Checks whether the program of one provider is valid.
///
/// # Errors
/// If it names an input or output that the provider does not have, or a pair of both twice. If it
/// avoids all inputs of an output. If it asks for more than four times the capacity of an
/// interconnection or, where that is unknown, than four times what the provider has sent in all.
pub fn check(
    network: &Network,
    map: &Map,
    prefixes: &BTreeMap<IpNet, Users>,
    provider: u32,
    program: &Program,
) -> Result<(), Refusal> {
    let outputs: Vec<RouterId> = outputs(map, prefixes).into_iter().map(|o| o.0).collect();
    check_program(network, &outputs, provider, program).map(drop)
}

fn check_program(
    network: &Network,
    outputs: &[RouterId],
    number: u32,
    program: &Program,
) -> Result<Checked, Refusal> {
    let refusal = |field: String, message: String| Refusal { field, message };
    let unknown = || refusal(String::new(), "is from an unknown provider".to_owned());
    let provider = network.providers.get(number as usize).ok_or_else(unknown)?;
    let name = |router: RouterId| network.topology.routers()[router.index()].name.as_str();
    let place = |field: &str, output: Output, input: &str| {
        let egress = outputs.get(output as usize).ok_or_else(|| {
            let last = match outputs.len() {
                0 => "there is none".to_owned(),
                n => format!("the last is {}", n - 1),
            };
            refusal(format!("{field}.output"), format!("there is no output {output}: {last}"))
        })?;
        let entry = provider.entries.iter().position(|e| name(e.router) == input);
        let entry = entry.ok_or_else(|| {
            refusal(format!("{field}.input"), format!("{input:?} is not one of your inputs"))
        })?;
        Ok((entry, *egress))
    };
    let measured = network.demands.iter().filter(|d| d.provider == number).map(|d| d.rate.as_bps());
    let measured = measured.fold(0u64, u64::saturating_add);
    let mut sums = vec![0u64; provider.entries.len()];
    let mut wanted: BTreeMap<(u32, RouterId), Rate> = BTreeMap::new();
    for (at, wish) in program.wishes.iter().enumerate() {
        let field = format!("wishes[{at}]");
        let (entry, egress) = place(&field, wish.output, &wish.input)?;
        sums[entry] = sums[entry].saturating_add(wish.demand.as_bps());
        let known = provider.entries[entry].capacity.map_or(measured, Rate::as_bps);
        let most = known.saturating_mul(PLAUSIBLE_GROWTH);
        if sums[entry] > most {
            let most = Rate::from_bps(most);
            let message = format!(
                "asks for more than {most} through {:?} in all: write what you will send",
                wish.input
            );
            return Err(refusal(format!("{field}.demand"), message));
        }
        if wanted.insert((entry as u32, egress), wish.demand).is_some() {
            let message = format!(
                "is the second wish for output {} from {:?}: merge them",
                wish.output, wish.input
            );
            return Err(refusal(field, message));
        }
    }
    let mut avoided = BTreeSet::new();
    for (at, avoid) in program.avoid.iter().enumerate() {
        let field = format!("avoid[{at}]");
        let (entry, egress) = place(&field, avoid.output, &avoid.input)?;
        if !avoided.insert((number, entry as u32, egress)) {
            return Err(refusal(field, "occurs twice".to_owned()));
        }
        let all =
            (0..provider.entries.len() as u32).all(|e| avoided.contains(&(number, e, egress)));
        if all {
            let message = format!("leaves no input for output {}: avoid fewer", avoid.output);
            return Err(refusal(field, message));
        }
    }
    let demand = |((entry, egress), rate)| Demand { provider: number, entry, egress, rate };
    Ok(Checked { demands: wanted.into_iter().map(demand).collect(), avoided })
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
            avoided: BTreeSet::new(),
        };
        let map = map(&network, 10);
        (network, map, [("10.0.0.0/8".parse().unwrap(), Users::behind(RouterId(1)))].into())
    }

    fn wish(output: Output, input: &str, mbps: u64) -> Wish {
        Wish { output, input: input.to_owned(), demand: Rate::from_mbps(mbps) }
    }

    #[test]
    fn a_program_replaces_measured_demands_and_a_bad_one_affects_no_other() {
        let (network, map, prefixes) = setting();
        let run = |x: Vec<Wish>, y: Vec<Wish>| {
            let programs = [
                (0, Program { wishes: x, ..Program::default() }),
                (1, Program { wishes: y, ..Program::default() }),
            ]
            .into();
            let (network, refused) = consolidate(&network, &map, &prefixes, &programs);
            let rates: Vec<_> =
                network.demands.iter().map(|d| (d.provider, d.rate.as_mbps_f64())).collect();
            (rates, refused)
        };
        let (rates, refused) = run(vec![wish(0, "a", 25)], vec![wish(0, "a", 1_000_000_000_000)]);
        assert_eq!(rates, [(0, 25.0), (1, 10.0)]);
        assert_eq!(refused.len(), 1);
        assert_eq!(
            refused[&1].to_string(),
            "wishes[0].demand: asks for more than 40.000 Mbit/s through \"a\" in all: write what you will send"
        );
        let bad = [
            (
                vec![wish(0, "a", 121)],
                "wishes[0].demand: asks for more than 120.000 Mbit/s through \"a\" in all: write what you will send",
            ),
            (vec![wish(7, "a", 1)], "wishes[0].output: there is no output 7: the last is 0"),
            (vec![wish(0, "b", 1)], "wishes[0].input: \"b\" is not one of your inputs"),
            (
                vec![wish(0, "a", 1), wish(0, "a", 1)],
                "wishes[1]: is the second wish for output 0 from \"a\": merge them",
            ),
        ];
        for (wishes, why) in bad {
            let (rates, refused) = run(wishes, vec![]);
            assert_eq!(
                (rates, refused[&0].to_string()),
                (vec![(0, 10.0), (1, 10.0)], why.to_owned())
            );
        }
    }

    #[test]
    fn avoiding_must_leave_an_input() {
        let (mut network, map, prefixes) = setting();
        network.providers[0].entries.push(Entry { router: RouterId(1), capacity: None });
        let program = |inputs: &[&str]| Program {
            avoid: inputs.iter().map(|i| Avoid { output: 0, input: (*i).to_owned() }).collect(),
            ..Program::default()
        };
        let checked = |inputs: &[&str]| {
            check(&network, &map, &prefixes, 0, &program(inputs)).map_err(|e| e.to_string())
        };
        assert_eq!(checked(&["a"]), Ok(()));
        assert_eq!(checked(&["a", "a"]).unwrap_err(), "avoid[1]: occurs twice");
        assert_eq!(
            checked(&["b", "a"]).unwrap_err(),
            "avoid[1]: leaves no input for output 0: avoid fewer"
        );
        let programs = [(0, program(&["a"]))].into();
        let (whole, refused) = consolidate(&network, &map, &prefixes, &programs);
        assert_eq!((whole.avoided, refused.len()), ([(0, 0, RouterId(1))].into(), 0));
    }
}
