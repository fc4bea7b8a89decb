//! The link and the boxes: their files and how they are started.

use std::fmt::Write;
use std::fs;
use std::path::{self, PathBuf};
use std::process::Command;

use forebay_system::clock;
use forebay_units::Nanos;

use super::addresses::{Place, numbered};
use super::dataplane::Dataplane;
use super::network::{CROSS, INSIDE, Network, OUTSIDE, QUEUE, RIGHT, UP, WIRE, left};
use super::process::{Kind, Processes, Program};
use super::programs;
use super::qdisc::Timers;
use super::run_dir::RunDir;
use super::{capabilities, exec};
use crate::engine::{EngineError, Job};
use crate::link::{BottleneckSpec, LaterSpec, LinkSpec, LossLimits, RouteSpec, WaySpec};
use crate::scenario::{
    Bundle, ClassShare, ClassShares, FaultKind, IpVersion, LinkBox, Maker, Origin, Process, Queue,
    Scenario, Sendbox, Spread,
};

/// The port on which the sendbox listens for feedback.
const SENDBOX_PORT: u16 = 28_316;
const RECEIVEBOX_PORT: u16 = 28_317;
const RECEIVEBOX_FILE: &str = "receivebox.toml";
/// The name of the outer bundle, of the process of its sendbox, and of their files.
pub(super) const OUTER: &str = "outer";
const OUTER_RECEIVEBOX: &str = "outer-receivebox";
/// The size of a full frame.
const FRAME: u64 = 1_514;

/// The files that the link writes.
pub(super) struct LinkFiles {
    pub(super) packets: PathBuf,
    pub(super) counters: PathBuf,
}

impl LinkFiles {
    pub(super) fn new(dir: &RunDir) -> Self {
        Self { packets: dir.file("link.packets"), counters: dir.file("link.counters") }
    }
}

/// The files that the sendbox of a site writes.
pub(super) struct SendboxFiles {
    pub(super) packets: PathBuf,
    pub(super) ticks: PathBuf,
    pub(super) events: PathBuf,
    pub(super) counters: PathBuf,
    /// The statistics of `forebay link`.
    pub(super) statistics: PathBuf,
}

impl SendboxFiles {
    /// The files after this number of restarts.
    pub(super) fn new(dir: &RunDir, site: u8, restarts: u32) -> Self {
        let again = if restarts > 0 { format!(".{restarts}") } else { String::new() };
        Self::named(dir, &format!("{}{again}", numbered("sendbox", site)))
    }

    /// The files of the outer sendbox.
    pub(super) fn outer(dir: &RunDir) -> Self {
        Self::named(dir, OUTER)
    }

    fn named(dir: &RunDir, name: &str) -> Self {
        let file = |what| dir.file(&format!("{name}.{what}"));
        Self {
            packets: file("packets"),
            ticks: file("ticks"),
            events: file("events"),
            counters: file("counters"),
            statistics: file("statistics"),
        }
    }
}

/// Starts the link, the sendboxes and, if the arm has bundles, the receivebox. The program
/// `forebay` is at `forebay`.
pub(super) fn start(
    forebay: &path::Path,
    job: &Job<'_>,
    timers: Timers,
    dir: &RunDir,
    network: &Network,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let at = |place| exec::open_namespace(&network.namespace(place));
    processes.start(dir, "link", Kind::Link, at(Place::Path)?, ["link-emulator"])?;
    processes.tell_last(&link(job, LinkFiles::new(dir))?)?;

    let key = |site| dir.file(&numbered("bundle", site)).with_extension("key");
    let sites = 0..capabilities::sites(job);
    if let Sendbox::Bundle(_) = job.arm.sendbox {
        for bundle in 0..capabilities::bundles(job) {
            keygen(forebay, &key(bundle))?;
        }
        write(dir, RECEIVEBOX_FILE, receivebox(job, &key))?;
        start_receivebox(forebay, dir, network, processes)?;
    }
    if let Some(bundle) = &job.arm.outer {
        start_outer(forebay, job, bundle, dir, network, processes)?;
    }
    for site in sites.filter(|_| job.arm.program.is_empty()) {
        let text = match job.arm.sendbox {
            Sendbox::Link(own) => link_box(own, timers, job),
            _ => sendbox(job, network.dataplane(), site, &key),
        };
        write(dir, &sendbox_file(site), text)?;
    }
    start_sendboxes(forebay, job, timers, dir, network, processes, 0)
}

