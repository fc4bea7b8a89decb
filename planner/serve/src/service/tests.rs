use std::path::{Path, PathBuf};

use forebay_plan::paths::PathCache;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::routes;

/// The time at which the tests start.
const NOW: u64 = 1_800_000_000_000;

const TOPOLOGY: &str = r#"{"directed": true, "name": "two",
"nodes": [{"id": 1, "label": "in1"}, {"id": 2, "label": "in2"}, {"id": 3, "label": "secretout"}, {"id": 4, "label": "in3"}],
"links": [{"source": 1, "target": 3, "capacity": "100 Mbit/s"}, {"source": 2, "target": 3, "capacity": "100 Mbit/s"},
{"source": 4, "target": 3, "capacity": "100 Mbit/s"}]}"#;
const PROVIDERS: &str = r#"asn = 64500
[[provider]]
name = "video"
accepts = { med = true }
[[provider.entry]]
router = "in1"
capacity = "200 Mbit/s"
peer = "192.0.2.1"
[[provider.entry]]
router = "in2"
capacity = "200 Mbit/s"
peer = "192.0.2.2"
[[provider]]
name = "games"
accepts = { api = true }
[[provider.entry]]
router = "in1"
[[provider.entry]]
router = "in3"
"#;
const DEMANDS: &str =
    "provider,entry,router,demand\nvideo,in1,secretout,100 Mbit/s\ngames,in1,secretout,20 Mbit/s\n";

struct Setup {
    dir: PathBuf,
    service: Service,
    paths: PathCache,
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn hash(token: &str) -> String {
    crate::token::Hash::of(token.as_bytes()).to_string()
}

fn open(dir: &Path) -> Service {
    let config = Config::load(&dir.join("c.toml")).unwrap();
    let fixed = Fixed::read(&config.files).unwrap();
    let names: Vec<&str> = fixed.file.providers.iter().map(|p| p.name.as_str()).collect();
    let numbers = config.providers_of(&names).unwrap();
    Service::new(config, fixed, numbers, NOW).unwrap()
}

impl Setup {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("fb-service-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let config = format!(
            "[serve]\nlisten = [\"127.0.0.1:0\"]\nstate = \"s.db\"\ntopology = \"t.json\"\nproviders = \"p.toml\"\n\
             prefixes = \"x.csv\"\ndemands = \"d.csv\"\n[operator]\ntoken = \"{}\"\n[routers]\ntoken = \"{}\"\n[[neighbour]]\nname = \"games\"\n\
             token = \"{}\"\n[[neighbour]]\nname = \"video\"\ntoken = \"{}\"\n",
            hash("operator"),
            hash("routers"),
            hash("games"),
            hash("video"),
        );
        let prefixes =
            "prefix,router\n10.0.0.0/16,secretout\n2001:db8::/32,secretout\n10.9.0.0/16,in1\n";
        for (name, text) in [
            ("c.toml", config.as_str()),
            ("t.json", TOPOLOGY),
            ("p.toml", PROVIDERS),
            ("x.csv", prefixes),
            ("d.csv", DEMANDS),
        ] {
            std::fs::write(dir.join(name), text).unwrap();
        }
        let service = open(&dir);
        let paths = PathCache::new(service.config().hints.plan.paths);
        Self { dir, service, paths }
    }

    fn round(&mut self, now: u64) -> Result<Done, RoundError> {
        self.service.round(&mut self.paths, None, now)
    }

    fn ask(
        &self,
        who: Who,
        method: &str,
        path: &str,
        body: &str,
        now: u64,
    ) -> (u16, Value, Answer) {
        let route = routes::find(method, path).unwrap();
        let request = Request { route, who, kind: "", body: body.as_bytes(), now };
        let answer = self.service.answer(&request);
        let value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        (answer.status, value, answer)
    }

    /// Returns the answer to `games` (0) or `video` (1).
    fn get(&self, at: usize, path: &str) -> Value {
        let (status, value, _) = self.ask(Who::Neighbour(at), "GET", path, "", NOW);
        assert_eq!(status, 200, "{value}");
        value
    }

    fn put(&self, at: usize, program: &Value, now: u64) -> (u16, Value) {
        let (status, value, _) =
            self.ask(Who::Neighbour(at), "PUT", "/v1/program", &program.to_string(), now);
        (status, value)
    }

