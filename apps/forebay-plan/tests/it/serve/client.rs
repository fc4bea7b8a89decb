//! Starts the real command as a service, and is its client: plain HTTP/1.1, one request for each
//! connection.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use forebay_test_support::Dir;
use forebay_test_support::process::HANG_TIMEOUT;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

pub(crate) const TOPOLOGY: &str = r#"{"directed": true, "name": "two", "nodes": [{"id": 1, "label": "in1"}, {"id": 2, "label": "in2"}, {"id": 3, "label": "out"}],
"links": [{"source": 1, "target": 3, "capacity": "100 Mbit/s"},
{"source": 2, "target": 3, "capacity": "100 Mbit/s"}]}"#;
pub(crate) const PROVIDERS: &str = r#"asn = 64500
[[provider]]
name = "video"
accepts = { med = true }
[[provider.entry]]
router = "in1"
capacity = "400 Mbit/s"
peer = "192.0.2.1"
speaker = "127.0.0.1:1001"
[[provider.entry]]
router = "in2"
capacity = "400 Mbit/s"
peer = "192.0.2.2"
speaker = "127.0.0.1:1002"
[[provider]]
name = "games"
[[provider.entry]]
router = "in1"
capacity = "400 Mbit/s"
"#;
pub(crate) const DEMANDS: &str =
    "provider,entry,router,demand\nvideo,in1,out,100 Mbit/s\ngames,in1,out,100 Mbit/s\n";

fn hash(dir: &Dir, name: &str) -> String {
    let made = Command::new(env!("CARGO_BIN_EXE_forebay-plan")).args(["token"]).output().unwrap();
    let text = String::from_utf8(made.stdout).unwrap();
    let line = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    fs::write(dir.0.join(format!("{name}.token")), line("token")).unwrap();
    line("hash")
}

/// Makes a directory with all files of a service that listens at loopback addresses of both
/// families. `more` is added to its configuration.
pub(crate) fn files(dir: &Dir, more: &str) {
    let tokens = ["operator", "video", "games"].map(|name| hash(dir, name));
    let config = format!(
        "[serve]\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\nstate = \"state.db\"\ntopology = \"isp.json\"\n\
         providers = \"p.toml\"\nprefixes = \"x.csv\"\ndemands = \"d.csv\"\ninterval = \"1440 min\"\n\
         [operator]\ntoken = \"{}\"\n[[neighbour]]\nname = \"video\"\ntoken = \"{}\"\n[[neighbour]]\nname = \"games\"\n\
         token = \"{}\"\n{more}",
        tokens[0], tokens[1], tokens[2]
    );
    let prefixes = "prefix,router\n10.0.0.0/16,out\n2001:db8::/32,out\n";
    for (name, text) in [
        ("isp.json", TOPOLOGY),
        ("p.toml", PROVIDERS),
        ("d.csv", DEMANDS),
        ("x.csv", prefixes),
        ("serve.toml", &config),
    ] {
        dir.file(name, text, 0o644);
    }
}

/// A running service, which is killed when this value is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) at: Vec<SocketAddr>,
    /// The address at which it receives flow records, if any.
    pub(crate) udp: Vec<SocketAddr>,
    /// The address at which routers connect, if any.
    pub(crate) bmp: Vec<SocketAddr>,
    /// The thread that reads the lines of its log.
    log: Option<JoinHandle<Vec<String>>>,
    tokens: [String; 3],
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn command(dir: &Dir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-plan"));
    command.args(["serve", "--config"]).arg(dir.0.join("serve.toml"));
    command
}

impl Server {
    /// Starts the service and waits until it listens.
    pub(crate) fn start(dir: &Dir) -> Self {
        let mut child = command(dir).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (mut at, mut udp, mut bmp) = (Vec::new(), Vec::new(), Vec::new());
        while at.len() < 2 {
            let line = lines.next().expect("it says where it listens").unwrap();
            if let Some((_, address)) = line.split_once("http://") {
                at.push(address.trim().parse().unwrap());
            }
            if let Some((_, address)) = line.split_once("udp://") {
                udp.push(address.trim().parse().unwrap());
            }
            if let Some((_, address)) = line.split_once("bmp://") {
                bmp.push(address.trim().parse().unwrap());
            }
        }
        // Later log lines must be read, or the service would block.
        let log = std::thread::spawn(move || lines.map_while(Result::ok).collect());
        let token = |name| fs::read_to_string(dir.0.join(format!("{name}.token"))).unwrap();
        let log = Some(log);
        Self { child, at, udp, bmp, log, tokens: ["operator", "video", "games"].map(token) }
    }

    pub(crate) fn token(&self, who: &str) -> &str {
        let place = ["operator", "video", "games"].iter().position(|n| *n == who).unwrap();
        &self.tokens[place]
    }

    /// Kills the service, as a crash does.
    pub(crate) fn crash(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the service in order.
    pub(crate) fn stop(self) -> bool {
        self.stop_and_log().0
    }

    /// As [`Self::stop`], and returns the lines of the log too.
    pub(crate) fn stop_and_log(mut self) -> (bool, Vec<String>) {
        let pid = i32::try_from(self.child.id()).unwrap();
        // SAFETY: signals a child that is not yet waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let ended = self.child.wait().unwrap().success();
        (ended, self.log.take().unwrap().join().unwrap())
    }

    pub(crate) fn ask(&self, who: &str, method: &str, path: &str, body: &str) -> Reply {
        ask(self.at[0], Some(self.token(who)), method, path, body).unwrap()
    }

    /// Sends a request that must be answered with 200, and returns the JSON.
    pub(crate) fn get(&self, who: &str, path: &str) -> Value {
        let reply = self.ask(who, "GET", path, "");
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    }

    /// Runs a planning round. The first round may still be running.
    pub(crate) fn round(&self) -> Value {
        let reply = self.ask("operator", "POST", "/operator/round", "");
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.json()
    }
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim()).next()
    }
}

pub(crate) fn request(token: Option<&str>, method: &str, path: &str, body: &str) -> String {
    let token = token.map_or(String::new(), |t| format!("authorization: Bearer {t}\r\n"));
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{token}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn ask(
    at: SocketAddr,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(at)?;
    stream.write_all(request(token, method, path, body).as_bytes())?;
    read(&mut stream)
}

/// Reads a response to its end.
pub(crate) fn read(stream: &mut TcpStream) -> io::Result<Reply> {
    stream.set_read_timeout(Some(HANG_TIMEOUT))?;
    let mut bytes = Vec::new();
    let outcome = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        outcome?;
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let status = head.split_whitespace().nth(1).and_then(|s| s.parse().ok()).unwrap();
    Ok(Reply { status, head: head.to_owned(), body: body.to_owned() })
}

/// Connects from one of this machine's own addresses.
pub(crate) fn from(source: &str, to: SocketAddr) -> io::Result<TcpStream> {
    let source: IpAddr = source.parse().unwrap();
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}