/// Makes the key of a bundle in `file`.
fn keygen(forebay: &path::Path, file: &path::Path) -> Result<(), EngineError> {
    exec::run(Command::new(forebay).arg("keygen").arg(file), "").map(|_| ())
}

/// Starts the pair of boxes around all others.
fn start_outer(
    forebay: &path::Path,
    job: &Job<'_>,
    bundle: &Bundle,
    dir: &RunDir,
    network: &Network,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let ip = job.scenario.ip;
    let key = dir.file(OUTER).with_extension("key");
    keygen(forebay, &key)?;
    let at = |place| exec::open_namespace(&network.namespace(place));
    let ends = Ends {
        name: OUTER,
        id: 1,
        target: Place::SiteB,
        receivebox: Place::OuterReceivebox,
        key: &key,
    };
    let sources: Vec<_> =
        (0..capabilities::bundles(job)).map(|site| Place::Site(site).prefix(ip)).collect();
    let text = receivebox_head(Place::OuterReceivebox, ip)
        + &receivebox_bundle(&ends, &sources, Place::OuterSendbox, ip);
    let file = write(dir, "outer-receivebox.toml", text)?;
    let args = ["receivebox".into(), "--config".into(), file];
    let at_receivebox = at(Place::OuterReceivebox)?;
    let program = forebay.into();
    processes.start_program(dir, OUTER_RECEIVEBOX, Kind::Box, at_receivebox, program, args)?;

    let text = sendbox_head(Place::OuterSendbox, network.dataplane(), ip)
        + &sendbox_bundle(job, bundle, &ends);
    let file = write(dir, "outer.toml", text)?;
    let files = SendboxFiles::outer(dir);
    let args = [
        ("--config", file),
        ("--packet-log", files.packets),
        ("--counters", files.counters),
        ("--tick-log", files.ticks),
        ("--event-log", files.events),
    ];
    let args = args.into_iter().flat_map(|(flag, file)| [PathBuf::from(flag), file]);
    let args = std::iter::once(PathBuf::from("sendbox")).chain(args);
    processes.start_program(dir, OUTER, Kind::Box, at(Place::OuterSendbox)?, program, args)
}

fn sendbox_file(site: u8) -> String {
    format!("{}.toml", numbered("sendbox", site))
}

/// Starts the sendboxes, whose files exist, for the first time or after this number of restarts.
pub(super) fn start_sendboxes(
    forebay: &path::Path,
    job: &Job<'_>,
    timers: Timers,
    dir: &RunDir,
    network: &Network,
    processes: &mut Processes,
    restarts: u32,
) -> Result<(), EngineError> {
    for site in 0..capabilities::sites(job) {
        let name = numbered("sendbox", site);
        let namespace = exec::open_namespace(&network.namespace(Place::Sendbox(site)))?;
        if let Some((program, arguments)) = job.arm.program.split_first() {
            let variables = variables(job, dir);
            let program = Program { path: program.as_ref(), variables: &variables };
            processes.start_program(dir, &name, Kind::Daemon, namespace, program, arguments)?;
            continue;
        }
        let config = dir.file(&sendbox_file(site));
        let files = SendboxFiles::new(dir, site, restarts);
        let mut args = vec![
            ("--config", config),
            ("--packet-log", files.packets),
            ("--counters", files.counters),
        ];
        let command = match job.arm.sendbox {
            Sendbox::Link(_) => {
                args.push(("--statistics", files.statistics));
                "link"
            }
            _ => {
                args.extend([("--tick-log", files.ticks), ("--event-log", files.events)]);
                "sendbox"
            }
        };
        let args = args.into_iter().flat_map(|(flag, file)| [PathBuf::from(flag), file]);
        let args = std::iter::once(command.into()).chain(args);
        let kind = match job.arm.sendbox {
            Sendbox::Link(own) if polls(own, timers) => Kind::Polling,
            _ => Kind::Box,
        };
        processes.start_program(dir, &name, kind, namespace, forebay.into(), args)?;
    }
    Ok(())
}