    /// Opens the same state again.
    fn again(&mut self) {
        let other = self.dir.join("other.toml");
        let text = std::fs::read_to_string(self.dir.join("c.toml")).unwrap();
        std::fs::write(&other, text.replace("s.db", "unused.db")).unwrap();
        let mut config = Config::load(&other).unwrap();
        config.state = self.dir.join("unused.db");
        let fixed = Fixed::read(&config.files).unwrap();
        // The database is locked until the first service is gone.
        self.service = Service::new(config, fixed, vec![1, 0], NOW).unwrap();
        self.service = open(&self.dir);
    }
}

const GAMES: usize = 0;
const VIDEO: usize = 1;

fn wish(mbps: u64) -> Value {
    json!({"wishes": [{"output": 0, "input": "in1", "demand": mbps * 1_000_000}]})
}

#[test]
fn a_round_gives_hints_that_survive_a_restart() {
    let mut setup = Setup::new("restart");
    let (status, value, answer) = setup.ask(Who::Neighbour(VIDEO), "GET", "/v1/hints", "", NOW);
    assert_eq!((status, &value["error"]["code"]), (503, &json!("no_round")));
    assert_eq!(answer.headers, [("retry-after", "5".to_owned())]);
    let done = setup.round(NOW).unwrap();
    assert!(
        (done.before - 100e6).abs() < 1e3 && (115e6..=120e6 + 1e3).contains(&done.after),
        "{done:?}"
    );
    assert!(done.changed && done.hints > 0);
    let (video, games) = (setup.get(VIDEO, "/v1/hints"), setup.get(GAMES, "/v1/hints"));
    let program = json!({"wishes": [], "avoid": [{"output": 1, "input": "in3"}]});
    assert_eq!(setup.put(GAMES, &program, NOW).0, 200);
    let before = setup.get(GAMES, "/v1/program");
    let view = setup.get(VIDEO, "/v1/vswitch");
    setup.again();
    assert_eq!(setup.get(VIDEO, "/v1/hints"), video);
    assert_eq!(setup.get(GAMES, "/v1/hints"), games);
    assert_eq!(setup.get(GAMES, "/v1/program"), before);
    assert_eq!(setup.get(VIDEO, "/v1/vswitch"), view);
    // Hints are changes to those in force, so the second round has nothing new.
    let done = setup.round(NOW + 1).unwrap();
    assert!((done.round, done.changed) == (2, false), "{done:?}");
    assert_eq!(setup.get(VIDEO, "/v1/hints"), video);
}

#[test]
fn demand_over_a_full_link_is_estimated() {
    let mut setup = Setup::new("links");
    let write = |dir: &Path, name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
    let less = DEMANDS.replace("100 Mbit/s", "80 Mbit/s");
    write(&setup.dir, "d.csv", &less);
    // All measured demands fit, and there is no file of link loads.
    assert_eq!(setup.round(NOW).unwrap().hints, 0);
    assert_eq!(setup.service.state(NOW)["estimated"], Value::Null);
    let config = std::fs::read_to_string(setup.dir.join("c.toml")).unwrap();
    let config = config.replace("\"d.csv\"\n", "\"d.csv\"\nlinks = \"l.json\"\n");
    write(&setup.dir, "c.toml", &config);
    let carried = |rate: &str| {
        format!("[{{\"from\": \"in1\", \"to\": \"secretout\", \"carried\": \"{rate}\"}}]")
    };
    write(&setup.dir, "l.json", &carried("99 Mbit/s"));
    setup.again();
    let done = setup.round(NOW + 1).unwrap();
    let state = setup.service.state(NOW + 1);
    assert_eq!(state["estimated"], 2);
    assert!((state["report"]["demand"].as_f64().unwrap() - 200e6).abs() < 1.0, "{state}");
    assert!(done.hints > 0 && done.after > 150e6, "{done:?}");
    // The file is read again for each round, and errors are reported.
    let hints = setup.get(VIDEO, "/v1/hints");
    write(&setup.dir, "l.json", &carried("fast"));
    let error = setup.round(NOW + 2).unwrap_err().to_string();
    assert!(error.contains("l.json:1: \"fast\" is not a rate"), "{error}");
    assert_eq!(setup.get(VIDEO, "/v1/hints"), hints);
    write(&setup.dir, "l.json", &carried("50 Mbit/s"));
    setup.round(NOW + 3).unwrap();
    let state = setup.service.state(NOW + 3);
    assert_eq!(state["estimated"], 0);
    assert!((state["report"]["demand"].as_f64().unwrap() - 100e6).abs() < 1.0, "{state}");
}

