//! Paths: traces, policers, ways back, sites and phases.

use super::*;

const CONDITIONS: &str = r#"name = "x"
duration = "10 s"
sites = 2
ecn = true
[path]
rate = "96 Mbit/s"
rtt = "50 ms"
queue = { kind = "fifo", limit = "2 bdp" }
steps = [{ at = "4 s", rate = "48 Mbit/s" }]
loss = { begin = "0.1 %", end = "20 %" }
jitter = "2 ms"
spread = "packet"
[[path.way]]
rate = "24 Mbit/s"
[[path.way]]
rtt = "80 ms"
[[phase]]
name = "early"
stop = "3 s"
[[phase]]
name = "late"
[[traffic]]
name = "web"
kind = "requests"
arrivals = "closed"
new_connections = true
connections = 3
phase = "late"
[[traffic]]
name = "film"
kind = "video"
rate = "5 Mbit/s"
site = 2
[[traffic]]
name = "bursts"
kind = "on_off"
rate = "50 %"
on = "200 ms"
[[arm]]
name = "nested"
sendbox = { policy = "sfq", limit = "1000 packets" }
outer = { policy = "fifo", limit = "1 MB" }
"#;

#[test]
fn paths_sites_and_phases_are_read() {
    let mut cell = parse(FilePath::new("x.toml"), CONDITIONS).unwrap().cells.remove(0);
    let ms = Nanos::from_millis;
    let Conditions { capacity, loss, jitter, ways, spread, .. } = &cell.conditions;
    let (fast, slow) = (Rate::from_mbps(96), Rate::from_mbps(48));
    assert_eq!(*capacity, Capacity::Steps(vec![(Nanos::ZERO, fast), (ms(4_000), slow)]));
    assert_eq!(*loss, Loss::Burst { begin: 0.001, end: 0.2 });
    assert_eq!((jitter.up_to, jitter.reorders, *spread), (ms(2), false, Spread::Packet));
    let ways: Vec<_> = ways.iter().map(Path::to_string).collect();
    assert_eq!(ways, ["24 Mbit/s, 50 ms", "96 Mbit/s, 80 ms"]);
    assert_eq!((cell.sites, cell.ecn), (2, true));
    assert_eq!((cell.paced, cell.largest_burst), (false, None));
    let paced = CONDITIONS.replace("ecn = true", "paced = true\nlargest_burst = 1");
    let paced = paced.replace("policy = \"fifo\"", "policy = \"pie\", target = \"5 ms\"");
    let paced = parse(FilePath::new("x.toml"), &paced).unwrap().cells.remove(0);
    assert_eq!((paced.ecn, paced.paced, paced.largest_burst), (false, true, Some(1)));
    assert_eq!(paced.arms[0].outer.map(|b| b.queue.target), Some(Some(ms(5))));
    assert_eq!(cell.phases[1], Phase { name: "late".into(), start: ms(3_000), stop: ms(10_000) });
    let TrafficKind::Requests { requests, .. } = &cell.traffic[0].kind else { panic!("requests") };
    assert_eq!((requests.arrivals, requests.new_connections), (Arrivals::Closed, true));
    assert_eq!((cell.traffic[0].start, cell.traffic[0].stop), (ms(3_000), ms(10_000)));
    assert_eq!(cell.traffic[1].from, Origin::Site(1));
    let size = Bytes(1_200);
    let film = Pattern::Video { rate: Rate::from_mbps(5), fps: 30, size };
    assert_eq!(cell.traffic[1].kind, TrafficKind::Datagrams(film));
    let bursts = Pattern::OnOff { rate: slow, size, on: ms(200), off: ms(1_000) };
    assert_eq!(cell.traffic[2].kind, TrafficKind::Datagrams(bursts));
    assert_eq!(cell.arms[0].outer.unwrap().queue.kind, QueueKind::Fifo);
    cell = cell.measured_for(ms(2_000));
    assert_eq!(cell.phases.len(), 1, "the second would begin after the end");
}