/// What a program in the sendbox's place may need to know, as environment variables: its
/// interfaces, an address beyond the bottleneck that answers pings, the mean rate of the path in
/// bit/s, its round-trip time in microseconds, and a directory for files.
fn variables(job: &Job<'_>, dir: &RunDir) -> [(&'static str, String); 6] {
    let Scenario { path, ip, .. } = job.scenario;
    [
        ("FOREBAY_INSIDE", INSIDE.to_owned()),
        ("FOREBAY_OUTSIDE", OUTSIDE.to_owned()),
        ("FOREBAY_REFLECTOR", Place::SiteB.address(*ip).to_string()),
        ("FOREBAY_RATE", path.rate.as_bps().to_string()),
        ("FOREBAY_RTT", (path.rtt.0 / 1000).to_string()),
        ("FOREBAY_DIR", dir.file("").display().to_string()),
    ]
}

/// Stops the sendboxes, which write their records. Returns when the first one was asked to.
pub(super) fn stop_sendboxes(
    job: &Job<'_>,
    processes: &mut Processes,
) -> Result<Nanos, EngineError> {
    let asked = clock::now();
    (0..capabilities::sites(job))
        .try_for_each(|site| processes.stop(&numbered("sendbox", site)))?;
    Ok(asked)
}

/// Starts the receivebox, whose file exists, for the first time or again.
pub(super) fn start_receivebox(
    forebay: &path::Path,
    dir: &RunDir,
    network: &Network,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let namespace = exec::open_namespace(&network.namespace(Place::Receivebox))?;
    let args = ["receivebox".into(), "--config".into(), dir.file(RECEIVEBOX_FILE)];
    let name = Process::Receivebox.name();
    processes.start_program(dir, name, Kind::Box, namespace, forebay.into(), args)
}

fn write(dir: &RunDir, name: &str, text: String) -> Result<PathBuf, EngineError> {
    let path = dir.file(name);
    fs::write(&path, text).map_err(EngineError::io(format!("writing {}", path.display())))?;
    Ok(path)
}

fn link(job: &Job<'_>, files: LinkFiles) -> Result<LinkSpec, EngineError> {
    let (path, conditions) = (job.scenario.path, &job.scenario.conditions);
    let full = job.scenario.highest_rate().bytes_in(job.scenario.length()).0 / FRAME;
    let queue = match job.arm.queue.by {
        Maker::Kernel => BottleneckSpec::Kernel { entry: QUEUE.to_owned(), exit: WIRE.to_owned() },
        Maker::Forebay => {
            let queue = (job.arm.queue)
                .spec(&path)
                .ok_or_else(|| EngineError::Unfit(format!("no queue {} here", job.arm.queue)))?;
            BottleneckSpec::Forebay { queue }
        }
    };
    // The port of cross traffic keeps its number even without cross traffic, as in the simulator.
    let sites = capabilities::entries(job);
    let cross = (has_cross(job) || sites > 1).then(|| CROSS.to_owned());
    let others = cross.into_iter().chain((1..sites).map(left)).collect();
    // The receivers' side and the cross traffic have the path's round trip.
    let longer = |site: u8| conditions.site_longer(u32::from(site), &path).0;
    let longer_ns = [longer(0), 0, 0].into_iter().chain((1..sites).map(longer)).collect();
    let ways = conditions.ways.iter().map(|way| {
        let queue = job.arm.queue.spec(way);
        Ok(WaySpec {
            rate_bps: way.rate.as_bps(),
            // All ways share one way back, which takes half of the path's round-trip time.
            delay_ns: way.rtt.saturating_sub(path.rtt / 2).0,
            queue: queue
                .ok_or_else(|| EngineError::Unfit(format!("no queue {} here", job.arm.queue)))?,
        })
    });
    let routes = job.scenario.faults.iter().filter_map(|fault| match fault.kind {
        FaultKind::Route { rtt } => Some(RouteSpec { at_ns: fault.at.0, rtt_ns: rtt.0 }),
        _ => None,
    });
    Ok(LinkSpec {
        left: left(0),
        right: RIGHT.to_owned(),
        others,
        rate_bps: path.rate.as_bps(),
        delay_ns: path.rtt.0 / 2,
        capacity: Some(conditions.capacity.clone()),
        delay_trace: conditions.delay_trace.clone(),
        loss: conditions.loss,
        jitter: conditions.jitter,
        feedback_loss: conditions.feedback_loss,
        feedback_port: SENDBOX_PORT,
        policer: conditions.policer,
        back: conditions.back,
        back_queue: None,
        most_lost_in_a_row: LossLimits::default(),
        outage: None,
        longer_ns,
        ways: ways.collect::<Result<_, EngineError>>()?,
        per_packet: conditions.spread == Spread::Packet,
        sites: if capabilities::has_branches(job) {
            let all = 0..capabilities::bundles(job);
            all.map(|site| Place::Site(site).address(job.scenario.ip)).collect()
        } else {
            Vec::new()
        },
        routes: routes.collect(),
        later: later(job.scenario),
        seed: job.seed,
        queue,
        packet_log: files.packets,
        // One ACK per packet, the same number of drops again, and a margin for short runs.
        packet_limit: 4 * full + 100_000,
        counters: files.counters,
    })
}

