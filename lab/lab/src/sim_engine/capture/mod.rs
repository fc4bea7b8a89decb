//! Captures of simulated runs: every packet that leaves a queue, in a file that Wireshark opens.
//!
//! [`Capturing`] is the simulating engine with a capture of each run. A run's file has two
//! interfaces for each queue: one of packets that left it and one of its drops. Packets have
//! headers and no payload, and a comment with the flow, the wait and what happened to the packet.

mod frame;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use forebay_sim::{At, BundleId, Content, Headers, LinkId, PacketFate, Passage, RouteId};
use forebay_units::Nanos;

use self::frame::{Frame, SNAP};
use super::Sim;
use super::network::Network;
use crate::engine::{Engine, EngineError, Interrupt, Job, Progress};
use crate::results::pcapng::{Packet, Pcapng};
use crate::results::{Run, store};
use crate::scenario::{IpVersion, Scenario};

/// The largest capture of a run in bytes. Some 6 million packets fit.
pub const MAX_CAPTURE: u64 = 1 << 30;

/// The virtual time zero in nanoseconds since 1970: 1 January 2000, as in other exports.
const EPOCH: u64 = 946_684_800_000_000_000;

/// The port of a traffic's senders is this one plus the traffic's number. No protocol that
/// Wireshark knows has one of these.
const FIRST_PORT: u16 = 40_001;
/// The lowest port of receivers, the first dynamic one (RFC 6335 section 6).
const DYNAMIC: u16 = 49_152;
/// The number of bits of a flow's hash in its port.
const PORT_BITS: u32 = 14;
/// The port of boxes.
const BOX_PORT: u16 = 40_000;

/// The simulating engine, which also writes a capture of each run.
#[derive(Debug)]
pub struct Capturing<'a> {
    dir: &'a Path,
    axes: &'a [&'a str],
    largest: u64,
    cut: Mutex<Vec<Cut>>,
}

/// A capture that reached its largest size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file of the capture.
    pub path: PathBuf,
    /// The number of packets that are missing.
    pub missing: u64,
}

