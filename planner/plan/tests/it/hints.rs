//! Hints: which neighbours get them, when, and in which form.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use forebay_plan::allocate::{Method, Wba};
use forebay_plan::hints::{self, Accepts, Hints, Profile, Setting, State, alto, bgp};
use forebay_plan::input::Users;
use forebay_plan::network::{Demand, Entry, Network, Provider};
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Config, Routing, Scope};
use forebay_plan::synthetic::{Draw, SetUp, plane};
use forebay_plan::topology::{Link, Router, RouterId, Topology};
use forebay_plan::vswitch::{self, Map};
use forebay_units::Rate;
use ipnet::IpNet;
use proptest::prelude::*;

const K: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// The configuration of plans in these tests.
fn plan() -> Config {
    Config { method: Method::Wba(Wba::default()), scope: Scope::All, sub_flows: None, paths: K }
}

struct Case {
    network: Network,
    map: Map,
    prefixes: BTreeMap<IpNet, Users>,
    profiles: Vec<Profile>,
}

impl Case {
    fn new(network: Network, prefixes: &[(&str, u32)], profiles: Vec<Profile>) -> Self {
        let prefixes = prefixes
            .iter()
            .map(|(p, router)| (p.parse().unwrap(), Users::behind(RouterId(*router))));
        let map = vswitch::map(&network, 1_000_000);
        Self { prefixes: prefixes.collect(), map, network, profiles }
    }

    /// Returns the core network as the planner derives it.
    fn core(&self) -> Network {
        self.map.core(&self.network).0
    }

    fn hints(&self, gain: f64, last: &Hints) -> Hints {
        let core = self.core();
        let setting = Setting {
            network: &core,
            map: &self.map,
            prefixes: &self.prefixes,
            profiles: &self.profiles,
            asn: Some(64500),
        };
        let config = hints::Config { plan: plan(), gain, release: gain / 5.0 };
        hints::hints(setting, &mut PathCache::new(K), &config, last).unwrap()
    }

    fn lines(&self, hints: &Hints) -> Vec<String> {
        let all = bgp::announcements(hints, &self.network, &self.profiles, Some(64500));
        bgp::exabgp(&all, false).lines().map(str::to_owned).collect()
    }
}