/// The traffics with a round-trip time of their own, which their way back makes longer.
fn later(scenario: &Scenario) -> Vec<LaterSpec> {
    let traffics = scenario.traffic.iter().enumerate();
    let later = traffics.filter_map(|(index, traffic)| {
        let rtt = match traffic.from {
            Origin::Cross => scenario.path.rtt,
            Origin::Site(site) => scenario.conditions.site_rtt(site, &scenario.path),
        };
        let (first_port, last_port) = programs::all_ports(index);
        let by_ns = traffic.rtt?.saturating_sub(rtt).0;
        Some(LaterSpec { first_port, last_port, by_ns })
    });
    later.collect()
}

/// Whether the job has traffic that does not pass a sendbox.
pub(super) fn has_cross(job: &Job<'_>) -> bool {
    job.scenario.traffic.iter().any(|traffic| traffic.from == Origin::Cross)
}

/// The name of a site's bundle and its number in the protocol.
fn bundle(site: u8) -> (String, u16) {
    (numbered("b", site), u16::from(site) + 1)
}

/// The two ends of a bundle.
struct Ends<'a> {
    name: &'a str,
    /// The number in the protocol.
    id: u16,
    /// The hosts to which the bundle's traffic goes.
    target: Place,
    receivebox: Place,
    key: &'a path::Path,
}

/// The configuration of the sendbox of `site`, with all bundles that it has.
fn sendbox(job: &Job<'_>, dataplane: Dataplane, site: u8, key: &dyn Fn(u8) -> PathBuf) -> String {
    let mut text = sendbox_head(Place::Sendbox(site), dataplane, job.scenario.ip);
    if let Sendbox::Bundle(own) = &job.arm.sendbox {
        let branches = capabilities::has_branches(job);
        let bundles = if branches { 0..capabilities::bundles(job) } else { site..site + 1 };
        for number in bundles {
            let (name, id) = bundle(number);
            let target = if branches { Place::Branch(number) } else { Place::SiteB };
            let key = key(number);
            let ends = Ends { name: &name, id, target, receivebox: Place::Receivebox, key: &key };
            text += &sendbox_bundle(job, own, &ends);
        }
    }
    text
}

fn sendbox_head(place: Place, dataplane: Dataplane, ip: IpVersion) -> String {
    let moves = match dataplane {
        Dataplane::User => format!("inside = \"{INSIDE}\""),
        Dataplane::Kernel => "dataplane = \"kernel\"".to_owned(),
    };
    format!(
        "[sendbox]\n{moves}\noutside = \"{OUTSIDE}\"\nlisten = \"{}\"\n",
        place.socket(ip, SENDBOX_PORT),
    )
}

/// A bundle of a sendbox.
fn sendbox_bundle(job: &Job<'_>, own: &Bundle, ends: &Ends<'_>) -> String {
    let ip = job.scenario.ip;
    let Bundle { queue, controller, cross_traffic, multipath, guard, min_rate, max_rate, classes } =
        own;
    let rates = [("min_rate", min_rate), ("max_rate", max_rate)].map(|(key, rate)| {
        rate.map_or_else(String::new, |rate| format!("{key} = \"{} bit/s\"\n", rate.as_bps()))
    });
    format!(
        "[[bundle]]\nname = \"{}\"\nid = {}\nprefixes = [\"{}\"]\nreceivebox = \"{}\"\n\
         key_file = \"{}\"\ncontroller = \"{controller}\"\n\
         cross_traffic = \"{}\"\nmultipath = \"{}\"\nguard = {guard}\n{}{}",
        ends.name,
        ends.id,
        ends.target.prefix(ip),
        ends.receivebox.socket(ip, RECEIVEBOX_PORT),
        ends.key.display(),
        cross_traffic.name(),
        multipath.name(),
        rates.concat(),
        policy(*queue, classes, "bundle", job),
    )
}

