//! The link and the boxes: their files and how they are started.

use std::fmt::Write;
use std::fs;
use std::path::{self, PathBuf};
use std::process::Command;

use forebay_config::Limit;

use super::addresses::Place;
use super::exec;
use super::network::{CROSS, INSIDE, LEFT, Network, OUTSIDE, QUEUE, RIGHT, UP, WIRE};
use super::process::{Kind, Processes};
use super::programs;
use super::rundir::RunDir;
use crate::engine::{EngineError, Job};
use crate::link::{LinkSpec, NeckSpec, QueueSpec};
use crate::scenario::{Bundle, Maker, Origin, Process, Queue, QueueKind, Sendbox};

/// Where the boxes listen for each other.
const SENDBOX_PORT: u16 = 28_316;
const RECEIVEBOX_PORT: u16 = 28_317;
const RECEIVEBOX_FILE: &str = "receivebox.toml";
/// A full-sized frame.
const FRAME: u64 = 1_514;

/// The files that the link and the sendbox write.
pub(super) struct Files {
    pub(super) link_packets: PathBuf,
    pub(super) link_counters: PathBuf,
    pub(super) sendbox_packets: PathBuf,
    pub(super) sendbox_ticks: PathBuf,
    pub(super) sendbox_events: PathBuf,
    pub(super) sendbox_counters: PathBuf,
}

impl Files {
    pub(super) fn new(dir: &RunDir) -> Self {
        Self {
            link_packets: dir.file("link.packets"),
            link_counters: dir.file("link.counters"),
            sendbox_packets: dir.file("sendbox.packets"),
            sendbox_ticks: dir.file("sendbox.ticks"),
            sendbox_events: dir.file("sendbox.events"),
            sendbox_counters: dir.file("sendbox.counters"),
        }
    }
}

/// Starts the link, the sendbox and, where there is a bundle to watch, the receivebox.
pub(super) fn start(
    job: &Job<'_>,
    dir: &RunDir,
    network: &Network,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let files = Files::new(dir);
    let at = |place| exec::open_namespace(&network.namespace(place));
    processes.start(dir, "link", Kind::Link, at(Place::Path)?, ["link-emulator"])?;
    processes.tell_last(&link(job, &files)?)?;

    let key = dir.file("bundle.key");
    let sendbox = write(dir, "sendbox.toml", sendbox(job, &key))?;
    if let Sendbox::Bundle(_) = job.arm.sendbox {
        let program = std::env::current_exe().map_err(EngineError::io("finding this program"))?;
        exec::run(Command::new(program).arg("keygen").arg(&key), "")?;
        write(dir, RECEIVEBOX_FILE, receivebox(job, &key))?;
        start_receivebox(dir, network, processes)?;
    }
    let args = [
        ("--config", sendbox),
        ("--packet-log", files.sendbox_packets),
        ("--tick-log", files.sendbox_ticks),
        ("--event-log", files.sendbox_events),
        ("--counters", files.sendbox_counters),
    ];
    let args = args.into_iter().flat_map(|(flag, file)| [PathBuf::from(flag), file]);
    let args = std::iter::once("sendbox".into()).chain(args);
    processes.start(dir, "sendbox", Kind::Box, at(Place::Sendbox)?, args)
}

/// Starts the receivebox whose file is written, for the first time or again.
pub(super) fn start_receivebox(
    dir: &RunDir,
    network: &Network,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let namespace = exec::open_namespace(&network.namespace(Place::Receivebox))?;
    let args = ["receivebox".into(), "--config".into(), dir.file(RECEIVEBOX_FILE)];
    processes.start(dir, Process::Receivebox.name(), Kind::Box, namespace, args)
}

fn write(dir: &RunDir, name: &str, text: String) -> Result<PathBuf, EngineError> {
    let path = dir.file(name);
    fs::write(&path, text).map_err(EngineError::io(format!("writing {}", path.display())))?;
    Ok(path)
}

fn link(job: &Job<'_>, files: &Files) -> Result<LinkSpec, EngineError> {
    let path = job.scenario.path;
    let full = path.rate.bytes_in(job.scenario.length()).0 / FRAME;
    let neck = match job.arm.queue.by {
        Maker::Kernel => NeckSpec::Kernel { entry: QUEUE.to_owned(), exit: WIRE.to_owned() },
        Maker::Forebay => {
            let queue = QueueSpec::of(&job.arm.queue, &path)
                .ok_or_else(|| EngineError::Unfit(format!("no queue {} here", job.arm.queue)))?;
            NeckSpec::Forebay { queue }
        }
    };
    Ok(LinkSpec {
        left: LEFT.to_owned(),
        right: RIGHT.to_owned(),
        cross: has_cross(job).then(|| CROSS.to_owned()),
        rate_bps: path.rate.as_bps(),
        delay_ns: path.rtt.0 / 2,
        neck,
        packet_log: files.link_packets.clone(),
        // An ACK for each packet and drops as many again, and a margin for short runs.
        packet_limit: 4 * full + 100_000,
        counters: files.link_counters.clone(),
    })
}

/// Whether there is traffic that does not pass the sendbox.
pub(super) fn has_cross(job: &Job<'_>) -> bool {
    job.scenario.traffic.iter().any(|traffic| traffic.from == Origin::Cross)
}

