//! Requests over real connections, with a driven clock.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use forebay_records::STATUS_VERSION;
use forebay_status::Answer as BoxAnswer;
use forebay_web::token::Hash;
use forebay_web::{Hosts, Stop};
use serde_json::Value;

use super::*;
use crate::store::Store;

/// A minute, in seconds since 1970.
const START: u64 = 1_800_000_000;
/// The time of all tests, in milliseconds; it only goes on.
static NOW: AtomicU64 = AtomicU64::new(START * 1000);

fn clock() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// A site with two peers, one of them with markup in its name, after `up` seconds.
fn status(up: u64) -> Status {
    let send = |name: &str, trouble: Option<&str>| {
        json!({
            "name": name, "receivebox": "192.0.2.1:28316", "mode": "delay control",
            "mode_s": up, "reason": "first measured: RTT 50.3 ms", "reason_kind": "measured",
            "phase": null, "trouble": trouble, "rate_bps": 24_340_000 + up,
            "send_bps": 23_000_000, "receive_bps": 22_120_000 + up, "loss": 0.0125,
            "rtt_ms": 52.0, "min_rtt_ms": 50.0, "rtt_range_ms": [51.0, 57.5],
            "backlog_bytes": 90_000, "wait_here_ms": 30.25, "wait_network_ms": 2.125,
            "packets": up * 100, "bytes": up * 125_000, "dropped": up * 2, "marked": up,
            "waits": (name == "branch").then(|| json!({
                "small": {"packets": up, "waited_ms": 9.0, "mean_ms": 1.75, "longest_ms": 4.5},
                "large": {"packets": up, "waited_ms": 9.0, "mean_ms": 91.5, "longest_ms": 120.5},
                "classes": [{"name": "<voice>", "packets": up, "waited_ms": 1.0, "mean_ms": 0.25,
                             "longest_ms": 0.5}]
            })),
            "refused": 0, "measurements": 5, "unmatched": 0, "decided": 1,
            "decisions": [{"number": 1, "ago_s": up, "kind": "mode_changed",
                "values": {"from": "open", "to": "delay control", "reason": "measured"},
                "text": "mode open -> delay control: first measured: RTT 50.3 ms"}]
        })
    };
    serde_json::from_value(json!({
        "version": STATUS_VERSION, "role": "site", "process": 7, "run": 99, "up_s": up,
        "interfaces": ["wan0"],
        "sends": [send("branch", None), send("<b>&\"x", Some("no answer"))],
        "receives": [{"name": "branch", "sendbox": "192.0.2.1:28316", "trouble": null,
            "heard_s": 0.5, "packets": up, "bytes": up * 25_000, "refused": 0, "unanswered": 0}]
    }))
    .unwrap()
}

struct Served {
    site: Arc<Site>,
    address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    path: std::path::PathBuf,
}

