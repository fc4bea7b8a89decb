//! The back end as a process in a network namespace of its own.

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

/// Name of the device on the sink's side.
const SINK_DEVICE: &str = "fb-sink";
/// Name of the back end's port, the other end of the sink's veth.
const PORT: &str = "fb-port";
/// Address of the sink.
pub(crate) const SINK: &str = "10.99.0.1";

/// Runs the back end of the configuration in `file`, as `forebay vhost --json` does.
pub(crate) fn main(file: &Path) -> ExitCode {
    let load = VhostConfig::load(file).map_err(forebay_vhost::Error::from);
    match load.and_then(|config| forebay_vhost::run(config, true)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command, which must succeed.
pub(crate) fn run(line: &str) {
    let mut words = line.split(' ');
    let out = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Connection between the back end and the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressKind {
    /// A TAP device; the sink uses the kernel's end of it.
    Tap,
    /// A veth pair between two namespaces; the back end has a port on one end.
    Port,
}

/// Network namespaces and a directory, removed when dropped.
pub(crate) struct Place {
    egress: EgressKind,
    /// Namespace of the back end.
    inner: String,
    /// Namespace of the sink; the same one with a TAP device.
    pub(crate) outer: String,
    pub(crate) dir: PathBuf,
}

impl Place {
    pub(crate) fn new(egress: EgressKind) -> Self {
        let inner = format!("fb-vhost-{}", std::process::id());
        let outer = match egress {
            EgressKind::Tap => inner.clone(),
            EgressKind::Port => format!("{inner}-out"),
        };
        let dir = std::env::temp_dir().join(&inner);
        let place = Self { egress, inner, outer, dir };
        // A killed run may have left the same names behind.
        place.remove();
        run(&format!("ip netns add {}", place.inner));
        fs::create_dir(&place.dir).unwrap();
        if egress == EgressKind::Port {
            let Self { inner, outer, .. } = &place;
            run(&format!("ip netns add {outer}"));
            run(&format!(
                "ip link add {PORT} netns {inner} type veth peer name {SINK_DEVICE} netns {outer}"
            ));
            run(&format!("ip -n {inner} link set {PORT} up"));
            // A veth pair does not perform the offloads that the kernel leaves to a device.
            run(&format!(
                "ip netns exec {outer} ethtool -K {SINK_DEVICE} tx off tso off gso off gro off"
            ));
            run(&format!("ip netns exec {inner} ethtool -K {PORT} gro off"));
        }
        place
    }

    /// Lines of the configuration that name the way out.
    pub(crate) fn outside(&self) -> String {
        match self.egress {
            EgressKind::Tap => format!("tap = \"{SINK_DEVICE}\"\nsuper_packets = false\n"),
            EgressKind::Port => format!("interface = \"{PORT}\"\n"),
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

/// A running back end; killed when dropped.
pub(crate) struct Backend {
    child: Child,
    said: Receiver<Value>,
}

impl Backend {
    /// Starts a back end with `config` and gives the sink's device its address.
    pub(crate) fn start(place: &Place, config: &str) -> Self {
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

    /// Waits for a line with `event`.
    fn hear(&mut self, event: &str) -> Value {
        loop {
            match self.said.recv_timeout(Duration::from_secs(30)) {
                Ok(said) if said["event"] == event => return said,
                Ok(_) => {}
                Err(e) => panic!("the back end does not report {event}: {e}"),
            }
        }
    }

    /// Stops it in order and returns its total counts.
    pub(crate) fn stop(mut self) -> Value {
        // SAFETY: the call takes two integers; the child is not reaped, so the id is still its own.
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
