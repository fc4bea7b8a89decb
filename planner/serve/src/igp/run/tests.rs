use std::fs;
use std::os::unix::fs::PermissionsExt;

use forebay_plan::network::{Demand, Entry, Provider};
use forebay_plan::topology::{Link, Router as Node, RouterId};
use forebay_units::Rate;

use super::*;
use crate::igp::config::Level;

/// A shell of one router: a file for each interface has its configured metric, or nothing.
const SHELL: &str = r#"#!/bin/sh
cd "$1" || exit 1
shift
if [ -e broken ]; then echo 'failed to connect to any daemons.' >&2; exit 1; fi
while [ $# -gt 0 ]; do
	case "$2" in
	'show running-config')
		for i in fb-*; do
			echo "interface $i"
			[ ! -s "$i" ] || echo " ip ospf cost $(cat "$i")"
			echo exit
		done ;;
	'show ip ospf interface json')
		separator=
		printf '{"interfaces":{'
		for i in fb-*; do
			printf '%s"%s":{"cost":%s}' "$separator" "$i" "$([ -s "$i" ] && cat "$i" || echo 10)"
			separator=,
		done
		echo '}}' ;;
	'interface '*) interface=${2#interface } ;;
	'ip ospf cost '*) [ -e deaf ] || echo "${2#ip ospf cost }" >"$interface" ;;
	'no ip ospf cost') : >"$interface" ;;
	'configure terminal') ;;
	*) echo "% Unknown command: $2" ;;
	esac
	shift 2
done
"#;

/// The same with IS-IS: a file for each interface and level, and others for the number of
/// neighbours and the style of metrics.
const ISIS_SHELL: &str = r#"#!/bin/sh
cd "$1" || exit 1
shift
while [ $# -gt 0 ]; do
	case "$2" in
	'show running-config')
		for i in fb-*.2; do
			echo "interface ${i%.2}"
			echo ' ip router isis core'
			for l in 1 2; do
				[ ! -s "${i%.2}.$l" ] || echo " isis metric level-$l $(cat "${i%.2}.$l")"
			done
			echo exit
		done
		echo 'router isis core'
		[ ! -e style ] || echo " metric-style $(cat style)" ;;
	'show isis interface detail')
		echo 'Area core:'
		for i in fb-*.2; do
			echo "  Interface: ${i%.2}, State: Up, Active, Circuit Id: 0x0"
			for l in 1 2; do
				f="${i%.2}.$l"
				echo "    Level-$l Information:"
				n="$([ -e neighbours ] && cat neighbours || echo 1)"
				echo "      Metric: $([ -s "$f" ] && cat "$f" || echo 10), Active neighbors: $n"
			done
		done ;;
	'interface '*) interface=${2#interface } ;;
	'isis metric level-'*)
		words=${2#isis metric level-}
		echo "${words#* }" >"$interface.${words% *}" ;;
	'no isis metric level-'*) : >"$interface.${2#no isis metric level-}" ;;
	'configure terminal') ;;
	*) echo "% Unknown command: $2" ;;
	esac
	shift 2
done
"#;

/// The protocol of a laboratory's routers.
struct Kind {
    shell: &'static str,
    /// Lines of the file of routers.
    file: &'static str,
    /// The ends of the names of an interface's files.
    instances: &'static [&'static str],
}

const OSPF: Kind = Kind { shell: SHELL, file: "", instances: &[""] };
const ISIS: Kind = Kind { shell: ISIS_SHELL, file: "igp = \"isis\"\n", instances: &[".1", ".2"] };