impl Served {
    fn start(name: &str, token: Option<&str>) -> Self {
        let path = std::env::temp_dir().join(format!("fb-watch-{name}-{}", std::process::id()));
        let recorder = Recorder::open(&path, START).unwrap();
        let credential =
            token.map(|t| Credential { token: Some(Hash::of(t.as_bytes())), certificate: None });
        let site = Arc::new(Site::new(recorder, credential, "gate".to_owned(), clock));
        let listeners = forebay_web::listen(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let stop = Stop::default();
        let (served, receiver) = (Arc::clone(&site), stop.receiver());
        let thread = thread::spawn(move || {
            forebay_web::serve(served, listeners, None, Hosts::default(), receiver)
        });
        Self { site, address, stop, thread: Some(thread), path }
    }

    /// Takes in the state of `seconds` seconds.
    fn run(&self, seconds: u64) -> Status {
        let mut last = status(0);
        for _ in 0..seconds {
            let now = NOW.fetch_add(1_000, Ordering::Relaxed) + 1_000;
            last = status(now / 1000 - START);
            let answer = BoxAnswer { process: 7, status: Ok(last.clone()) };
            self.site.take(vec![answer], (now / 1000).is_multiple_of(10));
        }
        last
    }

    fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Returns the head and the body of the answer to a request.
    fn get(&self, path: &str, more: &str) -> (String, String) {
        self.ask("GET", path, &format!("Host: 127.0.0.1\r\n{more}"))
    }

    fn ask(&self, method: &str, path: &str, headers: &str) -> (String, String) {
        let request = format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        let mut answer = String::new();
        self.connect(&request).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
        for suffix in ["", "-wal", "-shm", ".lock"] {
            let _ = std::fs::remove_file(crate::store::beside(&self.path, suffix));
        }
    }
}

/// Returns the values of all `id` attributes.
fn ids(html: &str) -> Vec<&str> {
    html.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// One test, since all share the clock.
#[test]
fn the_page_shows_the_status_and_is_kept_up_to_date() {
    let served = Served::start("page", None);
    let told = served.run(125);
    let send = &told.sends[0];

    // The figures are those of the status.
    let (head, html) = served.get("/", "");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    for text in [
        "30.2 ms",
        "2.12 ms",
        "24.3 Mbit/s",
        "22.1 Mbit/s",
        "1.25 %",
        "1.96 %",
        "1.00 %",
        "1.75 ms",
        "at most 4.50 ms",
        "91.5 ms",
    ] {
        assert!(html.contains(text), "{text}");
    }
    let (_, json) = served.get("/status.json", "");
    assert_eq!(serde_json::from_str::<[Status; 1]>(&json).unwrap()[0], told);
    let waits = send.waits.as_ref().unwrap();
    let (_, json) = served.get("/history.json?peer=branch", "");
    let history: Value = serde_json::from_str(&json).unwrap();
    let to = history.as_array().unwrap().iter().find(|s| s["series"]["direction"] == "to").unwrap();
    let rows = to["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 125);
    let last = rows.last().unwrap();
    for (key, value) in [
        ("limit_bps", send.rate_bps.map(|bps| bps as f64)),
        ("arrived_bps", send.receive_bps.map(|bps| bps as f64)),
        ("here_ms", send.wait_here_ms),
        ("there_ms", send.wait_network_ms),
        ("small_ms", waits.small.mean_ms),
        ("small_high_ms", waits.small.longest_ms),
        ("large_ms", waits.large.mean_ms),
        ("large_high_ms", waits.large.longest_ms),
        ("lost", send.loss),
        // A second of a million bits, with two drops and a mark.
        ("rate_bps", Some(1e6)),
        ("dropped", Some(2.0)),
        ("marked", Some(1.0)),
    ] {
        assert_eq!(last[key].as_f64(), value, "{key}");
    }
    assert_eq!(last["classes_ms"], json!([waits.classes[0].wait.mean_ms, null, null, null]));

    // The page is complete, loads nothing from elsewhere, and escapes names.
    assert!(!html.contains("<b>&") && html.contains("&lt;b&gt;&amp;&quot;x"));
    for outside in ["http://", "https://", "//", "style=", "onclick"] {
        let without = html.replace("http://www.w3.org", "");
        assert!(!without.contains(outside), "{outside}");
    }
    let all = ids(&html);
    let unique: BTreeSet<_> = all.iter().collect();
    assert_eq!(unique.len(), all.len(), "ids are unique");
    // The worst is first.
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("state bad") < at("state good"));
    for path in
        ["/style.css", "/page.js", "/?range=minutes", "/?range=day", "/?peer=branch", "/healthz"]
    {
        assert!(served.get(path, "").0.starts_with("HTTP/1.1 200 OK"), "{path}");
    }
    let one = served.get("/?peer=branch", "").1;
    assert!(one.matches("<figure>").count() == 6 && html.matches("<figure>").count() == 9);
    // Who waits is known of one of the two.
    let titles = ["Who waits here", "Which class waits here"];
    assert!(titles.iter().all(|title| html.matches(&format!("{title}<p")).count() == 1));
    assert!(html.contains("&lt;voice&gt;: 0.25 ms on average"), "{html}");

    // Updates have the parts of the page, and every part has its place.
    let stream = served.connect("GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut update = || -> serde_json::Map<String, Value> {
        let data = lines.find(|line| line.starts_with("data: ")).unwrap();
        serde_json::from_str(&data["data: ".len()..]).unwrap()
    };
    let first = update();
    served.run(10);
    let updates: Vec<_> = (0..10).map(|_| update()).collect();
    let largest = updates.iter().max_by_key(|parts| parts.len()).unwrap();
    assert!(largest.len() > first.len() && largest.keys().any(|id| id.ends_with("-charts")));
    for id in largest.keys() {
        assert!(all.contains(&&id[..]), "{id}");
    }
    let clock = updates.last().unwrap()["clock"].as_str().unwrap();
    assert!(clock.ends_with(":02:15"), "{clock}");

    // What is wrong is refused.
    for (path, headers, status) in [
        ("/nothing", "Host: 127.0.0.1\r\n", "404"),
        ("/?range=year", "Host: 127.0.0.1\r\n", "400"),
        ("/?peer=nobody", "Host: 127.0.0.1\r\n", "404"),
        ("/stream?peer=nobody", "Host: 127.0.0.1\r\n", "404"),
        ("/", "Host: evil.example\r\n", "403"),
        ("/status.json", "", "403"),
    ] {
        let (head, _) = served.ask("GET", path, headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {head}");
    }
    let (head, _) = served.ask("POST", "/", "Host: 127.0.0.1\r\n");
    assert!(head.contains("405") && head.contains("allow: GET"), "{head}");

    // The story of the same history, read by another process.
    served.site.recorder().write(clock_s());
    let store = Store::read(&served.path).unwrap();
    let story = crate::explain(&store, "branch", clock_s()).unwrap().unwrap().join("\n");
    for text in [
        "# To branch, the site at wan0\nOf the last 2 min 15 s: delay control for 2 min 15 s.",
        "first measured: RTT 50.3 ms",
        "packets waited 30.2 ms here (at most 30.2) and 2.12 ms at the bottleneck (at most 7.50)",
        "It sent 1.00 Mbit/s on average",
        "dropped 268 packets (1.96 %) and marked 134 (1.00 %); 1.25 % were lost on the path.",
        "# From branch, the site at wan0\n0.20 Mbit/s arrived on average",
        "No message of the peer was refused.",
    ] {
        assert!(story.to_lowercase().contains(&text.to_lowercase()), "{text}\n{story}");
    }
    assert_eq!(crate::explain(&store, "nobody", clock_s()).unwrap(), None);
}

fn clock_s() -> u64 {
    clock() / 1000
}

#[test]
fn a_token_is_asked_for() {
    let served = Served::start("token", Some("secret"));
    let basic = "Authorization: Basic OnNlY3JldA==\r\n";
    for (path, headers, status) in [
        ("/", "", "401"),
        ("/history.json", "Authorization: Bearer other\r\n", "401"),
        ("/stream", "", "401"),
        ("/", "Authorization: Bearer secret\r\n", "200"),
        ("/", basic, "200"),
        ("/healthz", "", "200"),
    ] {
        let (head, _) = served.get(path, headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{path} {headers}: {head}");
        assert_eq!(head.contains("www-authenticate: Basic"), status == "401", "{head}");
    }
}