#[test]
fn a_plan_leaves_the_reserve_of_each_link_free() {
    let mut setup = Setup::new("reserve");
    let config = setup.dir.join("c.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replacen("[operator]", "reserve = \"60 %\"\n[operator]", 1))
        .unwrap();
    setup.again();
    // Each of the three links counts as one of 40 Mbit/s, so that 80 of video and 20 of games fit.
    let done = setup.round(NOW).unwrap();
    assert!((done.before - 40e6).abs() < 1e3, "{done:?}");
    assert!(done.after > done.before && done.after <= 100e6 + 1e3, "{done:?}");
}

#[test]
fn hints_do_not_name_avoided_inputs() {
    let mut setup = Setup::new("avoid");
    std::fs::write(
        setup.dir.join("d.csv"),
        DEMANDS.replace("100 Mbit/s", "10 Mbit/s").replace("20 Mbit/s", "150 Mbit/s"),
    )
    .unwrap();
    setup.round(NOW).unwrap();
    let hints = setup.get(GAMES, "/v1/hints");
    assert!(hints["hints"].as_array().unwrap().iter().any(|h| h["entry"] == "in3"), "{hints}");
    let outputs = setup.get(GAMES, "/v1/vswitch")["outputs"].as_array().unwrap().len();
    let avoid: Vec<Value> = (0..outputs).map(|o| json!({"output": o, "input": "in3"})).collect();
    assert_eq!(setup.put(GAMES, &json!({ "avoid": avoid }), NOW).0, 200);
    assert_eq!(setup.get(GAMES, "/v1/program")["state"], "waiting");
    setup.round(NOW + 1).unwrap();
    assert_eq!(setup.get(GAMES, "/v1/program")["state"], "taken");
    let after = setup.get(GAMES, "/v1/hints");
    assert_eq!(after["hints"], json!([]), "what was in force is withdrawn");
    assert_eq!(after["version"], hints["version"].as_u64().unwrap() + 1);
}

#[test]
fn an_invalid_program_is_refused_by_field_and_changes_nothing() {
    let mut setup = Setup::new("wrong");
    assert_eq!(setup.put(VIDEO, &wish(1), NOW).0, 503, "there was no round");
    setup.round(NOW).unwrap();
    // The same as what was measured, so that nothing changes for the other neighbour.
    assert_eq!(setup.put(VIDEO, &wish(100), NOW).0, 200);
    let held = setup.get(VIDEO, "/v1/program");
    let games = setup.get(GAMES, "/v1/hints");
    let huge =
        json!({"wishes": [{"output": 0, "input": "in1", "demand": 1_000_000_000_000_000_000u64}]});
    let cases = [
        (huge.to_string(), 400, "wishes[0].demand"),
        (wish(801).to_string(), 422, "wishes[0].demand"),
        (wish(1).to_string().replace("in1", "in3"), 422, "wishes[0].input"),
        (wish(1).to_string().replace("\"output\":0", "\"output\":99"), 422, "wishes[0].output"),
        ("{\"view\": 1}".to_owned(), 400, "view"),
        ("not JSON".to_owned(), 400, ""),
    ];
    let mut now = NOW;
    for (body, status, field) in cases {
        // The requests are far apart, so that none is damped.
        now += 100_000_000;
        let (got, value, _) = setup.ask(Who::Neighbour(VIDEO), "PUT", "/v1/program", &body, now);
        assert_eq!((got, value["error"]["field"].as_str()), (status, Some(field)), "{value}");
        assert!(!value["error"]["message"].as_str().unwrap().is_empty());
    }
    let (status, value) = setup.put(VIDEO, &json!({"view": "old"}), now);
    assert_eq!((status, value["error"]["field"].as_str()), (409, Some("view")));
    assert_eq!(setup.get(VIDEO, "/v1/program"), held);
    setup.round(now).unwrap();
    assert_eq!(setup.get(VIDEO, "/v1/program")["state"], "taken");
    assert_eq!(setup.get(GAMES, "/v1/hints")["version"], games["version"]);
}