impl<'a> Capturing<'a> {
    /// Creates an engine whose captures stand beside the records in `dir`, which are divided into
    /// subdirectories by `axes` (see [`store::path_by`]). Each has at most `largest` bytes.
    pub fn new(dir: &'a Path, axes: &'a [&'a str], largest: u64) -> Self {
        Self { dir, axes, largest, cut: Mutex::default() }
    }

    /// Takes the list of captures that reached the largest size.
    pub fn take_cut(&self) -> Vec<Cut> {
        std::mem::take(&mut self.cut.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine for Capturing<'_> {
    fn name(&self) -> &'static str {
        Sim.name()
    }

    fn side_by_side(&self) -> NonZeroUsize {
        Sim.side_by_side()
    }

    fn check(&self, job: &Job<'_>) -> Result<(), EngineError> {
        Sim.check(job)
    }

    fn run(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, EngineError> {
        let records = self.dir.join(store::path_by(self.axes, &job.record(Nanos::ZERO)));
        let path = records.with_extension("pcapng");
        let (run, _, capture) =
            Sim.run_with(job, interrupt, progress, Some((&path, self.largest)))?;
        let missing = match capture {
            Some(capture) => capture.finish(job.scenario.length()).map_err(cannot_write(&path))?,
            None => 0,
        };
        if missing > 0 {
            let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
            cut.push(Cut { path, missing });
        }
        Ok(run)
    }
}

/// Returns a function for `map_err` that names the capture.
pub(super) fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> EngineError {
    EngineError::io(format!("cannot write the capture {}", path.display()))
}

/// A queue whose packets are captured. Its interface has an even number, and that of its drops the
/// next one.
struct Place {
    at: At,
    packets: [u64; 2],
    missing: [u64; 2],
}

/// The two ends of the packets on a route, and what they carry.
#[derive(Clone, Copy)]
struct Flow {
    /// The number of the traffic; `None` for messages of boxes.
    traffic: Option<usize>,
    /// The number of the sending site in addresses.
    site: u8,
    /// Whether packets go to the receivers, rather than back.
    forward: bool,
}

/// A capture in progress.
///
/// The file has another name until it is complete, so that an interruption leaves none.
pub(super) struct Capture {
    file: Pcapng<BufWriter<File>>,
    partial: PathBuf,
    path: PathBuf,
    largest: u64,
    ip: IpVersion,
    names: Vec<String>,
    flows: BTreeMap<RouteId, Flow>,
    places: Vec<Place>,
    /// The first failure to write, after which nothing is written.
    failure: Option<io::Error>,
    /// The headers and the comment of a packet, kept to reuse their memory.
    bytes: Vec<u8>,
    comment: String,
}

impl Capture {
    /// Creates the capture of a run over `network` at `path`, with at most `largest` bytes.
    pub(super) fn create(
        (path, largest): (&Path, u64),
        job: &Job<'_>,
        network: &Network,
    ) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let partial = path.with_extension("pcapng.partial");
        let out = BufWriter::with_capacity(1 << 18, File::create(&partial)?);
        let application = concat!("forebay ", env!("CARGO_PKG_VERSION"));
        let comment = format!(
            "A simulation: arm {}, seed {}, {}. Time begins on 1 January 2000. Payload is not part \
             of it, and checksums are those of zeros.",
            job.arm.name,
            job.seed,
            job.scenario.cell()
        );
        let mut file = Pcapng::new(out, application, &comment)?;
        let places = places(job.scenario, network);
        for (_, name) in &places {
            file.interface(name, "packets that left the queue", SNAP)?;
            file.interface(&format!("{name} drops"), "packets that the queue dropped", SNAP)?;
        }
        let place = |(at, _)| Place { at, packets: [0; 2], missing: [0; 2] };
        Ok(Self {
            file,
            partial,
            path: path.to_owned(),
            largest,
            ip: job.scenario.ip,
            names: job.scenario.traffic.iter().map(|t| t.name.clone()).collect(),
            flows: flows(network),
            places: places.into_iter().map(place).collect(),
            failure: None,
            bytes: Vec::new(),
            comment: String::new(),
        })
    }

    /// Writes a packet, unless the file has its largest size.
    pub(super) fn packet(&mut self, at: At, passage: &Passage, headers: &Headers) {
        let Some(place) = self.places.iter().position(|place| place.at == at) else { return };
        let kind = usize::from(passage.dropped);
        self.places[place].packets[kind] += 1;
        if self.failure.is_some() || self.file.written() >= self.largest {
            self.places[place].missing[kind] += 1;
            return;
        }
        let flow = self.flows.get(&passage.route).copied();
        // Messages of boxes are on routes without traffic.
        let flow =
            flow.unwrap_or(Flow { traffic: None, site: site(passage.source), forward: true });
        // The way back has the complement of a flow's hash.
        let hash = if flow.forward { passage.flow_hash } else { !passage.flow_hash };
        let near = self.near(flow);
        let far = self.far(flow, hash);
        let (source, destination) = if flow.forward { (near, far) } else { (far, near) };
        let frame = Frame {
            source,
            destination,
            ecn: headers.ecn,
            id: headers.id as u16,
            length: passage.len.0 as u32,
            tcp: match headers.content {
                Content::Tcp(tcp) => Some(tcp),
                Content::Udp | Content::Message(_) => None,
            },
        };
        let length = frame.write(&mut self.bytes);
        self.describe(flow, hash, at, passage, headers);
        let packet = Packet {
            interface: (2 * place + kind) as u32,
            time: EPOCH.saturating_add(passage.time.0),
            bytes: &self.bytes,
            length,
            comment: &self.comment,
        };
        if let Err(error) = self.file.packet(packet) {
            self.failure = Some(error);
        }
    }

    /// Makes the comment of a packet: words that a display filter can look for.
    fn describe(&mut self, flow: Flow, hash: u32, at: At, passage: &Passage, headers: &Headers) {
        self.comment.clear();
        let out = &mut self.comment;
        let wait = passage.sojourn.0;
        let (wait_ms, rest) = (wait / 1_000_000, wait % 1_000_000);
        // Writing to a string does not fail.
        let _ = match (headers.content, flow.traffic.and_then(|n| self.names.get(n))) {
            (Content::Message(kind), _) => write!(out, "message={kind}"),
            (_, Some(name)) => write!(out, "traffic={name} flow={hash:08x}"),
            (_, None) => write!(out, "flow={hash:08x}"),
        };
        if let At::Sendbox(_) = at {
            // Scenarios number classes from one.
            let _ = write!(out, " class={}", u16::from(headers.class) + 1);
        }
        let _ = write!(out, " wait_ms={wait_ms}.{rest:06}");
        if passage.marked {
            out.push_str(" mark");
        }
        match headers.fate {
            PacketFate::Sent => {}
            PacketFate::Lost => out.push_str(" lost"),
            PacketFate::Dropped(reason) => {
                let _ = write!(out, " drop={}", reason.to_string().replace(' ', "-"));
            }
        }
    }

    /// The senders' end of `flow`.
    fn near(&self, flow: Flow) -> SocketAddr {
        match flow.traffic {
            // At most 16 traffics, which the scenario's checks ensure.
            Some(traffic) => self.address(flow.site, 1, FIRST_PORT + traffic as u16),
            // Sendboxes have the network 9 in the laboratory.
            None => self.address(9, u16::from(flow.site), BOX_PORT),
        }
    }

    /// The receivers' end of `flow`. The hash of the flow gives its address and port, so that no
    /// two flows share them.
    fn far(&self, flow: Flow, hash: u32) -> SocketAddr {
        if flow.traffic.is_none() {
            return self.address(9, 2, BOX_PORT);
        }
        let port = DYNAMIC | (hash as u16 & ((1 << PORT_BITS) - 1));
        let [_, high, middle, low] = (hash >> PORT_BITS).to_be_bytes();
        let ip = match self.ip {
            IpVersion::V4 => IpAddr::from(Ipv4Addr::new(10, 80 + high, middle, low)),
            IpVersion::V6 => {
                let host = u16::from_be_bytes([middle, low]);
                IpAddr::from(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 2, u16::from(high), host))
            }
        };
        SocketAddr::new(ip, port)
    }

    /// An address in the plan of the engines with real hosts.
    fn address(&self, site: u8, host: u16, port: u16) -> SocketAddr {
        let ip = match self.ip {
            IpVersion::V4 => IpAddr::from(Ipv4Addr::new(10, 77, site, host as u8)),
            IpVersion::V6 => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, site.into(), host).into(),
        };
        SocketAddr::new(ip, port)
    }

