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
    assert_eq!(config.files.prefixes, Path::new("/x.csv"));
    assert_eq!((&config.files.demands, &config.files.links), (&None, &None));
    let links = parse(&format!("{SERVE}links = \"l.json\"\n{}", operator())).unwrap().files.links;
    assert_eq!(links.as_deref(), Some(Path::new("dir/l.json")));
    assert_eq!((config.interval, config.damping.half_life), (Duration::from_secs(300), 300_000));
    assert_eq!((config.hints.gain, config.hints.release), (0.005, 0.001));
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
fn the_default_window_is_the_interval() {
    let flows = "[flows]\nexporters = \"e.toml\"\nlisten = [\"0.0.0.0:2055\", \"[::]:2055\"]\n";
    let config = parse(&format!("{SERVE}interval = \"2 min\"\n{}{flows}", operator())).unwrap();
    assert_eq!(config.files.exporters.as_deref(), Some(Path::new("dir/e.toml")));
    let flows = config.flows.unwrap();
    assert_eq!((flows.window, flows.delay), (Duration::from_secs(120), Duration::from_secs(60)));
    assert_eq!(flows.listen.len(), 2);
    assert!(parse(&format!("{SERVE}{}", operator())).unwrap().flows.is_none());
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