#[test]
fn flapping_is_damped_and_affects_no_other_neighbour() {
    let mut setup = Setup::new("flap");
    setup.round(NOW).unwrap();
    let taken: Vec<u16> = (0..6).map(|n| setup.put(VIDEO, &wish(50 + n), NOW).0).collect();
    assert_eq!(taken, [200, 200, 200, 200, 429, 429]);
    let (_, value, answer) = setup.ask(Who::Neighbour(VIDEO), "PUT", "/v1/program", "{}", NOW);
    assert_eq!(value["error"]["code"], "damped");
    // The penalty falls from 4000 to 1000, halving every five minutes.
    assert_eq!(answer.headers, [("retry-after", "601".to_owned())]);
    assert_eq!(setup.put(GAMES, &json!({"wishes": []}), NOW).0, 200);
    // Other neighbours are not affected, and a restart keeps the penalty.
    setup.again();
    assert_eq!(setup.put(VIDEO, &wish(1), NOW + 590_000).0, 429);
    assert_eq!(setup.put(VIDEO, &wish(1), NOW + 601_000).0, 200);
    assert_eq!(setup.get(VIDEO, "/v1/program")["version"], 5);
    // The same program again is no change.
    for _ in 0..20 {
        assert_eq!(setup.put(GAMES, &json!({"wishes": []}), NOW).0, 200);
    }
    assert_eq!(setup.get(GAMES, "/v1/program")["version"], 1);
}

#[test]
fn a_program_for_an_old_view_lapses_with_a_reason() {
    let mut setup = Setup::new("lapse");
    setup.round(NOW).unwrap();
    assert_eq!(setup.put(VIDEO, &wish(50), NOW).0, 200);
    let prefixes = "prefix,router\n10.0.0.0/16,secretout\n10.9.0.0/16,in1\n";
    std::fs::write(setup.dir.join("x.csv"), prefixes).unwrap();
    setup.again();
    let mut listener = setup.service.listen(VIDEO).unwrap();
    setup.round(NOW + 1).unwrap();
    let program = setup.get(VIDEO, "/v1/program");
    assert_eq!(
        (&program["state"], &program["reason"]["field"]),
        (&json!("lapsed"), &json!("view"))
    );
    let first = listener.try_next().unwrap();
    let second = listener.try_next().unwrap();
    assert!(first.contains("\"waiting\"") && second.contains("\"lapsed\""), "{first}{second}");
    assert!(second.starts_with("event: state\nid: ") && second.ends_with("}\n\n"));
}

#[test]
fn invalid_demands_change_nothing() {
    let mut setup = Setup::new("demands");
    setup.round(NOW).unwrap();
    let hints = setup.get(VIDEO, "/v1/hints");
    std::fs::write(
        setup.dir.join("d.csv"),
        "provider,entry,router,demand\nvideo,in9,secretout,1\n",
    )
    .unwrap();
    let error = setup.round(NOW + 1).unwrap_err().to_string();
    assert!(error.contains("d.csv:2: the topology has no router \"in9\""), "{error}");
    assert_eq!(setup.get(VIDEO, "/v1/hints"), hints);
    let state = setup.service.state(NOW + 2);
    assert!(state["error"].as_str().unwrap().contains("d.csv:2"), "{state}");
    std::fs::write(setup.dir.join("d.csv"), DEMANDS).unwrap();
    setup.round(NOW + 3).unwrap();
    assert_eq!(setup.service.state(NOW + 4)["error"], Value::Null);
    // With a file of demands the operator does not put them.
    let (status, ..) = setup.ask(Who::Operator, "PUT", "/operator/demands", "[]", NOW);
    assert_eq!(status, 409);
}

#[test]
fn a_token_gives_access_to_its_own_data_only() {
    let setup = Setup::new("who");
    let who = |token: &str| setup.service.who(&Shown::new(Some(token.as_bytes()), None));
    assert_eq!(who("operator"), Some(Who::Operator));
    assert_eq!((who("games"), who("video")), (Some(Who::Neighbour(0)), Some(Who::Neighbour(1))));
    assert_eq!((who("other"), who("")), (None, None));
    assert_eq!(who("routers"), Some(Who::Router));
    for route in &routes::ROUTES {
        let may = [Who::Anyone, Who::Neighbour(0), Who::Router, Who::Operator]
            .map(|w| Service::may(w, route.access));
        let expected = match route.access {
            Access::Anyone => [true, true, true, true],
            Access::Neighbour => [false, true, false, false],
            Access::Router => [false, false, true, true],
            Access::Operator => [false, false, false, true],
        };
        assert_eq!(may, expected, "{route:?}");
    }
    // The fifty-first request at once.
    let admitted = (0..60).filter(|_| setup.service.admit(Who::Neighbour(0), NOW).is_ok()).count();
    assert_eq!(admitted, 50);
    assert!(setup.service.admit(Who::Neighbour(1), NOW).is_ok(), "the other one never notices");
}

