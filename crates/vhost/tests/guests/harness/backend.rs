//! The back end, as a process of its own in a namespace of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use forebay_vhost::VhostConfig;
use serde_json::Value;

/// The device on the sink's side.
pub(super) const TAP: &str = "fb-tap";
/// Its address.
pub(super) const SINK: &str = "10.99.0.1";

/// Runs the back end of the file, as `forebay vhost --json` does.
pub(super) fn main(file: &Path) -> ExitCode {
    let load = VhostConfig::load(file).map_err(forebay_vhost::Error::from);
    match load.and_then(|config| forebay_vhost::run(config, true)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command to its end, which must be well.
pub(super) fn run(line: &str) {
    let mut words = line.split(' ');
    let out = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A namespace and a directory that go with this value.
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) dir: PathBuf,
}

impl Place {
    pub(super) fn new() -> Self {
        let namespace = format!("fb-vhost-{}", std::process::id());
        // A run that was killed may have had this number.
        let _ =
            Command::new("ip").args(["netns", "del", &namespace]).stderr(Stdio::null()).status();
        run(&format!("ip netns add {namespace}"));
        let dir = std::env::temp_dir().join(&namespace);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        Self { namespace, dir }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A back end that runs; killed when dropped.
pub(super) struct Backend {
    child: Child,
    said: Receiver<Value>,
}

impl Backend {
    /// Starts it with `config`, whose TAP device then has the sink's address.
    pub(super) fn start(place: &Place, config: &str) -> Self {
        let file = place.dir.join("vhost.toml");
        fs::write(&file, config).unwrap();
        let mut child = Command::new("ip")
            .args(["netns", "exec", &place.namespace])
            .arg(std::env::current_exe().unwrap())
            .arg("backend")
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, said) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).unwrap());
            }
        });
        let mut backend = Self { child, said };
        backend.hear("ready");
        let namespace = &place.namespace;
        run(&format!("ip -n {namespace} address add {SINK}/24 dev {TAP}"));
        run(&format!("ip -n {namespace} link set {TAP} up txqueuelen 10000"));
        backend
    }

    /// Waits until it says `event`.
    fn hear(&mut self, event: &str) -> Value {
        loop {
            match self.said.recv_timeout(Duration::from_secs(30)) {
                Ok(said) if said["event"] == event => return said,
                Ok(_) => {}
                Err(e) => panic!("the back end does not say {event}: {e}"),
            }
        }
    }

    /// Ends it in order; what it counted.
    pub(super) fn stop(mut self) -> Value {
        // SAFETY: takes two integers; the child is not reaped, so that the id is its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let total = self.hear("total");
        assert!(self.child.wait().unwrap().success());
        total
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
