use std::path::Path;

use super::*;

const GOOD: &str = r#"[vhost]
policy = "fair"
rate = "1 Gbit/s"
limit = "1000 packets"
tap = "fb-tap"
[[vm]]
name = "web"
socket = "/run/web.sock"
mac = "52:54:00:12:34:56"
weight = 3
rate = "100 Mbit/s"
[[vm]]
name = "db"
socket = "/run/db.sock"
"#;

fn parse_one(text: &str) -> Result<VhostConfig, String> {
    VhostConfig::parse(Path::new("v.toml"), text).map_err(|e| e.to_string())
}

#[test]
fn a_valid_file_gives_its_values() {
    let config = parse_one(GOOD).unwrap();
    let SchedulerConfig { mode, schedule, rate, burst, limit, in_buffer } = config.scheduler;
    assert_eq!((mode, schedule), (Mode::Zd, Schedule::Fair));
    assert_eq!(rate, Some(Rate::from_mbps(1000)));
    assert_eq!((burst, limit, in_buffer), (BURST, Limit::packets(1000), 82));
    let [web, db] = &config.vms[..] else { panic!("{:?}", config.vms) };
    assert_eq!(web.mac, [0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    assert_eq!((web.weight, web.rate), (3, Some(Rate::from_mbps(100))));
    assert_eq!((db.weight, db.rate), (1, None));
    assert_eq!(db.queues, 1);
    assert_eq!(db.mac[..2], [0x02, 0xfb], "a local address");
    assert_eq!(db.mac, derived_mac("db"), "always the same");
    assert!(
        matches!(config.outside, Outside::Tap { name, super_packets: true } if name == "fb-tap")
    );
}

#[test]
fn errors_name_line_and_key() {
    let cases = [
        ("tap = \"fb-tap\"\n", "", "v.toml:1: vhost.interface: missing"),
        ("tap = \"fb-tap\"", "tap = \"a b\"", "v.toml:5: vhost.tap: is not an interface"),
        (
            "tap = \"fb-tap\"",
            "tap = \"x\"\nmethod = \"xdp\"",
            "v.toml:6: vhost.method: goes with `interf",
        ),
        (
            "tap = \"fb-tap\"",
            "interface = \"no-such\"",
            "v.toml:5: vhost.interface: there is no network",
        ),
        (
            "tap = \"fb-tap\"",
            "interface = \"lo\"\nsuper_packets = false",
            "v.toml:6: vhost.super_packets: goes with",
        ),
        (
            "tap = \"fb-tap\"",
            "tap = \"x\"\ninterface = \"lo\"",
            "v.toml:5: vhost.tap: goes without",
        ),
        ("rate = \"1 Gbit/s\"", "rate = \"0 bit/s\"", "v.toml:3: vhost.rate: a rate of zero"),
        ("rate = \"1 Gbit/s\"", "burst = \"1 ms\"", "v.toml:3: vhost.burst: goes with `rate`"),
        ("rate = \"1 Gbit/s\"", "rat = 1", "v.toml:3: vhost.rat: unknown field"),
        ("1000 packets", "3 packets", "v.toml:4: vhost.limit: is too small"),
        ("1000 packets", "10 kB", "v.toml:4: vhost.limit: is too small"),
        ("policy = \"fair\"", "in_buffer = 0", "v.toml:2: vhost.in_buffer: goes with mode"),
        ("policy = \"fair\"", "mode = \"drop\"\nin_buffer = 9", "v.toml:3: vhost.in_buffer: goes"),
        ("1000 packets", "2 bdp", "v.toml:4: vhost.limit: the round-trip time is not"),
        ("1000 packets", "2000000 packets", "v.toml:4: vhost.limit: more than a million"),
        ("policy = \"fair\"", "policy = \"fifo\"", "v.toml:10: vm.weight: goes with policy"),
        ("policy = \"fair\"", "mode = \"zeroD\"", "v.toml:2: vhost.mode: unknown variant"),
        ("weight = 3", "weight = 0", "v.toml:10: vm.weight: is a ratio"),
        ("weight = 3", "queues = 0", "v.toml:10: vm.queues: is a number of pairs of rings from 1"),
        ("weight = 3", "queues = 17", "v.toml:10: vm.queues: is a number of pairs of rings from 1"),
        ("\"/run/db.sock\"", "\"/run/web.sock\"", "v.toml:14: vm.socket: another virtual machine"),
        ("\"/run/db.sock\"", "\"db.sock\"", "v.toml:14: vm.socket: must be an absolute"),
        ("name = \"db\"", "name = \"web\"", "v.toml:13: vm.name: another virtual machine"),
        ("52:54:00:12:34:56", "53:54:00:12:34:56", "v.toml:9: vm.mac: is not a unicast"),
        ("52:54:00:12:34:56", "52:54:00:12:34", "v.toml:9: vm.mac: is not a unicast"),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = parse_one(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}\n{expected}");
    }
    let none = parse_one("[vhost]\ntap = \"x\"\n").unwrap_err();
    assert!(none.starts_with("v.toml:1: vm: missing"), "{none}");
    let rate = GOOD.replace("fair", "fifo").replace("weight = 3\n", "");
    let error = parse_one(&rate).unwrap_err();
    assert!(error.starts_with("v.toml:10: vm.rate: a single queue"), "{error}");
}

#[test]
fn a_machine_may_have_several_pairs_of_rings() {
    let config = parse_one(&GOOD.replace("weight = 3", "queues = 16")).unwrap();
    assert_eq!(config.vms.iter().map(|vm| vm.queues).collect::<Vec<_>>(), [16, 1]);
}

#[test]
fn default_in_buffer_is_the_burst() {
    let in_buffer = |text: &str| parse_one(text).unwrap().scheduler.in_buffer;
    // A gigabit for a millisecond are 82.6 frames of 1514 bytes.
    assert_eq!(in_buffer(GOOD), 82);
    assert_eq!(in_buffer(&GOOD.replace("1 Gbit/s", "1 Mbit/s")), 16);
    assert_eq!(in_buffer(&GOOD.replace("rate = \"1 Gbit/s\"\n", "")), u16::MAX);
    assert_eq!(
        in_buffer(&GOOD.replace("policy = \"fair\"", "policy = \"fair\"\nin_buffer = 9")),
        9
    );
}

#[test]
fn limits_in_time_are_bytes_at_the_rate() {
    let config = parse_one(&GOOD.replace("1000 packets", "20 ms")).unwrap();
    assert_eq!(config.scheduler.limit.bytes, Some(Bytes(2_500_000)));
    assert_eq!(config.scheduler.limit.time, None, "packets are not dropped for their age");
    let without = GOOD.replace("rate = \"1 Gbit/s\"\n", "").replace("1000 packets", "20 ms");
    assert!(parse_one(&without).unwrap_err().contains("a time goes with `rate`"));
}

const DUALPI2: &str = r#"[vhost]
policy = "dualpi2"
mode = "drop"
rate = "100 Mbit/s"
tap = "fb-tap"
[[vm]]
name = "web"
socket = "/run/web.sock"
"#;

fn settings(text: &str) -> Settings {
    match parse_one(text).unwrap().scheduler.schedule {
        Schedule::DualPi2(settings) => settings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn dualpi2_has_its_own_limit_and_splits_super_packets() {
    let bytes = |n| Some(LimitValue::Bytes(Bytes(n)));
    // 250 ms at 100 Mbit/s, and at a low rate two of the longest packets.
    assert_eq!(settings(DUALPI2).limit, bytes(3_125_000));
    assert_eq!(settings(&DUALPI2.replace("100 Mbit/s", "1 Mbit/s")).limit, bytes(131_100));
    let given = DUALPI2.replace("[[vm]]", "limit = \"50 ms\"\n[[vm]]");
    assert_eq!(settings(&given).limit, bytes(625_000));
    let without = DUALPI2.replace("rate = \"100 Mbit/s\"\n", "");
    assert_eq!(settings(&without).limit, Some(LimitValue::Packets(1000)));
    let table = "{ kind = \"dualpi2\", target = \"5 ms\", coupling = 1.5, l4s_burst = \"2 ms\" }";
    let given = settings(&DUALPI2.replace("\"dualpi2\"", table));
    assert_eq!((given.target, given.coupling), (Some(Nanos::from_millis(5)), Some(1.5)));
    let rate = given.l4s_burst.and_then(|burst| burst.rate);
    assert_eq!(rate, Some(Rate::from_mbps(100)));
    let whole = |text: &str| match parse_one(text).unwrap().outside {
        Outside::Tap { super_packets, .. } => super_packets,
        Outside::Port { .. } => panic!("a port"),
    };
    assert!(!whole(DUALPI2) && whole(&DUALPI2.replace("dualpi2", "fifo")));
    assert!(whole(&DUALPI2.replace("[[vm]]", "super_packets = true\n[[vm]]")));
}

/// Twice the target of 15 ms are 375 000 bytes at 100 Mbit/s, or 248 full frames.
#[test]
fn with_zd_the_buffer_holds_the_queue_that_dualpi2_controls() {
    let zd = DUALPI2.replace("\"drop\"", "\"zd\"");
    let own = |n: u32| zd.replace("[[vm]]", &format!("in_buffer = {n}\n[[vm]]"));
    assert!(parse_one(&own(248)).is_ok());
    let table = "policy = { kind = \"dualpi2\", ";
    let cases = [
        (zd.clone(), "set mode = \"drop\", or in_buffer to at least 248, which is 30 ms"),
        (own(247), "or in_buffer to at least 248"),
        (own(248).replace("policy = \"dualpi2\"", &format!("{table}target = \"20 ms\" }}")), "331"),
        (own(300).replace("tap =", "limit = \"20 ms\"\ntap ="), "or limit to at least 30 ms"),
        (own(300).replace("rate = \"100 Mbit/s\"\n", ""), "not see them: set mode = \"drop\""),
        (own(300).replace("100 Mbit/s", "100 Gbit/s"), "not see them: set mode = \"drop\""),
    ];
    for (text, expected) in cases {
        let error = parse_one(&text).unwrap_err();
        assert!(error.starts_with("v.toml:2: vhost.policy: with mode = \"zd\""), "{error}");
        assert!(error.contains(expected) && !error.contains('\n'), "{error}\n{expected}");
    }
}

#[test]
fn errors_of_dualpi2_name_line_and_key() {
    let table = |keys: &str| DUALPI2.replace("\"dualpi2\"", &format!("{{ {keys} }}"));
    let cases = [
        (DUALPI2.replace("dualpi2", "dualpi"), "v.toml:2: vhost.policy: unknown variant"),
        (table("kind = \"sfq\""), "v.toml:2: vhost.policy: a table is of kind \"dualpi2\""),
        (table("kind = \"dualpi2\", limit = \"9 packets\""), "v.toml:2: vhost.policy: has no"),
        (table("kind = \"dualpi2\", coupling = 0.5"), "v.toml:2: vhost.policy.coupling: must"),
        (
            table("kind = \"dualpi2\", l4s_burst = \"2 ms\"")
                .replace("rate = \"100 Mbit/s\"\n", ""),
            "v.toml:2: vhost.policy: l4s_burst goes with vhost.rate",
        ),
        (format!("{DUALPI2}weight = 2\n"), "v.toml:9: vm.weight: goes with policy"),
        (format!("{DUALPI2}rate = \"1 Mbit/s\"\n"), "v.toml:9: vm.rate: a single queue"),
    ];
    for (text, expected) in cases {
        let error = parse_one(&text).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}\n{expected}");
    }
}