/// Entries `in1` and `in2`, with a path from each to `out`; all traffic of both providers comes in
/// at `in1`.
fn two_paths(mbps: u64) -> Network {
    let routers =
        ["in1", "in2", "out"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let link = |from| Link {
        from: RouterId(from),
        to: RouterId(2),
        capacity: Some(Rate::from_mbps(100)),
        metric: 1,
    };
    let entry = |router| Entry { router: RouterId(router), capacity: None };
    let provider = |name: &str, participates| Provider {
        name: name.to_owned(),
        participates,
        weight: 1.0,
        entries: vec![entry(0), entry(1)],
    };
    let demand =
        |provider| Demand { provider, entry: 0, egress: RouterId(2), rate: Rate::from_mbps(mbps) };
    Network {
        topology: Topology::new("two".to_owned(), routers, vec![link(0), link(1)], Vec::new()),
        providers: vec![provider("joins", true), provider("stays", false)],
        demands: vec![demand(0), demand(1)],
        avoided: BTreeSet::new(),
    }
}

fn profile(change: impl Fn(&mut Accepts)) -> Profile {
    let mut accepts = Accepts::default();
    change(&mut accepts);
    let peers = ["192.0.2.1", "192.0.2.2"].map(|a| Some(a.parse().unwrap())).to_vec();
    Profile { accepts, peers, ..Profile::default() }
}

fn case(mbps: u64, change: impl Fn(&mut Accepts)) -> Case {
    Case::new(two_paths(mbps), &[("10.0.0.0/16", 2)], vec![profile(change), profile(|_| {})])
}

#[test]
fn a_participant_gets_a_hint_for_another_entry() {
    let case = case(100, |a| a.med = true);
    let found = case.hints(0.005, &Hints::default());
    assert!((found.before - 100e6).abs() < 1e3 && (found.after - 200e6).abs() < 1e3, "{found}");
    assert_eq!(found.neighbours.len(), 1);
    let joins = &found.neighbours[0];
    let hint = &joins.hints[0];
    assert_eq!((joins.hints.len(), hint.entry.as_str(), hint.state), (1, "in2", State::New));
    assert!((joins.gain - 100e6).abs() < 1e3 && (hint.demand - 100e6).abs() < 1.0);
    assert_eq!((hint.before.len(), hint.before[0].entry.as_str()), (1, "in1"));
    let text = found.to_string();
    assert!(
        text.contains("joins      10.0.0.0/16        in2  in1  100.000 Mbit/s      MED     new"),
        "{text}"
    );
}

#[test]
fn hints_use_the_attributes_that_a_neighbour_accepts() {
    let told = |change: &dyn Fn(&mut Accepts)| {
        let case = case(100, change);
        case.lines(&case.hints(0.005, &Hints::default()))
    };
    let at = |peer: &str, rest: &str| format!("neighbor 192.0.2.{peer} announce route {rest}");
    assert_eq!(
        told(&|a| a.med = true),
        [at("1", "10.0.0.0/16 next-hop self med 100"), at("2", "10.0.0.0/16 next-hop self med 0")]
    );
    let communities = ("64500:120".parse().unwrap(), "64500:1:80".parse().unwrap());
    assert_eq!(
        told(&|a| a.communities = Some(communities)),
        [
            at("1", "10.0.0.0/16 next-hop self large-community [ 64500:1:80 ]"),
            at("2", "10.0.0.0/16 next-hop self community [ 64500:120 ]"),
        ]
    );
    assert_eq!(
        told(&|_| {}),
        [at("2", "10.0.0.0/17 next-hop self"), at("2", "10.0.128.0/17 next-hop self")]
    );
    assert_eq!(
        told(&|a| a.longest_v4 = 16),
        [
            at("1", "10.0.0.0/16 next-hop self as-path [ 64500 64500 64500 ]"),
            at("2", "10.0.0.0/16 next-hop self"),
        ]
    );
    // Without any of these, or without room, there is no hint, and a note has the reason.
    for (change, why) in [
        (
            &(|a: &mut Accepts| a.longest_v4 = 15) as &dyn Fn(&mut Accepts),
            "1 prefixes that BGP cannot carry a hint for",
        ),
        (&|a: &mut Accepts| a.prefixes = 1, "1 prefixes beyond its limit"),
    ] {
        let case = case(100, change);
        let found = case.hints(0.005, &Hints::default());
        assert!(found.neighbours[0].hints.is_empty() && found.to_string().contains(why), "{found}");
        assert_eq!(found.after, found.before);
    }
    // A neighbour that reads the service needs no BGP.
    let case = case(100, |a| (a.api, a.longest_v4) = (true, 15));
    let found = case.hints(0.005, &Hints::default());
    assert_eq!((found.neighbours[0].hints[0].method, case.lines(&found).len()), (None, 0));
    assert_eq!(
        serde_json::to_string(&found.neighbours[0].published()).unwrap(),
        r#"{"version":1,"neighbour":"joins","hints":[{"prefix":"10.0.0.0/16","entry":"in2","state":"new"}]}"#
    );
}

#[test]
fn a_hint_stays_until_nothing_is_lost_without_it() {
    let first = case(100, |a| a.med = true).hints(0.005, &Hints::default());
    // The hint was followed, and traffic fell: it still gains a little, less than a new one must.
    let with = |mbps: u64, followed: bool| {
        let mut case = case(mbps, |a| a.med = true);
        case.network.demands[0].entry = u32::from(followed);
        case
    };
    for followed in [true, false] {
        let later = with(51, followed).hints(0.03, &first);
        assert_eq!(later.neighbours[0].hints[0].state, State::Kept, "{later}");
        assert_eq!(later.neighbours[0].followed, Some(f64::from(u8::from(followed))));
        assert!(!later.changes());
        // A new hint would not be given for that gain.
        assert!(with(51, false).hints(0.03, &Hints::default()).neighbours.is_empty());
        // Without congestion the hint is withdrawn.
        let gone = with(40, followed).hints(0.03, &later);
        assert!(gone.neighbours[0].hints.is_empty() && gone.changes(), "{gone}");
        assert_eq!(gone.neighbours[0].withdrawn[0].prefix, "10.0.0.0/16".parse().unwrap());
        assert!(with(40, followed).hints(0.03, &gone).neighbours.is_empty());
    }
}

#[test]
fn written_hints_are_read_back() {
    let found = case(100, |_| {}).hints(0.005, &Hints::default());
    let text = serde_json::to_string_pretty(&found).unwrap();
    assert_eq!(hints::read("h.json".as_ref(), &text).unwrap(), found);
    let cases = [
        (
            text.replace("\"version\": 1", "\"version\": 2"),
            "h.json:1: is of version 2, but this program reads version 1",
        ),
        (
            text.replace("\"part\": 1.0", "\"part\": 7.0"),
            "h.json:14: 10.0.0.0/16 is not a valid hint",
        ),
        (
            text.replace("10.0.0.0/16\",\n          \"of", "10.0.0.0/16\"\n          \"of"),
            "h.json:15: is no JSON here: expected `,` or `}`",
        ),
        (String::new(), "h.json:1: ends early: is the file complete?"),
    ];
    for (text, expected) in cases {
        let error = hints::read("h.json".as_ref(), &text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn impossible_hints_are_withdrawn() {
    let first = case(100, |a| a.med = true).hints(0.005, &Hints::default());
    let mut leaves = case(100, |a| a.med = true);
    leaves.network.providers[0].participates = false;
    let later = leaves.hints(0.005, &first);
    assert!(later.neighbours[0].hints.is_empty());
    assert_eq!(later.neighbours[0].withdrawn.len(), 1);
    let mut other = case(100, |a| a.med = true);
    other.network.providers[0].name = "renamed".to_owned();
    let later = other.hints(0.005, &first);
    let gone = later.of("joins").unwrap();
    assert_eq!((gone.withdrawn.len(), gone.hints.len()), (1, 0));
    assert_eq!(later.of("renamed").unwrap().hints.len(), 1);
}

#[test]
fn a_large_prefix_moves_in_part() {
    // 150 from one provider: 100 fit at one entry, so about a third must come in at the other.
    let mut case = case(150, |_| {});
    case.network.demands.pop();
    let found = case.hints(0.005, &Hints::default());
    let hints = &found.neighbours[0].hints;
    let moved: f64 = hints.iter().map(|h| h.demand).sum();
    assert!((50e6..=100e6).contains(&moved), "{found}");
    assert!(
        hints.iter().all(|h| h.entry == "in2"
            && h.of == "10.0.0.0/16".parse().unwrap()
            && h.prefix != h.of)
    );
    assert!((found.after - 150e6).abs() < 5e6, "{found}");
    // Not where another prefix is inside, which could overlap the halves.
    case.prefixes.insert("10.0.7.0/24".parse().unwrap(), Users::behind(RouterId(1)));
    let found = case.hints(0.005, &Hints::default());
    assert!(found.neighbours.iter().flat_map(|n| &n.hints).all(|h| h.prefix == h.of), "{found}");
}

#[test]
fn alto_maps_rank_entries_and_disclose_nothing_else() {
    let case = case(100, |a| a.med = true);
    let found = case.hints(0.005, &Hints::default());
    let maps = alto::maps(&found.neighbours[0], &case.network, &case.profiles[0], 0);
    let network = &maps.network_map["network-map"];
    assert_eq!(network["users.1"]["ipv4"][0], "10.0.0.0/16");
    assert_eq!(network["entry.0"]["ipv4"][0], "192.0.2.1/32");
    let costs = &maps.cost_map["cost-map"];
    assert_eq!(
        (&costs["entry.0"]["users.1"], &costs["entry.1"]["users.1"]),
        (&2.into(), &1.into())
    );
    let tag = &maps.network_map["meta"]["vtag"];
    assert_eq!(maps.cost_map["meta"]["dependent-vtags"][0], *tag);
    assert_eq!(maps.cost_map["meta"]["cost-type"]["cost-mode"], "ordinal");
    assert!(!serde_json::to_string(&maps).unwrap().contains("\"out\""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// On random networks only participants get hints, and hints name the provider's own entries
    /// and stay within its limit.
    ///
    /// The traffic carried does not fall, and the hints of every neighbour gain as much as they
    /// must. Nothing changes if hints are followed and demands stay.
    #[test]
    fn hints_gain_and_settle(seed in any::<u64>(), participating in 1usize..6, budget in 1usize..40) {
        let mut draw = Draw::new(seed);
        let set_up = SetUp { providers: 6, participating, entries: 3, ..SetUp::default() };
        let network = set_up.network(plane(8, 1.4, &mut draw), &mut draw);
        let prefixes: Vec<(String, u32)> = (0..8).flat_map(|r| (0..3).map(move |p| (format!("10.{r}.{p}.0/24"), r))).collect();
        let prefixes: Vec<(&str, u32)> = prefixes.iter().map(|(p, r)| (p.as_str(), *r)).collect();
        let profiles = network.providers.iter().enumerate().map(|(n, provider)| Profile {
            accepts: Accepts { med: n % 2 == 0, prefixes: budget, ..Accepts::default() },
            peers: provider.entries.iter().zip(1..).map(|(_, e)| Some(format!("192.0.{n}.{e}").parse().unwrap())).collect(),
            ..Profile::default()
        });
        let profiles = profiles.collect();
        let mut case = Case::new(network, &prefixes, profiles);
        let found = case.hints(0.005, &Hints::default());
        prop_assert!(found.after >= found.before * (1.0 - 1e-9), "{found}");
        for neighbour in &found.neighbours {
            let number = case.network.providers.iter().position(|p| p.name == neighbour.name).unwrap();
            let provider = &case.network.providers[number];
            prop_assert!(provider.participates);
            prop_assert!(neighbour.hints.is_empty() || neighbour.gain >= 0.005 * found.before * (1.0 - 1e-9));
            for hint in &neighbour.hints {
                let own = |e: &Entry| case.network.topology.routers()[e.router.index()].name == hint.entry;
                prop_assert!(provider.entries.iter().any(own));
            }
        }
        let announced = bgp::announcements(&found, &case.network, &case.profiles, Some(64500));
        let mut told: BTreeMap<&str, BTreeSet<IpNet>> = BTreeMap::new();
        for a in &announced {
            told.entry(a.neighbour.as_str()).or_default().insert(a.prefix);
        }
        prop_assert!(told.values().all(|prefixes| prefixes.len() <= budget), "{told:?}");

        // All neighbours follow their hints. The predicted traffic is carried, if all must get at
        // least what they had before the hints. A later plan guarantees what they have by then, and
        // may carry more or less.
        let present = Routing::present(&case.core(), &mut PathCache::new(K), &plan().method).unwrap();
        case.network.demands = followed(&case, &found);
        let come = Routing::inside(&case.core(), &mut PathCache::new(K), &plan(), &present).unwrap().total();
        prop_assert!((come - found.after).abs() <= 1e-3 * found.after, "{come}: {found}");
        let again = case.hints(0.005, &found);
        for neighbour in &again.neighbours {
            prop_assert!(neighbour.followed.is_none_or(|f| f > 0.999), "{again}");
        }
    }
}

/// Returns the demands if all hints are followed.
fn followed(case: &Case, hints: &Hints) -> Vec<Demand> {
    let mut out: Vec<Demand> = Vec::new();
    let by_name = case.network.topology.by_name();
    let mut moved: BTreeMap<(u32, RouterId), f64> = BTreeMap::new();
    for neighbour in &hints.neighbours {
        let number = case.network.providers.iter().position(|p| p.name == neighbour.name).unwrap();
        for hint in &neighbour.hints {
            let egress = by_name[hint.router.as_str()];
            let all: u64 = case
                .network
                .demands
                .iter()
                .filter(|d| (d.provider as usize, d.egress) == (number, egress))
                .map(|d| d.rate.as_bps())
                .sum();
            let entry = case.network.providers[number]
                .entries
                .iter()
                .position(|e| e.router == by_name[hint.entry.as_str()])
                .unwrap();
            *moved.entry((number as u32, egress)).or_default() += hint.demand / all as f64;
            out.push(Demand {
                provider: number as u32,
                entry: entry as u32,
                egress,
                rate: Rate::from_bps_f64(hint.demand),
            });
        }
    }
    for demand in &case.network.demands {
        let left = 1.0 - moved.get(&(demand.provider, demand.egress)).copied().unwrap_or(0.0);
        out.push(Demand { rate: demand.rate.scaled(left.max(0.0)), ..*demand });
    }
    out.retain(|d| d.rate > Rate::ZERO);
    out
}
