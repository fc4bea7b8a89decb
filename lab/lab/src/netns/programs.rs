use std::net::SocketAddr;
use std::path::PathBuf;

use super::addresses::Place;
use super::capabilities;
use super::senders::Senders;
use crate::engine::Job;
use crate::scenario::{Congestion, EcnField, IpVersion, Traffic, TrafficKind, Transport};
use crate::traffic::{Role, Spec};

/// A traffic program, its place and its role.
pub(super) struct Program {
    /// The name in files and messages.
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) spec: Spec,
}

/// Returns the programs of a traffic. The first must be ready before the second starts.
pub(super) fn programs(
    job: &Job<'_>,
    senders: &Senders,
    index: usize,
    output: &dyn Fn(&str) -> PathBuf,
) -> [Program; 2] {
    let scenario = job.scenario;
    let traffic = &scenario.traffic[index];
    let origin = Place::from(traffic.from);
    // Where sites are branches of site B, all traffic starts at site A.
    let (origin_host, target) = match origin {
        Place::Site(site) if capabilities::has_branches(job) => {
            (Place::Site(0), Place::Branch(site))
        }
        _ => (origin, Place::SiteB),
    };
    let sockets = Sockets { ip: scenario.ip, index };
    let tcp = |congestion: &Congestion| senders.tcp(traffic, *congestion);
    let (first, second) = match &traffic.kind {
        TrafficKind::Requests { requests, congestion } => {
            let listen = sockets.at(origin, 0);
            let measured = scenario.measured();
            (
                (
                    origin_host,
                    Role::RequestServer {
                        listen,
                        connections: requests.connections,
                        new_connections: requests.new_connections,
                        tcp: tcp(congestion),
                    },
                ),
                (
                    Place::SiteB,
                    Role::RequestClient {
                        server: listen,
                        requests: requests.clone(),
                        tcp: tcp(congestion),
                        measured: (measured.start.0, measured.end.0),
                    },
                ),
            )
        }
        TrafficKind::Bulk { flows, transport: Transport::Tcp(congestion) } => {
            let listen = sockets.at(origin, 0);
            (
                (origin_host, Role::TcpSource { listen, flows: *flows, tcp: tcp(congestion) }),
                (
                    Place::SiteB,
                    Role::TcpSink {
                        source: listen,
                        from: Vec::new(),
                        flows: *flows,
                        tcp: tcp(congestion),
                    },
                ),
            )
        }
        TrafficKind::Bulk { flows, transport: Transport::Udp } => {
            let sinks: Vec<_> = (0..*flows).map(|flow| sockets.at(target, flow)).collect();
            (
                (Place::SiteB, Role::UdpSink { listen: sinks.clone(), reports: true }),
                (origin_host, Role::UdpSource { sinks }),
            )
        }
        TrafficKind::Bulk { flows, transport: Transport::UdpPrague } => {
            let sinks: Vec<_> = (0..*flows).map(|flow| sockets.at(target, flow)).collect();
            (
                (Place::SiteB, Role::PragueSink { listen: sinks.clone() }),
                (origin_host, Role::PragueSource { sinks }),
            )
        }
        TrafficKind::Datagrams(pattern) => {
            let sink = sockets.at(target, 0);
            (
                (Place::SiteB, Role::UdpSink { listen: vec![sink], reports: false }),
                (
                    origin_host,
                    Role::DatagramSource {
                        sink,
                        pattern: *pattern,
                        l4s: traffic.ecn == Some(EcnField::Ect1),
                    },
                ),
            )
        }
        TrafficKind::UdpRr { flows } => {
            let listen = sockets.at(origin, 0);
            (
                (origin_host, Role::UdpEcho { listen }),
                (Place::SiteB, Role::UdpLoops { echo: listen, flows: *flows }),
            )
        }
    };
    [(first, "a"), (second, "b")].map(|((place, role), end)| {
        let name = format!("{}-{end}", traffic.name);
        let spec = spec(job, index, role, output(&format!("{name}.jsonl")));
        Program { name, place, spec }
    })
}

fn spec(job: &Job<'_>, index: usize, role: Role, output: PathBuf) -> Spec {
    let scenario = job.scenario;
    let traffic = &scenario.traffic[index];
    Spec {
        traffic: traffic.name.clone(),
        seed: job.seed,
        stream: index as u32,
        begin: traffic.start.0,
        // The same as in the simulator.
        stagger: scenario.path.rtt.0,
        stop: traffic.stop.0,
        end: scenario.length().0,
        output,
        role,
    }
}

/// The ports of the scenario's traffics: a thousand each, below Linux's ephemeral ports.
struct Sockets {
    ip: IpVersion,
    index: usize,
}

impl Sockets {
    fn at(&self, place: Place, flow: u32) -> SocketAddr {
        place.socket(self.ip, port(self.index, flow))
    }
}

/// The port of a flow; a checked scenario has at most 16 traffics of at most 1000 flows.
fn port(index: usize, flow: u32) -> u16 {
    (10_000 + 1_000 * index + flow as usize) as u16
}

/// The first and the last port that the `index`-th traffic of a scenario may have.
pub(super) fn all_ports(index: usize) -> (u16, u16) {
    (port(index, 0), port(index, 999))
}

/// The ports that packets of `traffic`, the `index`-th of the scenario, come from or go to.
pub(super) fn ports(index: usize, traffic: &Traffic) -> impl Iterator<Item = u16> {
    let flows = match traffic.kind {
        TrafficKind::Bulk { flows, transport: Transport::Udp | Transport::UdpPrague } => flows,
        _ => 1,
    };
    (0..flows).map(move |flow| port(index, flow))
}