/// Users at D send 100 Mbit/s from A, over B, whose links have 50; the way over C has 100.
/// Both ways have the metric 20, and C's 30.
struct Lab {
    dir: PathBuf,
    config: Config,
    network: Network,
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

const NOW: u64 = 1_795_352_400_000;

fn how(anyway: bool) -> How<'static> {
    How { reason: "a test", anyway, now: NOW }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Lab {
    fn new(name: &str) -> Self {
        Self::of(name, &OSPF)
    }

    fn of(name: &str, kind: &Kind) -> Self {
        let dir = std::env::temp_dir().join(format!("fb-igp-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let shell = dir.join("shell");
        fs::write(&shell, kind.shell).unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
        let pairs = [(0, 1, 10, 50), (1, 3, 10, 50), (0, 2, 15, 100), (2, 3, 15, 100)];
        let links = pairs.iter().flat_map(|&(a, b, metric, mbps)| {
            [(a, b), (b, a)].map(|(from, to)| Link {
                from: RouterId(from),
                to: RouterId(to),
                capacity: Some(Rate::from_mbps(mbps)),
                metric,
            })
        });
        let links: Vec<Link> = links.collect();
        let mut text = "journal = \"journal\"\nsettle = \"0 ms\"\n".to_owned();
        text += kind.file;
        for (router, name) in NAMES.iter().enumerate() {
            let own = dir.join(name);
            fs::create_dir_all(&own).unwrap();
            let command = [shell.as_path(), own.as_path()].map(|p| p.to_str().unwrap().to_owned());
            text += &format!("[[router]]\nname = \"{name}\"\nvtysh = {command:?}\n");
            for link in links.iter().filter(|l| l.from.index() == router) {
                let to = NAMES[link.to.index()];
                text += &format!("[[router.link]]\nto = \"{to}\"\ninterface = \"fb-{to}\"\n");
                // The metric 10 is that of an interface without one in its configuration.
                let metric =
                    if link.metric == 10 { String::new() } else { link.metric.to_string() };
                for instance in kind.instances {
                    fs::write(own.join(format!("fb-{to}{instance}")), &metric).unwrap();
                }
            }
        }
        fs::write(dir.join("routers.toml"), text).unwrap();
        let routers = NAMES.map(|n| Node { name: n.to_owned(), serves: true }).to_vec();
        let network = Network {
            topology: Topology::new("lab".to_owned(), routers, links, Vec::new()),
            providers: vec![Provider {
                name: "x".to_owned(),
                participates: true,
                weight: 1.0,
                entries: vec![Entry { router: RouterId(0), capacity: None }],
            }],
            demands: vec![Demand {
                provider: 0,
                entry: 0,
                egress: RouterId(3),
                rate: Rate::from_mbps(100),
            }],
            avoided: Default::default(),
        };
        let config = Config::load(&dir.join("routers.toml")).unwrap();
        Self { dir, config, network }
    }

    fn session(&self) -> Session<'_> {
        Session { config: &self.config, network: &self.network }
    }

    fn state(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for name in NAMES {
            let files = fs::read_dir(self.dir.join(name)).unwrap();
            for file in files.map(Result::unwrap) {
                let link = format!("{name} {}", file.file_name().to_str().unwrap());
                all.push((link, fs::read_to_string(file.path()).unwrap().trim().to_owned()));
            }
        }
        all.sort();
        all
    }

    fn apply(&self, wanted: &[(LinkId, u32)]) -> Result<Vec<String>, Error> {
        let looked = look(&self.session(), wanted)?;
        let mut told = Vec::new();
        let mut tell = |made: Made| told.push(made.text);
        apply(&self.session(), &looked, how(false), &|| false, &mut tell).map(|()| told)
    }

    fn withdraw(&self) -> Result<Vec<String>, Error> {
        let mut told = Vec::new();
        withdraw(&self.session(), &|| false, &mut |made| told.push(made.text)).map(|()| told)
    }
}

/// From a over b: 40. From a over c: 30 and no less.
const WANTED: [(LinkId, u32); 2] = [(LinkId(0), 30), (LinkId(2), 10)];

#[test]
fn metrics_are_changed_and_brought_back() {
    let lab = Lab::new("all");
    let first = lab.state();
    let looked = look(&lab.session(), &WANTED).unwrap();
    assert_eq!(lab.session().fullest(&looked.order.before), "the fullest link has 200 % (a - b)");
    assert_eq!((looked.order.steps.len(), looked.differing.len()), (1, 0), "{looked:?}");
    assert_eq!(lab.state(), first, "a look changes nothing");

    let told = lab.apply(&WANTED).unwrap();
    assert_eq!(told, ["a to b (fb-b): 10 to 30; the fullest link has 100 % (a - c); a test"]);
    assert!(lab.state().contains(&("a fb-b".to_owned(), "30".to_owned())), "{:?}", lab.state());
    // Nothing changes where nothing differs, and the journal keeps the first metrics.
    assert_eq!(lab.apply(&WANTED).unwrap(), Vec::<String>::new());
    let looked = look(&lab.session(), &WANTED).unwrap();
    assert_eq!(looked.differing, ["a to b has 30, and 10 in the topology"]);
    lab.apply(&[(LinkId(0), 40)]).unwrap();

    let told = lab.withdraw().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("a to b (fb-b): 40 to 10; "), "{told:?}");
    assert_eq!(lab.state(), first, "without a metric in the configuration, as before");
    assert_eq!(lab.withdraw().unwrap(), Vec::<String>::new());
}

#[test]
fn a_step_that_overloads_a_link_is_refused() {
    let mut lab = Lab::new("overload");
    for metric in [(LinkId(0), 40), (LinkId(4), 16)] {
        lab.network.topology.set_metric(metric.0, metric.1);
    }
    lab.apply(&[(LinkId(0), 40), (LinkId(4), 16)]).unwrap();
    // Only the link to c changes, so that it ends there.
    assert_eq!(lab.apply(&[(LinkId(4), 60)]).unwrap().len(), 1);
    let before = lab.state();
    let looked = look(&lab.session(), &[(LinkId(4), 16)]).unwrap();
    let mut forged = looked.order.clone();
    forged.before.load = 0.5;
    let mut between = forged.steps[0];
    between.fullest.load = 1.5;
    forged.steps.insert(0, between);
    let looked = Looked { order: forged, ..looked };
    let mut told = Vec::new();
    let mut run =
        |anyway| apply(&lab.session(), &looked, how(anyway), &|| false, &mut |m| told.push(m.text));
    let error = run(false).unwrap_err().to_string();
    assert!(error.contains("150 % of its capacity") && error.contains("--anyway"), "{error}");
    assert_eq!(lab.state(), before, "nothing was changed");
    run(true).unwrap();
    assert_eq!(told.len(), 2);
}

#[test]
fn a_router_that_fails_ends_the_changes_and_the_rest_can_be_brought_back() {
    let lab = Lab::new("faults");
    let first = lab.state();
    // A router that answers but does not take the metric.
    fs::write(lab.dir.join("b/deaf"), "").unwrap();
    // Links of a, and of b to a (1): the order is by load and then by link.
    let wanted = [(LinkId(0), 30), (LinkId(1), 30)];
    let error = lab.apply(&wanted).unwrap_err();
    assert_eq!(error.to_string(), "b: fb-a has 10 instead of 30 after the change");
    fs::remove_file(lab.dir.join("b/deaf")).unwrap();
    assert_ne!(lab.state(), first);
    lab.withdraw().unwrap();
    assert_eq!(lab.state(), first);

    fs::write(lab.dir.join("c/broken"), "").unwrap();
    let error = look(&lab.session(), &wanted).unwrap_err().to_string();
    assert!(error.starts_with("c: ") && error.contains("failed to connect"), "{error}");
    fs::remove_file(lab.dir.join("c/broken")).unwrap();
    let looked = look(&lab.session(), &wanted).unwrap();
    let error = apply(&lab.session(), &looked, how(false), &|| true, &mut |_| {});
    assert!(error.unwrap_err().to_string().starts_with("stopped after 0 of 2 changes"));
    assert_eq!(lab.state(), first);
}

#[test]
fn a_configuration_that_does_not_fit_is_an_error() {
    let mut lab = Lab::new("unfit");
    let fails = |lab: &Lab, wanted: &[(LinkId, u32)], expected: &str| {
        let error = look(&lab.session(), wanted).unwrap_err().to_string();
        assert!(error.contains("routers.toml: ") && error.contains(expected), "{error}");
    };
    fs::remove_file(lab.dir.join("a/fb-b")).unwrap();
    fails(&lab, &[], "fb-b of a, to b, has no OSPF at the router");
    let a = lab.config.routers.get_mut("a").unwrap();
    a.interfaces.remove("b");
    assert!(look(&lab.session(), &[]).is_ok());
    fails(&lab, &WANTED, "the link from a to b changes, and has no interface here");
    let a = lab.config.routers.get_mut("a").unwrap();
    a.igp = Igp::Ospf { v3: true };
    let error = look(&lab.session(), &[]).unwrap_err().to_string();
    assert!(error.contains("Unknown command: show ipv6 ospf6 interface json"), "{error}");
    let mut a = lab.config.routers.remove("a").unwrap();
    a.igp = Igp::Ospf { v3: false };
    a.interfaces.insert("d".to_owned(), "fb-d".to_owned());
    lab.config.routers.insert("a".to_owned(), a.clone());
    fails(&lab, &[], "the topology has no link from a to d");
    lab.config.routers.insert("z".to_owned(), a);
    lab.config.routers.remove("a");
    fails(&lab, &[], "the topology has no router \"z\"");
}

#[test]
fn two_processes_do_not_change_metrics_at_once() {
    let lab = Lab::new("lock");
    let looked = look(&lab.session(), &WANTED).unwrap();
    let _held = Lock::of(&lab.config.journal, Duration::ZERO).unwrap();
    let error = apply(&lab.session(), &looked, how(false), &|| false, &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("is in use by another"));
}

#[test]
fn metrics_that_change_again_and_again_are_damped() {
    let lab = Lab::new("damping");
    let change = |metric: u32, how: How<'_>| {
        let looked = look(&lab.session(), &[(LinkId(0), metric)]).unwrap();
        apply(&lab.session(), &looked, how, &|| false, &mut |_| {})
    };
    let at = |minutes: u64| How { now: NOW + minutes * 60_000, ..how(false) };
    for number in 0..4 {
        assert_eq!(damped_for(&lab.session(), NOW).unwrap(), None);
        change(40 + number, at(0)).unwrap();
    }
    // The penalty is 4000, and accepted from 1000 on: two half-lives of an hour.
    let wait = damped_for(&lab.session(), NOW).unwrap().unwrap();
    assert_eq!(wait.as_secs(), 7200);
    let before = lab.state();
    let error = change(50, at(119)).unwrap_err().to_string();
    assert!(error.contains("changed too often") && error.contains("in 1 min"), "{error}");
    assert_eq!(lab.state(), before, "nothing was changed");
    // What is there already is no change, and the operator may decide otherwise.
    change(43, at(1)).unwrap();
    change(44, How { anyway: true, ..at(2) }).unwrap();
    assert!(change(45, at(120)).is_err(), "that change counts too");
    change(45, at(200)).unwrap();
    // Bringing the earlier metrics back never waits, and forgets nothing of damping.
    lab.withdraw().unwrap();
    let half = Config { half_life: Duration::from_secs(1), ..lab.config.clone() };
    let session = Session { config: &half, network: &lab.network };
    assert_eq!(damped_for(&session, NOW + 13_000_000).unwrap(), None);
    fs::write(lab.dir.join("journal.damping"), "x").unwrap();
    let error = damped_for(&lab.session(), NOW).unwrap_err().to_string();
    assert!(error.contains("journal.damping:1: ") && error.contains("remove it"), "{error}");
}

