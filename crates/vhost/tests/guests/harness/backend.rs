//! The back end, as a process of its own in a namespace of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use forebay_config::Configuration;
use forebay_vhost::VhostConfig;
use serde_json::Value;

/// The device on the sink's side.
const SINK_DEVICE: &str = "fb-sink";
/// The other end of its wire.
const PORT: &str = "fb-port";
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

/// What is between the back end and the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A TAP device, on whose side of the kernel the sink is.
    Tap,
    /// A wire between two namespaces, at one end of which the back end has a port.
    Port,
}

/// Namespaces and a directory that go with this value.
pub(super) struct Place {
    way: Way,
    /// Of the back end.
    inner: String,
    /// Of the sink; the same over a TAP device.
    pub(super) outer: String,
    pub(super) dir: PathBuf,
}

impl Place {
    pub(super) fn new(way: Way) -> Self {
        let inner = format!("fb-vhost-{}", std::process::id());
        let outer = match way {
            Way::Tap => inner.clone(),
            Way::Port => format!("{inner}-out"),
        };
        let dir = std::env::temp_dir().join(&inner);
        let place = Self { way, inner, outer, dir };
        // A run that was killed may have had this number.
        place.remove();
        run(&format!("ip netns add {}", place.inner));
        fs::create_dir(&place.dir).unwrap();
        if way == Way::Port {
            let Self { inner, outer, .. } = &place;
            run(&format!("ip netns add {outer}"));
            run(&format!(
                "ip link add {PORT} netns {inner} type veth peer name {SINK_DEVICE} netns {outer}"
            ));
            run(&format!("ip -n {inner} link set {PORT} up"));
            // What the kernel leaves to a device is not done on a wire of its own.
            run(&format!(
                "ip netns exec {outer} ethtool -K {SINK_DEVICE} tx off tso off gso off gro off"
            ));
            run(&format!("ip netns exec {inner} ethtool -K {PORT} gro off"));
        }
        place
    }

    /// What the configuration says of where packets go.
    pub(super) fn outside(&self) -> String {
        match self.way {
            Way::Tap => format!("tap = \"{SINK_DEVICE}\"\nsuper_packets = false\n"),
            Way::Port => format!("interface = \"{PORT}\"\n"),
        }
    }

    fn remove(&self) {
        for namespace in [&self.inner, &self.outer] {
            let del = ["netns", "del", namespace];
            let _ = Command::new("ip").args(del).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.remove();
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
            .args(["netns", "exec", &place.inner])
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
        let outer = &place.outer;
        run(&format!("ip -n {outer} address add {SINK}/24 dev {SINK_DEVICE}"));
        run(&format!("ip -n {outer} link set {SINK_DEVICE} up txqueuelen 10000"));
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