    /// Writes the counts of each interface at the end of the run and gives the file its name.
    /// Returns the number of packets that are missing.
    pub(super) fn finish(mut self, end: Nanos) -> io::Result<u64> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let mut missing = 0;
        let time = EPOCH.saturating_add(end.0);
        for (number, place) in (0..).zip(&self.places) {
            for kind in [0, 1] {
                let (packets, omitted) = (place.packets[kind], place.missing[kind]);
                self.file.statistics(2 * number + kind as u32, time, packets, omitted)?;
                missing += omitted;
            }
        }
        self.file.flush()?;
        fs::rename(&self.partial, &self.path)?;
        Ok(missing)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // After `finish` there is no such file any more.
        let _ = fs::remove_file(&self.partial);
    }
}

/// The queues of `network` with their names, in the order of a packet's way.
fn places(scenario: &Scenario, network: &Network) -> Vec<(At, String)> {
    let numbered = |name: &str, n: usize| match n {
        0 => name.to_owned(),
        n => format!("{name}{}", n + 1),
    };
    let boxed = |(n, site): (usize, &super::network::Site)| {
        let at = site.bundle.map(At::Sendbox).or(site.link.map(At::Link))?;
        Some((at, numbered("sendbox", n)))
    };
    let mut places: Vec<_> = network.sites.iter().enumerate().filter_map(boxed).collect();
    places.extend(network.outer.map(|outer: BundleId| (At::Sendbox(outer), "outer".to_owned())));
    let ways = network.ways.iter().enumerate();
    places
        .extend(ways.map(|(n, way): (usize, &LinkId)| (At::Link(*way), numbered("bottleneck", n))));
    let has_queue = scenario.conditions.back.is_some_and(|back| back.rate.is_some());
    places.extend(network.back.filter(|_| has_queue).map(|b| (At::Link(b), "back".to_owned())));
    places
}

/// The flow of each route.
fn flows(network: &Network) -> BTreeMap<RouteId, Flow> {
    let mut flows = BTreeMap::new();
    for (n, [out, back]) in network.traffics.iter().enumerate() {
        let source = network.sites.iter().find(|s| s.traffics.iter().any(|r| r[0] == *out));
        let site = site(source.map_or(super::network::CROSS, |site| site.source));
        flows.insert(*out, Flow { traffic: Some(n), site, forward: true });
        flows.insert(*back, Flow { traffic: Some(n), site, forward: false });
    }
    for own in &network.sites {
        let flow = Flow { traffic: None, site: site(own.source), forward: false };
        flows.insert(own.messages, flow);
    }
    flows
}

/// The number of a source in addresses: site A has 1, cross traffic 3, and further sites those from
/// 11 on, as in the engines with real hosts.
fn site(source: u8) -> u8 {
    match source {
        super::network::LEFT => 1,
        super::network::CROSS => 3,
        further => further.saturating_add(11 - super::network::CROSS - 1),
    }
}
