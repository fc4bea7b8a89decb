//! The client of content providers, against a running service: two providers that follow hints.
//! The certificates in `tls` are for tests only.

use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_serve::neighbour::{Client, Error};
use forebay_serve::token::Hash;
use forebay_serve::{Error as ServiceError, Stop};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(60);
/// A stand-in for GoBGP's command, which records how it is called.
const GOBGP: &str = "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/calls\"\n";
const TOPOLOGY: &str = r#"{"directed": true, "nodes": [{"id": 1, "label": "in1"}, {"id": 2, "label": "in2"}, {"id": 3, "label": "out"}],
    "links": [{"source": 1, "target": 3, "capacity": "100 Mbit/s"}, {"source": 2, "target": 3, "capacity": "100 Mbit/s"}]}"#;
/// Both enter at `in1`, where there is room for half of their traffic.
const DEMANDS: &str =
    "provider,entry,router,demand\nvideo,in1,out,100 Mbit/s\ngames,in1,out,100 Mbit/s\n";

struct Running {
    dir: PathBuf,
    at: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), ServiceError>>>,
}

impl Running {
    fn end(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
        }
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap_or_default()
    }

    fn client(&self, who: &str, more: &str) -> Client {
        self.file(&format!("{who}.token"), who, 0o600);
        let config = format!(
            "url = \"http://{}\"\ntoken = \"{who}.token\"\nout = \"{who}.json\"\n{more}",
            self.at
        );
        Client::new(&self.file(&format!("{who}.toml"), &config, 0o644)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Starts a service at an address of this machine, whose rounds come every second.
fn start(name: &str, listen: &str, neighbours: &str) -> Running {
    let dir = std::env::temp_dir().join(format!("fb-neighbour-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    // A port that is free now.
    let at = TcpListener::bind((listen, 0)).unwrap().local_addr().unwrap();
    let stop = Stop::default();
    let mut running = Running { dir, at, stop: stop.clone(), thread: None };
    let config = format!(
        "[serve]\nlisten = [\"{at}\"]\nstate = \"s.db\"\ntopology = \"t.json\"\nproviders = \"p.toml\"\n\
         prefixes = \"x.csv\"\ndemands = \"d.csv\"\ninterval = \"1 s\"\n[operator]\ntoken = \"{}\"\n{neighbours}",
        Hash::of(b"operator"),
    );
    let entry = |name: &str| format!("{{ router = \"{name}\", capacity = \"400 Mbit/s\" }}");
    let entries =
        format!("entry = [{}, {}]\naccepts = {{ api = true }}\n", entry("in1"), entry("in2"));
    let providers = format!(
        "[[provider]]\nname = \"video\"\n{entries}[[provider]]\nname = \"games\"\n{entries}"
    );
    for (name, text) in [
        ("t.json", TOPOLOGY),
        ("p.toml", &providers),
        ("x.csv", "prefix,router\n10.0.0.0/16,out\n10.1.0.0/16,out\n2001:db8::/32,out\n"),
        ("d.csv", DEMANDS),
    ] {
        running.file(name, text, 0o644);
    }
    let path = running.file("c.toml", &config, 0o644);
    running.thread = Some(std::thread::spawn(move || forebay_serve::run(&path, &stop)));
    until("it listens", || TcpStream::connect(at).is_ok());
    running
}

fn tokens() -> String {
    let one = |name: &str| {
        format!("[[neighbour]]\nname = \"{name}\"\ntoken = \"{}\"\n", Hash::of(name.as_bytes()))
    };
    one("video") + &one("games")
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !so() {
        assert!(Instant::now() < end, "{what}: not within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

const FEED: &str = "accept = [\"10.0.0.0/8\", \"2001:db8::/32\"]\n\
[gobgp]\nspeaker = \"127.0.0.1:50051\"\njournal = \"video.journal\"\ncommand = \"./gobgp\"\n";

/// The table of an entry with the next hops 192.0.2.`last` and 2001:db8:f::`last`.
fn entry(name: &str, last: u8, usable: bool) -> String {
    format!(
        "[[entry]]\nname = \"{name}\"\nnext_hop = \"192.0.2.{last}\"\nnext_hop_v6 = \"2001:db8:f::{last}\"\n\
         usable = {usable}\n"
    )
}

#[test]
fn two_providers_follow_hints_and_report_back() {
    let mut service = start("two", "::1", &tokens());
    service.file("gobgp", GOBGP, 0o755);
    let games = service.client("games", "");
    let video = service
        .client("video", &format!("{FEED}{}{}", entry("in1", 1, true), entry("in2", 2, true)));
    until("there are hints", || {
        [&video, &games].iter().any(|c| c.fetch().is_ok_and(|f| !f.hints.hints.is_empty()))
    });
    // Half of all traffic should move to `in2`. Which provider's is the planner's choice.
    let fetched = [&video, &games].map(|client| client.fetch().unwrap());
    let all: usize = fetched.iter().map(|f| f.changes.len()).sum();
    assert!(all > 0 && fetched.iter().all(|f| f.changes.len() == f.hints.hints.len()));
    assert!(fetched.iter().all(|f| f.program.is_none()), "all entries can be used");
    assert_eq!((service.text("video.json"), service.text("calls")), Default::default());

    for (client, fetched) in [&video, &games].iter().zip(&fetched) {
        let applied = client.apply(fetched, &mut |_, why| assert_eq!(why, None)).unwrap();
        assert_eq!(applied.reported, None);
        let again = client.fetch().unwrap();
        assert_eq!((again.changes.len(), again.steps.len()), (0, 0), "all is done");
    }
    let kept: Value = serde_json::from_str(&service.text("games.json")).unwrap();
    assert_eq!(kept["hints"], json!(fetched[1].hints.hints));
    let calls = service.text("calls");
    assert_eq!(calls.lines().count(), fetched[0].hints.hints.len());
    for (line, hint) in calls.lines().zip(&fetched[0].hints.hints) {
        let last = if hint.entry == "in1" { 1 } else { 2 };
        let hop = match hint.prefix.addr().is_ipv4() {
            true => format!("192.0.2.{last}"),
            false => format!("2001:db8:f::{last}"),
        };
        let start = format!(
            "-u 127.0.0.1 -p 50051 global rib add {} origin igp nexthop {hop} local-pref 200 -a ",
            hint.prefix
        );
        assert!(line.starts_with(&start), "{line}, not {start}");
    }

    // An entry fails at both. They say so, and the next rounds leave it alone.
    let video = service
        .client("video", &format!("{FEED}{}{}", entry("in1", 1, true), entry("in2", 2, false)));
    let games = service.client("games", "[[entry]]\nname = \"in1\"\n");
    for client in [&video, &games] {
        let fetched = client.fetch().unwrap();
        let program = fetched.program.clone().unwrap();
        assert!(!program["avoid"].as_array().unwrap().is_empty());
        assert!(program["avoid"].as_array().unwrap().iter().all(|a| a["input"] == "in2"));
        assert!(fetched.followed.hints.iter().all(|h| h.entry == "in1"));
        let applied = client.apply(&fetched, &mut |_, _| {}).unwrap();
        assert_eq!(applied.reported, Some(Ok(())));
    }
    // A service may refuse a client that asks too often.
    let without_in2 = |client: &Client| {
        let fetched = client.fetch();
        fetched.is_ok_and(|f| f.hints.hints.iter().all(|h| h.entry != "in2") && f.program.is_none())
    };
    until("no hint names the entry", || without_in2(&video) && without_in2(&games));

    // Without the service nothing changes, until the provider takes its routes back.
    let before = service.text("calls");
    service.end();
    let error = video.fetch().unwrap_err();
    assert!(matches!(error, Error::Fetch(_)) && error.exit_code() == 1, "{error}");
    assert_eq!(service.text("calls"), before);
    let left = video.withdraw(&mut |_, why| assert_eq!(why, None)).unwrap().unwrap();
    let added = service.text("calls").matches(" add ").count();
    assert_eq!(service.text("calls").matches(" del ").count(), added, "{left:?}");
    let kept: Value = serde_json::from_str(&service.text("video.json")).unwrap();
    assert_eq!(kept["hints"], json!([]));
}

#[test]
fn a_wrong_token_and_a_wrong_service_change_nothing() {
    let service = start("wrong", "127.0.0.1", &tokens());
    let client = service.client("nobody", "");
    let error = client.fetch().unwrap_err().to_string();
    assert!(error.starts_with("/v1/hints: the service answered 401: "), "{error}");
    assert!(!service.dir.join("nobody.json").exists());
    // Something that is no service.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = other.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut stream = other.accept().unwrap().0;
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"220 mail.example ESMTP\r\n\r\n").unwrap();
    });
    let config = format!("url = \"http://{at}\"\ntoken = \"nobody.token\"\nout = \"o.json\"\n");
    let client = Client::new(&service.file("o.toml", &config, 0o644)).unwrap();
    let error = client.fetch().unwrap_err().to_string();
    assert_eq!(error, "the answer is no HTTP: is this the service?");
    thread.join().unwrap();
    // A token that others can read is refused.
    service.file("nobody.token", "nobody", 0o644);
    let error = Client::new(&service.dir.join("o.toml")).unwrap_err().to_string();
    assert!(error.contains("is no usable token"), "{error}");
}

#[test]
fn certificates_take_the_place_of_tokens() {
    let fixture = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name);
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let own = Hash::of(&CertificateDer::from_pem_file(fixture("video.pem")).unwrap());
    let neighbours = format!(
        "[tls]\ncertificate = \"{}\"\nkey = \"server.key\"\nclients = \"{}\"\n\
         [[neighbour]]\nname = \"video\"\ncertificate = \"{own}\"\n",
        fixture("server.pem").display(),
        fixture("authority.pem").display(),
    );
    let dir = std::env::temp_dir().join(format!("fb-neighbour-tls-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    for name in ["server.key", "video.key"] {
        fs::copy(fixture(name), dir.join(name)).unwrap();
        fs::set_permissions(dir.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    let service = start("tls", "127.0.0.1", &neighbours);
    let config = |authority: &str| {
        let text = format!(
            "url = \"https://localhost:{}\"\nauthority = \"{}\"\ncertificate = \"{}\"\nkey = \"video.key\"\n\
             out = \"h.json\"\n",
            service.at.port(),
            fixture(authority).display(),
            fixture("video.pem").display(),
        );
        service.file("n.toml", &text, 0o644)
    };
    let client = Client::new(&config("authority.pem")).unwrap();
    until("there was a round", || !client.fetch().is_err_and(|e| e.to_string().contains(" 503: ")));
    assert_eq!(client.fetch().unwrap().hints.neighbour, "video");
    // A service whose certificate is of another authority is not believed.
    let other = Client::new(&config("forged.pem")).unwrap();
    let error = other.fetch().unwrap_err().to_string();
    assert!(error.starts_with("cannot reach localhost:"), "{error}");
}
