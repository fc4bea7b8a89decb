//! Metrics of IS-IS at routers that run FRR: traffic of both address families takes the other way
//! when they are carried out, and everything is as before when they are withdrawn.

use super::frr::{self, Lab, PLACES, Protocol, neighbours, until};
use forebay_plan::topology::LinkId;
use forebay_plan::weights::Range;
use forebay_serve::igp::config::{Config, Igp, Level};
use forebay_serve::igp::frr::{Frr, Setting, Wanted};
use forebay_serve::igp::metrics::Instance;
use forebay_serve::igp::{How, Made, Session, apply, look, range, withdraw};

/// One area, level 2, and one topology for both families.
static ISIS: Protocol =
    Protocol { name: "isis", daemons: &["isisd"], configure, file: "igp = \"isis\"\n", router: "" };

/// The links with metric 10 have FRR's usual metric, and none in the configuration.
fn configure(number: usize) -> Vec<String> {
    let mut text = String::new();
    let both = " ip router isis core\n ipv6 router isis core\n";
    for (other, metric) in neighbours(number) {
        text += &format!(
            "interface fb-{}\n{both} isis network point-to-point\n isis hello-interval 1\n",
            PLACES[other]
        );
        if metric != 10 {
            text += &format!(" isis metric {metric}\n");
        }
    }
    if PLACES[number] == "d" {
        text += &format!("interface fb-users\n{both} isis passive\n");
    }
    let id = number + 1;
    // The interval of LSPs is 30 s otherwise, and counts from the line with the address on.
    text += &format!(
        "router isis core\n lsp-gen-interval 1\n is-type level-2-only\n \
         net 49.0001.0000.0000.000{id}.00\n"
    );
    vec![text]
}

#[test]
fn metrics_move_routes_of_real_routers_and_are_withdrawn() {
    frr::metrics_move_routes_and_are_withdrawn(&ISIS);
}

/// The link from `a` to `b`.
const A_TO_B: LinkId = LinkId(0);

#[test]
fn styles_and_levels_are_those_of_real_routers() {
    let Some(lab) = Lab::start(&ISIS) else { return };
    until("IS-IS", || lab.ways() == ["fb-b", "fb-b"]);
    let (config, network) = (lab.config(), frr::network());
    let session = Session { config: &config, network: &network };
    assert_eq!(range(&session).unwrap(), Range::WIDE);
    let a = config.routers["a"].clone();
    let to_b = |metric| {
        let setting = Setting { instance: Instance::Level2, wanted: Wanted::Metric(metric) };
        Frr::new(&a).set("fb-b", &[setting]).map_err(|e| e.to_string())
    };
    let metric = || Frr::new(&a).read().unwrap()["fb-b"].metrics.level2.unwrap();

    // What FRR takes is what the ranges say. It takes 2^24 - 1 too, with which a link carries
    // nothing.
    to_b(Range::WIDE.metric).unwrap();
    assert_eq!((metric().value, metric().configured), (16_777_214, true));
    let error = to_b(Range::WIDE.metric + 2).unwrap_err();
    assert!(error.contains("% Unknown command"), "{error}");
    let error = look(&session, &[(A_TO_B, Range::WIDE.metric + 1)]).unwrap_err().to_string();
    assert!(error.contains("16777215 of fb-b of a, to b, is above 16777214"), "{error}");
    lab.shell("a", &["configure terminal", "interface fb-b", "no isis metric"]);
    for style in ["narrow", "transition"] {
        let line = format!("metric-style {style}");
        lab.shell("a", &["configure terminal", "router isis core", &line]);
        let found = range(&session).unwrap();
        assert_eq!(found, if style == "narrow" { Range::NARROW } else { Range::TRANSITION });
        to_b(found.metric).unwrap();
        let error = to_b(found.metric + 1).unwrap_err();
        assert!(error.contains("% Configuration failed"), "{error}");
        let error = look(&session, &[(A_TO_B, 64)]).unwrap_err().to_string();
        assert!(error.contains("the metric 64 of fb-b of a, to b, is above 63"), "{error}");
        assert_eq!(look(&session, &[(A_TO_B, 62)]).unwrap().order.steps.len(), 1);
    }
    lab.shell("a", &["configure terminal", "interface fb-b", "no isis metric"]);
    lab.shell("a", &["configure terminal", "router isis core", "no metric-style"]);

    // With two levels of different metrics the file says which is meant.
    lab.shell("a", &["configure terminal", "router isis core", "is-type level-1-2"]);
    assert!(look(&session, &[]).unwrap().differing.is_empty());
    lab.shell("a", &["configure terminal", "interface fb-b", "isis metric level-1 7"]);
    let before = lab.shell("a", &["show running-config"]);
    let error = look(&session, &[]).unwrap_err().to_string();
    let expected = "fb-b of a, to b, has 7 at level 1, and 10 at level 2: write `level`";
    assert!(error.contains(expected), "{error}");
    let how = How { reason: "a test", anyway: false, now: 0 };
    let mut told = Vec::new();
    for (level, one, two) in [(Level::Two, 7, 40), (Level::One, 40, 10)] {
        let config = at_level(&config, level);
        let session = Session { config: &config, ..session };
        let looked = look(&session, &[(A_TO_B, 40)]).unwrap();
        apply(&session, &looked, how, &|| false, &mut |made: Made| told.push(made.text)).unwrap();
        let metrics = Frr::new(&a).read().unwrap()["fb-b"].metrics;
        let values = (metrics.level1.unwrap().value, metrics.level2.unwrap().value);
        assert_eq!(values, (one, two));
        withdraw(&session, &|| false, &mut |_| {}).unwrap();
        assert_eq!(lab.shell("a", &["show running-config"]), before);
    }
    assert!(told[0].starts_with("a to b (fb-b): 10 to 40; "), "{told:?}");
    assert!(told[1].starts_with("a to b (fb-b): 7 to 40; "), "{told:?}");
}

/// Returns the configuration with this level. Only `a` has level 1.
fn at_level(config: &Config, level: Level) -> Config {
    let mut config = config.clone();
    if level == Level::One {
        config.routers.retain(|name, _| name == "a");
    }
    for router in config.routers.values_mut() {
        router.igp = Igp::Isis { level: Some(level) };
    }
    config
}