#[test]
fn metrics_of_both_levels_are_changed_and_brought_back() {
    let lab = Lab::of("isis", &ISIS);
    let first = lab.state();
    assert_eq!(range(&lab.session()).unwrap(), Range::WIDE);
    let told = lab.apply(&WANTED).unwrap();
    assert_eq!(told, ["a to b (fb-b): 10 to 30; the fullest link has 100 % (a - c); a test"]);
    for level in ["a fb-b.1", "a fb-b.2"] {
        assert!(lab.state().contains(&(level.to_owned(), "30".to_owned())), "{:?}", lab.state());
    }
    lab.apply(&[(LinkId(0), 40)]).unwrap();
    let told = lab.withdraw().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(lab.state(), first, "without a metric in the configuration, as before");
}

#[test]
fn one_level_changes_alone_and_both_must_agree_otherwise() {
    let mut lab = Lab::of("levels", &ISIS);
    fs::write(lab.dir.join("a/fb-b.1"), "7").unwrap();
    let first = lab.state();
    let error = look(&lab.session(), &WANTED).unwrap_err().to_string();
    let expected = "fb-b of a, to b, has 7 at level 1, and 10 at level 2: write `level`";
    assert!(error.contains(expected), "{error}");
    for (level, told, changed) in [
        (Level::One, "a to b (fb-b): 7 to 30; ", "a fb-b.1"),
        (Level::Two, "a to b (fb-b): 10 to 30; ", "a fb-b.2"),
    ] {
        for router in lab.config.routers.values_mut() {
            router.igp = Igp::Isis { level: Some(level) };
        }
        let first_told = lab.apply(&WANTED).unwrap().remove(0);
        assert!(first_told.starts_with(told), "{first_told}");
        let differ: Vec<_> = lab.state().into_iter().filter(|one| !first.contains(one)).collect();
        assert_eq!(differ, [(changed.to_owned(), "30".to_owned())]);
        // What is brought back is what was changed, even if the levels are not told apart now.
        for router in lab.config.routers.values_mut() {
            router.igp = Igp::Isis { level: None };
        }
        lab.withdraw().unwrap();
        assert_eq!(lab.state(), first);
    }
}