/// Whether the box polls. A process that never sleeps stops a virtual clock, and polling has no
/// benefit there.
fn polls(own: LinkBox, timers: Timers) -> bool {
    own.busy_poll && timers == Timers::Late
}

/// The configuration of `forebay link`, which queues the traffic that leaves the site.
fn link_box(own: LinkBox, timers: Timers, job: &Job<'_>) -> String {
    let LinkBox { queue, rate, .. } = own;
    let busy_poll = polls(own, timers);
    format!(
        "[link]\ninside = \"{INSIDE}\"\noutside = \"{OUTSIDE}\"\noutward = \"{} bit/s\"\n\
         busy_poll = {busy_poll}\n{}",
        rate.as_bps(),
        policy(queue, &ClassShares::default(), "link", job),
    )
}

/// The end of the table `of`, with the policy. A class is recognised by the ports of its traffics.
fn policy(queue: Queue, shares: &ClassShares, of: &str, job: &Job<'_>) -> String {
    let limit = queue.policy_limit(&job.scenario.path);
    if !queue.kind.is_classful() {
        let target = queue.target.map(|t| format!(", target = \"{} ns\"", t.0));
        let coupling = queue.coupling.map(|k| format!(", coupling = {k}"));
        let more = [target, coupling].map(Option::unwrap_or_default).concat();
        let kind = queue.kind.name();
        return format!("policy = {{ kind = \"{kind}\", limit = \"{limit}\"{more} }}\n");
    }
    let mut text = format!("policy = \"{}\"\n", queue.kind.name());
    let mut shares = shares.iter();
    let last = job.scenario.classes() - 1;
    for class in 0..=last {
        let own = job.scenario.traffic.iter().enumerate().filter(|(_, t)| t.class == class);
        let ports: Vec<u16> = own.flat_map(|(index, t)| programs::ports(index, t)).collect();
        // The last class takes the rest. A class without traffic takes a port that is not used.
        let ports = match ports.is_empty() {
            _ if class == last => String::new(),
            // Each another one, since no class may have the packets of one before it.
            true => format!("ports = [{}]\n", u16::from(class) + 1),
            false => format!("ports = {ports:?}\n"),
        };
        let _ = write!(
            text,
            "[[{of}.class]]\nname = \"{}\"\n{ports}policy = {{ kind = \"sfq\", limit = \"{limit}\" }}\n",
            class + 1
        );
        if let Some(ClassShare { weight, rate, ceil }) = shares.next() {
            let _ = writeln!(text, "weight = {weight}");
            for (key, rate) in [("rate", rate), ("ceil", ceil)] {
                if let Some(rate) = rate {
                    let _ = writeln!(text, "{key} = \"{} bit/s\"", rate.as_bps());
                }
            }
        }
    }
    text
}

fn receivebox(job: &Job<'_>, key: &dyn Fn(u8) -> PathBuf) -> String {
    let ip = job.scenario.ip;
    let branches = capabilities::has_branches(job);
    let mut text = receivebox_head(Place::Receivebox, ip);
    for number in 0..capabilities::bundles(job) {
        let (name, id) = bundle(number);
        let (target, site) =
            if branches { (Place::Branch(number), 0) } else { (Place::SiteB, number) };
        let key = key(number);
        let ends = Ends { name: &name, id, target, receivebox: Place::Receivebox, key: &key };
        let sources = [Place::Site(number).prefix(ip)];
        text += &receivebox_bundle(&ends, &sources, Place::Sendbox(site), ip);
    }
    text
}

fn receivebox_head(place: Place, ip: IpVersion) -> String {
    let listen = place.socket(ip, RECEIVEBOX_PORT);
    format!("[receivebox]\ninterface = \"{UP}\"\nlisten = \"{listen}\"\n")
}