fn sendbox(job: &Job<'_>, key: &path::Path) -> String {
    let ip = job.scenario.ip;
    let mut text = format!(
        "[sendbox]\ninside = \"{INSIDE}\"\noutside = \"{OUTSIDE}\"\nlisten = \"{}\"\n",
        Place::Sendbox.socket(ip, SENDBOX_PORT),
    );
    if let Sendbox::Bundle(Bundle { queue, controller, cross_traffic, multipath }) = job.arm.sendbox
    {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[bundle]]\nname = \"b\"\nid = 1\nprefixes = [\"{}\"]\nreceivebox = \"{}\"\n\
             key_file = \"{}\"\ncontroller = \"{controller}\"\n\
             cross_traffic = \"{}\"\nmultipath = \"{}\"\n{}",
            Place::SiteB.prefix(ip),
            Place::Receivebox.socket(ip, RECEIVEBOX_PORT),
            key.display(),
            cross_traffic.name(),
            multipath.name(),
            policy(queue, job),
        );
    }
    text
}

/// How a bundle is scheduled, as the end of its table; a class is told by its traffics' ports.
fn policy(queue: Queue, job: &Job<'_>) -> String {
    let limit = own_limit(queue, job);
    if queue.kind != QueueKind::Strict {
        return format!("policy = {{ kind = \"{}\", limit = \"{limit}\" }}\n", queue.kind.name());
    }
    let mut text = "policy = { kind = \"strict\" }\n".to_owned();
    let last = job.scenario.classes() - 1;
    for class in 0..=last {
        let own = job.scenario.traffic.iter().enumerate().filter(|(_, t)| t.class == class);
        let ports: Vec<u16> = own.flat_map(|(index, t)| programs::ports(index, t)).collect();
        // The last takes the rest. A class that no traffic is in takes what nobody sends.
        let ports = match ports.is_empty() {
            _ if class == last => String::new(),
            true => "ports = [0]\n".to_owned(),
            false => format!("ports = {ports:?}\n"),
        };
        let _ = write!(
            text,
            "[[bundle.class]]\nname = \"{}\"\n{ports}policy = {{ kind = \"sfq\", limit = \"{limit}\" }}\n",
            class + 1
        );
    }
    text
}

/// The sendbox does not know its path, so a limit in bandwidth-delay products goes in bytes.
fn own_limit(queue: Queue, job: &Job<'_>) -> Limit {
    match queue.limit {
        Limit::Bdp(_) => Limit::Bytes(queue.limit_bytes(&job.scenario.path)),
        other => other,
    }
}

fn receivebox(job: &Job<'_>, key: &path::Path) -> String {
    let ip = job.scenario.ip;
    // Cross traffic has the same destinations, so the bundle is told by its sources too.
    format!(
        "[receivebox]\ninterface = \"{UP}\"\nlisten = \"{}\"\n\
         [[bundle]]\nname = \"b\"\nid = 1\nprefixes = [\"{}\"]\nsources = [\"{}\"]\n\
         sendbox = \"{}\"\nkey_file = \"{}\"\n",
        Place::Receivebox.socket(ip, RECEIVEBOX_PORT),
        Place::SiteB.prefix(ip),
        Place::SiteA.prefix(ip),
        Place::Sendbox.socket(ip, SENDBOX_PORT),
        key.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{DEMO, parse};

    #[test]
    fn the_sendbox_is_told_the_arms_policy_and_controller() {
        let scenario = &parse("demo.toml".as_ref(), DEMO).unwrap().cells[0];
        let text = |arm: usize| {
            sendbox(&Job { scenario, arm: &scenario.arms[arm], seed: 1 }, "key".as_ref())
        };
        assert!(!text(0).contains("[[bundle]]"), "it only forwards");
        let says = "key_file = \"key\"\ncontroller = \"forebay\"\n\
                    cross_traffic = \"ignore\"\nmultipath = \"detect\"\n\
                    policy = { kind = \"sfq\", limit = \"2000 packets\" }\n";
        assert!(text(2).ends_with(says), "{}", text(2));
    }

    #[test]
    fn classes_are_told_by_the_ports_of_their_traffic() {
        let text = DEMO.replace("policy = \"sfq\"", "policy = \"strict\"");
        let text = text.replace("name = \"web\"\n", "name = \"web\"\nclass = 3\n");
        let scenario = &parse("demo.toml".as_ref(), &text).unwrap().cells[0];
        let job = Job { scenario, arm: &scenario.arms[2], seed: 1 };
        let text = sendbox(&job, "key".as_ref());
        let class = |name, ports| {
            format!(
                "[[bundle.class]]\nname = \"{name}\"\n{ports}\
                 policy = {{ kind = \"sfq\", limit = \"2000 packets\" }}\n"
            )
        };
        // The bulk transfer is the second traffic, nothing is in the second class, the web in the last.
        let classes = [("1", "ports = [11000]\n"), ("2", "ports = [0]\n"), ("3", "")];
        let says: String = classes.map(|(name, ports)| class(name, ports)).concat();
        let says = format!("policy = {{ kind = \"strict\" }}\n{says}");
        assert!(text.ends_with(&says), "{text}");
    }
}