#[test]
fn a_metric_that_several_neighbours_share_does_not_change() {
    let lab = Lab::of("lan", &ISIS);
    let first = lab.state();
    lab.apply(&WANTED).unwrap();
    fs::write(lab.dir.join("a/neighbours"), "2").unwrap();
    let error = look(&lab.session(), &[(LinkId(0), 40)]).unwrap_err().to_string();
    assert!(error.contains("fb-b of a, to b, has 2 neighbours: its metric is"), "{error}");
    assert!(look(&lab.session(), &WANTED).is_ok(), "nothing changes there");
    lab.withdraw().unwrap();
    fs::remove_file(lab.dir.join("a/neighbours")).unwrap();
    assert_eq!(lab.state(), first);
}

#[test]
fn narrow_metrics_and_their_paths_have_their_limits() {
    let mut lab = Lab::of("narrow", &ISIS);
    for (style, expected) in [("narrow", Range::NARROW), ("transition", Range::TRANSITION)] {
        fs::write(lab.dir.join("a/style"), style).unwrap();
        assert_eq!(range(&lab.session()).unwrap(), expected, "one router is enough");
        let error = look(&lab.session(), &[(LinkId(0), 64)]).unwrap_err().to_string();
        assert!(error.contains("the metric 64 of fb-b of a, to b, is above 63"), "{error}");
        assert!(look(&lab.session(), &[(LinkId(0), 63)]).is_ok());
        // b has wide metrics, and its way to a leads over d and c then.
        assert!(look(&lab.session(), &[(LinkId(1), Range::WIDE.metric)]).is_ok());
    }
    fs::write(lab.dir.join("a/style"), "narrow").unwrap();
    // From d to a: over b 10 + 1000, and 10 + 1013 at most. The links of b and c to a have no
    // interface here.
    for (router, link) in [("b", LinkId(1)), ("c", LinkId(5))] {
        lab.config.routers.get_mut(router).unwrap().interfaces.remove("a");
        lab.network.topology.set_metric(link, 1000);
    }
    let from_d = |metric| [(LinkId(3), metric), (LinkId(7), metric)];
    assert!(look(&lab.session(), &from_d(23)).is_ok());
    let error = look(&lab.session(), &from_d(24)).unwrap_err().to_string();
    assert!(error.contains("would be 1024 long, and these routers use none above 1023"), "{error}");
}

#[test]
fn a_journal_of_another_protocol_is_an_error() {
    for (kind, other, name) in
        [(&OSPF, Igp::Isis { level: None }, "ospf"), (&ISIS, Igp::Ospf { v3: false }, "isis")]
    {
        let mut lab = Lab::of(&format!("other-{name}"), kind);
        lab.apply(&WANTED).unwrap();
        let looked = look(&lab.session(), &[(LinkId(0), 40)]).unwrap();
        for router in lab.config.routers.values_mut() {
            router.igp = other;
        }
        let error = apply(&lab.session(), &looked, how(false), &|| false, &mut |_| {}).unwrap_err();
        for error in [error, lab.withdraw().unwrap_err()] {
            let expected = format!("use --withdraw with igp = {name:?} first");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}