#[test]
fn a_trace_sets_the_rate_of_the_path() {
    let dir = std::env::temp_dir().join(format!("fb-trace-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("cell.trace"), "1\n2\n2\n4\n").unwrap();
    std::fs::write(dir.join("bad.trace"), "1\ntwo\n").unwrap();
    let with = |line: &str| {
        parse(&dir.join("x.toml"), &MINIMAL.replace("rate = \"96 Mbit/s\"", line))
            .map(|mut e| e.cells.remove(0))
    };
    let cell = with("trace = \"cell.trace\"").unwrap();
    assert!(matches!(cell.conditions.capacity, Capacity::Trace(_)));
    assert_eq!(cell.path.rate, Rate::from_bps(4 * 1504 * 8 * 250), "four chances in 4 ms");
    let bad = with("trace = \"bad.trace\"").unwrap_err().to_string();
    assert!(bad.contains("x.toml:4: path.trace:") && bad.contains("bad.trace:2:"), "{bad}");
    let both = with("trace = \"cell.trace\"\nrate = \"1 Mbit/s\"").unwrap_err().to_string();
    assert!(both.contains(":5: path.rate: the trace says"), "{both}");
    assert!(with("trace = \"none\"").is_err());
    let endless = with("trace = \"/dev/zero\"").unwrap_err().to_string();
    let expected =
        "x.toml:4: path.trace: /dev/zero: is no regular file: copy what it holds into one";
    assert!(endless.ends_with(expected), "{endless}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn policers_ways_back_and_paths_of_sites_are_read() {
    let with = |path: &str, rest: &str| {
        let text = MINIMAL.replace("[[traffic]]", &format!("{path}\n[[traffic]]")) + rest;
        parse(FilePath::new("x.toml"), &text).map(|mut e| e.cells.remove(0))
    };
    let policer = "policer = { rate = \"20 Mbit/s\", burst = \"60 kB\" }";
    let cell = with(policer, "").unwrap();
    assert_eq!((cell.path.rate, cell.highest_rate()), (Rate::from_mbps(20), Rate::from_mbps(20)));
    assert_eq!(cell.conditions.capacity, Capacity::Constant(Rate::from_mbps(96)));
    assert_eq!(cell.conditions.policer.unwrap().burst, Bytes(60_000));
    let cell = with("back = { rate = \"1 Mbit/s\", limit = \"20 packets\", loss = \"1 %\" }", "");
    let back =
        Back { rate: Some(Rate::from_mbps(1)), limit: Bytes(20 * 1_514), loss: Loss::Random(0.01) };
    assert_eq!(cell.unwrap().conditions.back, Some(back));
    let cell = with("[[site]]\nrtt = \"70 ms\"\n", "").unwrap();
    assert_eq!(cell.conditions.site_rtts, [Nanos::from_millis(70)]);
    for (path, rest, says) in [
        (
            "policer = { rate = \"0 bit/s\", burst = \"60 kB\" }",
            "",
            "path.policer.rate: must be above",
        ),
        (
            "policer = { rate = \"1 bit/s\", burst = \"1 kB\" }",
            "",
            "path.policer.burst: must be 1514 B",
        ),
        (&format!("ways = 2\n{policer}"), "", "path.policer: is of a path of one way"),
        ("back = {}", "", "path.back: has neither `rate` nor `loss`"),
        ("back = { limit = \"2 packets\" }", "", "path.back.limit: is of the queue at `rate`"),
        ("back = { rate = \"1 Mbit/s\", limit = \"2 B\" }", "", "path.back.limit: is 2 B here"),
        ("back = { rate = \"0 bit/s\" }", "", "path.back.rate: must be above zero"),
        ("back = { loss = \"100 %\" }", "", "path.back.loss: must be below 100 %"),
        ("[[site]]\n[[site]]", "", "site: there are only 1 `sites`"),
        ("[[site]]\nrtt = \"1 ms\"", "", "site.rtt: must be 50"),
        ("[[site]]", "[[fault]]\nat = \"1 s\"\nrtt = \"9 ms\"", "site: says how long"),
        ("", "start = \"1 s\"", "arm.start: is of a sendbox with a bundle"),
    ] {
        let error = with(path, rest).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn sites_may_have_ways_of_their_own() {
    let with = |sites: u32, ways: &str, rest: &str| {
        let text = MINIMAL.replacen("[path]", &format!("sites = {sites}\n[path]"), 1);
        let text = text.replacen("[[traffic]]", &format!("{ways}\n[[traffic]]"), 1) + rest;
        parse(FilePath::new("x.toml"), &text).map(|mut e| e.cells.remove(0))
    };
    let ways =
        "spread = \"site\"\n[[path.way]]\nrate = \"12 Mbit/s\"\n[[path.way]]\nrtt = \"70 ms\"\n";
    let cell = with(2, ways, "").unwrap();
    let Scenario { conditions, path, .. } = &cell;
    assert_eq!(conditions.spread, Spread::Site);
    let rtts = [0, 1].map(|site| conditions.site_rtt(site, path).as_millis_f64());
    assert_eq!(rtts, [50.0, 70.0]);
    assert_eq!(conditions.site_longer(1, path), Nanos::ZERO, "the way itself is longer");
    let cross = "[[traffic]]\nname = \"cross\"\nkind = \"bulk\"\nfrom = \"cross\"\n";
    let outer = "outer = { policy = \"fifo\", limit = \"9 packets\" }";
    for (sites, rest, says) in [
        (3, "", "path.spread: \"site\" needs a [[path.way]] for each site: there are 2 for 3"),
        (2, "[[site]]", "does not go with [[site]]"),
        (2, cross, "does not go with cross traffic"),
        (2, outer, "does not go with `outer` or `link`"),
    ] {
        let error = with(sites, ways, rest).unwrap_err().to_string();
        assert!(error.contains(says) && error.starts_with("x.toml:"), "{error}");
    }
}

#[test]
fn a_trace_of_delays_sets_the_round_trip_time() {
    let dir = std::env::temp_dir().join(format!("fb-delays-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("sky.delay"), "12\n7.5\n30\n").unwrap();
    std::fs::write(dir.join("bad.delay"), "12\n7,5\n").unwrap();
    let with = |line: &str| {
        parse(&dir.join("x.toml"), &MINIMAL.replace("rtt = \"50 ms\"", line))
            .map(|mut e| e.cells.remove(0))
    };
    let sky = "delay_trace = \"sky.delay\"";
    let cell = with(sky).unwrap();
    assert_eq!(cell.path.rtt, Nanos::from_millis(15), "twice the shortest");
    for (line, place, says) in [
        (
            "delay_trace = \"bad.delay\"".to_owned(),
            "x.toml:5: path.delay_trace:",
            "bad.delay:2: `7,5`",
        ),
        ("delay_trace = \"none\"".to_owned(), "x.toml:5: path.delay_trace:", "cannot be read"),
        (format!("{sky}\nrtt = \"50 ms\""), "x.toml:6: path.rtt:", "the delay_trace says"),
        (format!("ways = 2\n{sky}"), "x.toml:6: path.delay_trace:", "of one way"),
    ] {
        let error = with(&line).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(says), "{error}");
    }
    let text =
        MINIMAL.replace("rtt = \"50 ms\"", sky) + "[[fault]]\nat = \"1 s\"\nrtt = \"9 ms\"\n";
    let error = parse(&dir.join("x.toml"), &text).unwrap_err().to_string();
    assert!(error.contains("x.toml:5: path.delay_trace: says how long"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn invalid_values_are_refused_with_their_place() {
    for (from, to, line, what) in [
        ("sites = 2", "sites = 0", 3, "1 to 200"),
        ("site = 2", "site = 3", 33, "1 to 2"),
        ("{ at = \"4 s\"", "{ at = \"0 s\"", 9, "after the step before"),
        ("rate = \"48 Mbit/s\" }", "rate = \"0 Mbit/s\" }", 9, "above zero"),
        ("rate = \"96 Mbit/s\"", "rate = \"900 Gbit/s\"", 6, "packets"),
        ("end = \"20 %\"", "end = \"0 %\"", 10, "never end"),
        ("{ begin = \"0.1 %\", end = \"20 %\" }", "\"100 %\"", 10, "nothing would arrive"),
        ("rate = \"24 Mbit/s\"", "rate = \"0 bit/s\"", 14, "above zero"),
        ("stop = \"3 s\"", "stop = \"30 s\"", 19, "within the run"),
        ("phase = \"late\"", "phase = \"never\"", 28, "no [[phase]]"),
        ("connections = 3", "load = \"1 Mbit/s\"", 27, "closed loop"),
        ("rate = \"5 Mbit/s\"", "rate = \"5 Mbit/s\"\nfps = 0", 33, "1 to 1000"),
        ("on = \"200 ms\"", "on = \"0 s\"", 38, "at least 1 ms"),
        ("policy = \"fifo\"", "policy = \"codel\"", 42, "no policy"),
        ("policy = \"fifo\"", "policy = \"fifo\", target = \"5 ms\"", 42, "not of this kind"),
        ("policy = \"fifo\"", "policy = \"dualpi2\", target = \"5 s\"", 42, "at most 4 s"),
        ("kind = \"fifo\"", "kind = \"cake\"", 8, "only Linux has it"),
        ("kind = \"fifo\"", "kind = \"fifo\", ecn = true", 8, "never marks"),
        ("ecn = true", "largest_burst = 0", 4, "1 to 45 segments"),
    ] {
        assert!(CONDITIONS.contains(from), "{from}");
        let error = error(&CONDITIONS.replacen(from, to, 1));
        assert!(error.starts_with(&format!("x.toml:{line}: ")), "{to}: {error}");
        assert!(error.contains(what) && !error.contains('\n'), "{to}: {error}");
    }
}
