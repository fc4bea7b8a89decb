use super::*;

const SERVE: &str = "[serve]\nlisten = [\"127.0.0.1:0\"]\nstate = \"s.db\"\ntopology = \"t.gml\"\nproviders = \"p.toml\"\nprefixes = \"/x.csv\"\n";

fn hash(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn operator() -> String {
    format!("[operator]\ntoken = \"{}\"\n", hash('a'))
}

fn parse(text: &str) -> Result<Config, String> {
    let (file, source) =
        forebay_config::parse::<File>(Path::new("dir/c.toml"), text).map_err(|e| e.to_string())?;
    file.check(source).map_err(|e| e.to_string())
}

#[test]
fn defaults_apply_and_paths_are_relative_to_the_file() {
    let neighbour = format!("[[neighbour]]\nname = \"video\"\ntoken = \"{}\"\n", hash('b'));
    let announce = "[announce]\njournal = \"j\"\non_death = \"withdraw\"\n";
    let config = parse(&format!("{SERVE}{}{neighbour}{announce}", operator())).unwrap();
    assert_eq!(config.state, Path::new("dir/s.db"));
    assert_eq!(config.files.prefixes.as_deref(), Some(Path::new("/x.csv")));
    assert_eq!((&config.files.demands, &config.files.links), (&None, &None));
    let links = parse(&format!("{SERVE}links = \"l.json\"\n{}", operator())).unwrap().files.links;
    assert_eq!(links.as_deref(), Some(Path::new("dir/l.json")));
    assert_eq!((config.interval, config.damping.half_life), (Duration::from_secs(300), 300_000));
    assert_eq!((config.hints.gain, config.hints.release), (0.005, 0.001));
    assert_eq!(config.files.reserve, 0.0);
    let reserve = parse(&format!("{SERVE}reserve = \"20 %\"\n{}", operator()));
    assert_eq!(reserve.unwrap().files.reserve, 0.2);
    let announce = config.announce.as_ref().unwrap();
    assert_eq!((announce.on_exit, announce.on_death), (After::Keep, After::Withdraw));
    assert_eq!(
        (announce.gobgp.as_path(), announce.journal.as_path()),
        (Path::new("gobgp"), Path::new("dir/j"))
    );
    assert_eq!(config.providers_of(&["x", "video"]), Ok(vec![1]));
    assert_eq!(
        config.providers_of(&["x"]).unwrap_err().to_string(),
        "dir/c.toml:10: neighbour.name: dir/p.toml has no provider \"video\": add it, or change the name"
    );
}

#[test]
fn hosts_are_names() {
    let names = |text: &str| parse(&format!("{SERVE}hosts = {text}\n{}", operator()));
    assert!(names("[\"planner.example.net\", \"planner\"]").is_ok());
    let error = names("[\"http://planner:8480\"]").unwrap_err();
    assert!(error.starts_with("dir/c.toml:7: serve.hosts: write the name of a host"), "{error}");
}

#[test]
fn the_default_window_is_the_interval() {
    let flows = "[flows]\nexporters = \"e.toml\"\nlisten = [\"0.0.0.0:2055\", \"[::]:2055\"]\n";
    let config = parse(&format!("{SERVE}interval = \"2 min\"\n{}{flows}", operator())).unwrap();
    assert_eq!(config.files.exporters.as_deref(), Some(Path::new("dir/e.toml")));
    let flows = config.flows.unwrap();
    assert_eq!((flows.window, flows.delay), (Duration::from_secs(120), Duration::from_secs(60)));
    assert_eq!(flows.listen.len(), 2);
    assert!(parse(&format!("{SERVE}{}", operator())).unwrap().flows.is_none());
}

/// The table `serve` without a file of prefixes, and that of the operator.
fn learning() -> String {
    SERVE.replace("prefixes = \"/x.csv\"\n", "") + &operator()
}

#[test]
fn prefixes_are_in_a_file_or_learned() {
    let bmp = "[bmp]\nlisten = [\"0.0.0.0:11019\", \"[::]:11019\"]\nnext_hops = \"hops.csv\"\n\
               [[bmp.router]]\naddress = \"192.0.2.1\"\nname = \"rome\"\n\
               [[bmp.router]]\naddress = \"::ffff:192.0.2.2\"\noptional = true\n";
    let config = parse(&(learning() + bmp)).unwrap();
    assert_eq!(config.files.prefixes, None);
    assert_eq!(config.files.next_hops.as_deref(), Some(Path::new("dir/hops.csv")));
    let bmp = config.bmp.unwrap();
    assert_eq!(bmp.listen.len(), 2);
    let names: Vec<_> = bmp.routers.iter().map(|r| (&r.name[..], r.optional)).collect();
    assert_eq!(names, [("rome", false), ("192.0.2.2", true)]);
    assert_eq!((bmp.hold, bmp.settle), (Duration::from_secs(120), Duration::from_secs(120)));
    assert_eq!((bmp.silence, bmp.limits.routes), (Duration::from_secs(600), 4_000_000));
    assert!(parse(&format!("{SERVE}{}", operator())).unwrap().bmp.is_none());
}

#[test]
fn errors_of_bmp_name_line_and_key() {
    let bmp =
        |more: &str| format!("[bmp]\nlisten = [\"[::1]:0\"]\nnext_hops = \"h.csv\"\n{more}\n");
    let router = |address: &str| format!("[[bmp.router]]\naddress = \"{address}\"\n");
    let (good, learning) = (router("192.0.2.1"), learning());
    let cases = [
        (learning.clone(), "1: serve.prefixes: write the file of users' prefixes, or learn them"),
        (
            format!("{SERVE}{}{}{good}", operator(), bmp("")),
            "6: serve.prefixes: prefixes are learned by [bmp]: remove one of the two",
        ),
        (learning.clone() + &bmp(&router("rome")), "12: bmp.router.address: write the address"),
        (learning.clone() + &bmp(&(good.clone() + &good)), "14: bmp.router.address: occurs twice"),
        (learning.clone() + &bmp("router = []"), "11: bmp.router: write 1 to 256 routers"),
        (learning.clone() + &bmp(&format!("routes = 0\n{good}")), "11: bmp.routes: write a number"),
        (
            learning.clone() + &bmp(&format!("hold = \"0 s\"\n{good}")),
            "11: bmp.hold: write a time from 1 s to 1440 min",
        ),
        (
            learning + &bmp(&good).replace("[::1]:0", "here"),
            "9: bmp.listen: write an address and a port",
        ),
    ];
    for (text, expected) in cases {
        let error = parse(&text).unwrap_err();
        assert!(error.starts_with(&format!("dir/c.toml:{expected}")), "{error}, not {expected}");
    }
}

#[test]
fn errors_name_line_and_key() {
    let operator = operator();
    let whole = format!("{SERVE}{operator}");
    let neighbour = |name: &str, letter| {
        format!("[[neighbour]]\nname = \"{name}\"\ntoken = \"{}\"\n", hash(letter))
    };
    let cases = [
        (whole.replace("127.0.0.1:0", "localhost"), "2: serve.listen: write an address and a port"),
        (
            whole.replace("127.0.0.1:0", "[::]:80"),
            "2: serve.listen: tokens would cross the network",
        ),
        (whole.replace("\"127.0.0.1:0\"", ""), "2: serve.listen: write 1 to 16 addresses"),
        (
            format!("{SERVE}interval = \"0 s\"\n{operator}"),
            "7: serve.interval: write a time from 1 s",
        ),
        (
            format!("{SERVE}reserve = \"95 %\"\n{operator}"),
            "7: serve.reserve: write at most \"90 %\"",
        ),
        (
            format!("{SERVE}release = \"5 %\"\ngain = \"5 %\"\n{operator}"),
            "8: serve.gain: must be above",
        ),
        (format!("{SERVE}[operator]\n"), "7: operator.token: has no token"),
        (format!("{SERVE}[operator]\ntoken = \"secret\"\n"), "8: operator.token: write sha256:"),
        (
            format!("{whole}[[neighbour]]\nname = \"x\"\ncertificate = \"{}\"\n", hash('b')),
            "11: neighbour.certificate: no client is asked for a certificate",
        ),
        (
            format!("{whole}{}{}", neighbour("x", 'b'), neighbour("x", 'c')),
            "13: neighbour.name: occurs twice",
        ),
        (
            format!("{whole}{}{}", neighbour("x", 'b'), neighbour("y", 'b')),
            "13: neighbour.name: has the token",
        ),
        (format!("{whole}{}", neighbour("x", 'a')), "10: neighbour.name: has the token"),
        (
            format!("{whole}[routers]\ntoken = \"{}\"\n", hash('a')),
            "9: routers: have the token or certificate of another client",
        ),
        (format!("{whole}[damping]\nreuse = 0.5\n"), "9: damping.reuse: write a number"),
        (
            format!("{whole}[damping]\nsuppress = 1000.0\n"),
            "9: damping.suppress: write a number above",
        ),
        (
            format!("{whole}[announce]\njournal = \"j\"\non_exit = \"stay\"\n"),
            "11: announce.on_exit: unknown variant",
        ),
        (format!("{whole}x = 1\n"), "9: operator.x: unknown field"),
        (
            format!("{whole}[flows]\nexporters = \"e\"\nlisten = [\"here\"]\n"),
            "11: flows.listen: write an address and a port",
        ),
        (
            format!("{whole}[flows]\nexporters = \"e\"\nlisten = []\n"),
            "11: flows.listen: write 1 to 16 addresses",
        ),
        (
            format!(
                "{whole}[flows]\nexporters = \"e\"\nlisten = [\"[::]:1\"]\nwindow = \"9 ms\"\n"
            ),
            "12: flows.window: write a time from 1 s",
        ),
        (
            format!(
                "{whole}[flows]\nexporters = \"e\"\nlisten = [\"[::]:1\"]\ndelay = \"121 min\"\n"
            ),
            "12: flows.delay: write a time up to",
        ),
        (
            format!(
                "{SERVE}demands = \"d\"\n{operator}[flows]\nexporters = \"e\"\nlisten = [\"[::]:1\"]\n"
            ),
            "7: serve.demands: demands are measured by [flows]",
        ),
    ];
    for (text, expected) in cases {
        let error = parse(&text).unwrap_err();
        assert!(error.starts_with(&format!("dir/c.toml:{expected}")), "{error}, not {expected}");
    }
}

#[cfg(feature = "kafka")]
#[test]
fn flow_records_may_come_from_kafka() {
    let flows = "[flows]\nexporters = \"e.toml\"\n";
    let kafka = |more: &str| parse(&format!("{SERVE}{}{flows}[kafka]\n{more}", operator()));
    let whole = "brokers = [\"kafka1:9092\", \"[2001:db8::1]:9092\"]\ntopic = \"flow-messages\"\n";
    let config = kafka(&format!("{whole}collector = \"goflow2\"\n")).unwrap();
    assert!(config.flows.unwrap().listen.is_empty());
    let read = config.kafka.unwrap();
    assert_eq!((read.brokers.len(), read.start), (2, Start::Latest));
    assert_eq!(read.relay, forebay_plan::flows::relayed::Relay::Goflow2);
    for (text, wrong) in [
        (format!("{whole}collector = \"nfdump\"\n"), "kafka.collector: \"nfdump\" is no known"),
        (
            "brokers = [\"kafka1\"]\ntopic = \"a\"\ncollector = \"goflow2\"\n".to_owned(),
            "a host and a port",
        ),
        ("brokers = []\ntopic = \"a\"\ncollector = \"goflow2\"\n".to_owned(), "1 to 16 brokers"),
        (
            "brokers = [\"a:1\"]\ntopic = \"a b\"\ncollector = \"goflow2\"\n".to_owned(),
            "kafka.topic",
        ),
    ] {
        let error = kafka(&text).unwrap_err();
        assert!(error.contains(wrong), "{error}");
    }
    let error = parse(&format!("{SERVE}{}[kafka]\n{whole}collector = \"akvorado\"\n", operator()));
    assert!(error.unwrap_err().contains("write [flows]"));
    let error = parse(&format!("{SERVE}{}{flows}", operator())).unwrap_err();
    assert!(error.contains("flows.listen: write 1 to 16 addresses"), "{error}");
}

#[test]
fn the_history_may_go_to_clickhouse() {
    let clickhouse = |text: &str| {
        parse(&format!("{SERVE}{}[clickhouse]\n{text}", operator())).map(|c| c.clickhouse.unwrap())
    };
    let local = clickhouse("url = \"http://127.0.0.1:8123\"\n").unwrap();
    assert_eq!((local.database.as_str(), local.user.as_str()), ("default", "default"));
    let text = "url = \"https://ch.example\"\nauthority = \"ca.pem\"\ndatabase = \"net\"\n\
                user = \"forebay\"\npassword = \"key\"\n";
    let remote = clickhouse(text).unwrap();
    assert_eq!(remote.access.token.as_deref(), Some(Path::new("dir/key")));
    assert_eq!((remote.access.url.port, remote.database.as_str()), (443, "net"));
    for (text, wrong) in [
        ("url = \"127.0.0.1:8123\"\n", "write where the database is"),
        ("url = \"http://192.0.2.1:8123\"\n", "clear text"),
        ("url = \"https://ch.example\"\n", "needs `authority`"),
        ("url = \"http://[::1]:8123\"\nuser = \"a b\"\n", "clickhouse.user: write letters"),
    ] {
        let error = clickhouse(text).unwrap_err();
        assert!(error.contains(wrong), "{error}");
    }
}