/// A bundle of a receivebox. Cross traffic and other sites' traffic have the same destinations, so
/// the bundle also matches the source.
fn receivebox_bundle(ends: &Ends<'_>, sources: &[String], sendbox: Place, ip: IpVersion) -> String {
    format!(
        "[[bundle]]\nname = \"{}\"\nid = {}\nprefixes = [\"{}\"]\nsources = {sources:?}\n\
         sendbox = \"{}\"\nkey_file = \"{}\"\n",
        ends.name,
        ends.id,
        ends.target.prefix(ip),
        sendbox.socket(ip, SENDBOX_PORT),
        ends.key.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{DEMO, parse};

    #[test]
    fn the_sendbox_is_configured_with_the_arms_policy_and_controller() {
        let scenario = &parse("demo.toml".as_ref(), DEMO).unwrap().cells[0];
        let text = |arm: usize| {
            sendbox(
                &Job { scenario, arm: &scenario.arms[arm], seed: 1 },
                Dataplane::User,
                0,
                &|_| "key".into(),
            )
        };
        assert!(!text(0).contains("[[bundle]]"), "it only forwards");
        let says = "key_file = \"key\"\ncontroller = \"forebay\"\n\
                    cross_traffic = \"ignore\"\nmultipath = \"detect\"\nguard = true\n\
                    policy = { kind = \"sfq\", limit = \"2000 packets\" }\n";
        assert!(text(2).ends_with(says), "{}", text(2));
    }

    #[test]
    fn a_bundle_has_the_rates_of_its_arm() {
        let own = "sendbox = { max_rate = \"40 Mbit/s\", min_rate = \"1 Mbit/s\", policy = \"sfq\"";
        let demo = DEMO.replace("sendbox = { policy = \"sfq\"", own);
        let scenario = &parse("demo.toml".as_ref(), &demo).unwrap().cells[0];
        let job = Job { scenario, arm: &scenario.arms[2], seed: 1 };
        let text = sendbox(&job, Dataplane::User, 0, &|_| "key".into());
        let says = "min_rate = \"1000000 bit/s\"\nmax_rate = \"40000000 bit/s\"\npolicy";
        assert!(text.contains(says), "{text}");
    }

    #[test]
    fn each_site_has_its_own_sendbox_and_bundle() {
        let text = DEMO.replacen("[path]", "sites = 2\n[path]", 1);
        let text = text.replacen("name = \"web\"\n", "name = \"web\"\nsite = 2\n", 1);
        let scenario = &parse("demo.toml".as_ref(), &text).unwrap().cells[0];
        let job = Job { scenario, arm: &scenario.arms[2], seed: 1 };
        let second = sendbox(&job, Dataplane::User, 1, &|_| "k2".into());
        for says in ["listen = \"10.77.9.11:28316\"", "name = \"b2\"\nid = 2\n", "\"k2\""] {
            assert!(second.contains(says), "{says}: {second}");
        }
        let receivebox = receivebox(&job, &|site| PathBuf::from(format!("k{site}")));
        for says in [
            "name = \"b\"\nid = 1\nprefixes = [\"10.77.2.0/24\"]\nsources = [\"10.77.1.0/24\"]",
            "name = \"b2\"\nid = 2\nprefixes = [\"10.77.2.0/24\"]\nsources = [\"10.77.11.0/24\"]",
            "sendbox = \"10.77.9.11:28316\"\nkey_file = \"k1\"",
        ] {
            assert!(receivebox.contains(says), "{says}: {receivebox}");
        }
        let files = LinkFiles { packets: "p".into(), counters: "c".into() };
        assert_eq!(link(&job, files).unwrap().others, ["fb-cross", "fb-left2"]);
    }

    #[test]
    fn classes_match_the_ports_of_their_traffic() {
        let text = DEMO.replace("policy = \"sfq\"", "policy = \"strict\"");
        let text = text.replace("name = \"web\"\n", "name = \"web\"\nclass = 3\n");
        let scenario = &parse("demo.toml".as_ref(), &text).unwrap().cells[0];
        let job = Job { scenario, arm: &scenario.arms[2], seed: 1 };
        let text = sendbox(&job, Dataplane::Kernel, 0, &|_| "key".into());
        assert!(
            text.starts_with("[sendbox]\ndataplane = \"kernel\"\noutside = \"fb-out\"\n"),
            "{text}"
        );
        let class = |name, ports| {
            format!(
                "[[bundle.class]]\nname = \"{name}\"\n{ports}\
                 policy = {{ kind = \"sfq\", limit = \"2000 packets\" }}\n"
            )
        };
        // The bulk transfer is the second traffic, no traffic is in the second class, and the web
        // is in the last.
        let classes = [("1", "ports = [11000]\n"), ("2", "ports = [2]\n"), ("3", "")];
        let says: String = classes.map(|(name, ports)| class(name, ports)).concat();
        let says = format!("policy = \"strict\"\n{says}");
        assert!(text.ends_with(&says), "{text}");
    }
}