#[test]
fn the_page_shows_names_and_hints() {
    let mut setup = Setup::new("page");
    setup.round(NOW).unwrap();
    let (status, _, answer) = setup.ask(Who::Operator, "GET", "/operator", "", NOW);
    let html = String::from_utf8(answer.body).unwrap();
    assert_eq!(status, 200);
    let state = setup.service.state(NOW);
    let told = state["hints"]["neighbours"].as_array().unwrap().iter();
    let hint = told.flat_map(|n| n["hints"].as_array().unwrap()).next().unwrap();
    let prefix = hint["prefix"].as_str().unwrap();
    for part in ["video at in1", "secretout", prefix, "no program", "<svg"] {
        assert!(html.contains(part), "{part}");
    }
    let (_, _, answer) = setup.ask(Who::Operator, "GET", "/metrics", "", NOW);
    let text = String::from_utf8(answer.body).unwrap();
    assert!(
        text.contains("forebay_plan_rounds_total 1\n") && text.contains("{routing=\"after\"}"),
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is asked and whatever others want, no answer has the name of another neighbour, or
    /// of a router that is not one of the neighbour's own entries.
    #[test]
    fn no_answer_to_a_neighbour_names_another(
        mbps in proptest::collection::vec(0u64..200, 4),
        wishes in proptest::collection::vec((0u32..4, 0usize..5, 0u64..2_000_000_000), 0..4),
        avoid in proptest::collection::vec((0u32..4, 0usize..5), 0..3),
    ) {
        let mut setup = Setup::new("names");
        let rows = [("video", "in1"), ("video", "in2"), ("games", "in1"), ("games", "in3")];
        let rows = rows.iter().zip(&mbps).map(|((p, e), m)| format!("{p},{e},secretout,{m} Mbit/s\n"));
        let text = format!("provider,entry,router,demand\n{}", rows.collect::<String>());
        std::fs::write(setup.dir.join("d.csv"), text).unwrap();
        let inputs = ["in1", "in2", "in3", "secretout", "nowhere"];
        let own = [&["in1", "in3"][..], &["in1", "in2"][..]];
        let strange = [["video", "in2", "secretout"], ["games", "in3", "secretout"]];
        let mut heard: Vec<(usize, String)> = Vec::new();
        for now in [NOW, NOW + 1] {
            setup.round(now).unwrap();
            for at in [GAMES, VIDEO] {
                // The program comes back to the neighbour, so it only has names that the neighbour
                // may know.
                let mine = |i: &usize| own[at].contains(&inputs[*i]);
                let program = json!({
                    "wishes": wishes.iter().filter(|w| mine(&w.1)).map(|(output, input, demand)| json!({
                        "output": output, "input": inputs[*input], "demand": demand})).collect::<Vec<_>>(),
                    "avoid": avoid.iter().filter(|a| mine(&a.1)).map(|(output, input)| json!({
                        "output": output, "input": inputs[*input]})).collect::<Vec<_>>(),
                });
                let mut listener = setup.service.listen(at).unwrap();
                for route in routes::ROUTES.iter().filter(|r| r.access == Access::Neighbour && r.op != Op::Events) {
                    let body = if route.largest > 0 { program.to_string() } else { String::new() };
                    let (.., answer) = setup.ask(Who::Neighbour(at), route.method, route.path, &body, now);
                    heard.push((at, String::from_utf8(answer.body).unwrap()));
                    heard.extend(answer.headers.into_iter().map(|(_, value)| (at, value)));
                }
                while let Some(event) = listener.try_next() {
                    heard.push((at, event));
                }
            }
        }
        for (at, text) in heard {
            for name in strange[at] {
                prop_assert!(!text.contains(name), "{at} hears {name}: {text}");
            }
        }
    }
}
