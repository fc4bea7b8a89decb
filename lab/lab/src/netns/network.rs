use std::fs;
use std::process::Command;

use super::addresses::{Place, numbered};
use super::dataplane::Dataplane;
use super::namespace::{FOR_ALL, FOR_HOSTS, FOR_ROUTERS, OFFLOADS, lines, remove_namespace};
use super::qdisc::Timers;
use super::run_dir::RunDir;
use super::{capabilities, exec, qdisc, senders};
use crate::engine::{EngineError, Job};
use crate::scenario::{IpVersion, Maker};

/// An end of a link: the place and the name of the interface.
type End = (Place, String);

pub(super) const INSIDE: &str = "fb-in";
pub(super) const OUTSIDE: &str = "fb-out";
const LEFT: &str = "fb-left";
pub(super) const RIGHT: &str = "fb-right";
pub(super) const CROSS: &str = "fb-cross";
/// The interface with the kernel's queueing discipline, if the bottleneck is the kernel's.
pub(super) const QUEUE: &str = "fb-queue";
/// The interface at which packets leave that discipline.
pub(super) const WIRE: &str = "fb-wire";
pub(super) const UP: &str = "fb-up";
const DOWN: &str = "fb-down";
const BRIDGE: &str = "fb-br";
/// The hub's interface towards the sendbox of a site.
const HUB_SITE: &str = "fb-site";

/// The links that all sites share. The last one is for a bottleneck of the kernel: the link sends
/// frames into one end and receives them at the other.
const SHARED: [[(Place, &str); 2]; 4] = [
    [(Place::Path, RIGHT), (Place::Receivebox, UP)],
    [(Place::Receivebox, DOWN), (Place::SiteB, "fb-b")],
    [(Place::Cross, "fb-x"), (Place::Path, CROSS)],
    [(Place::Path, QUEUE), (Place::Path, WIRE)],
];

/// The links of a pair of boxes around those of the sites, in the place of the first shared one.
const AROUND: [[(Place, &str); 2]; 4] = [
    [(Place::Hub, "fb-hub"), (Place::OuterSendbox, INSIDE)],
    [(Place::OuterSendbox, OUTSIDE), (Place::Path, LEFT)],
    [(Place::Path, RIGHT), (Place::OuterReceivebox, UP)],
    [(Place::OuterReceivebox, DOWN), (Place::Receivebox, UP)],
];

/// The link's interface towards the sendbox of a site.
pub(super) fn left(site: u8) -> String {
    numbered(LEFT, site)
}

fn links(sites: u8, nested: bool, kernel_queue: bool) -> Vec<[End; 2]> {
    let outward = |site| match nested {
        true => (Place::Hub, numbered(HUB_SITE, site)),
        false => (Place::Path, left(site)),
    };
    let own = (0..sites).flat_map(|site| {
        let (own, sendbox) = (Place::Site(site), Place::Sendbox(site));
        [
            [(own, "fb-a".to_owned()), (sendbox, INSIDE.to_owned())],
            [(sendbox, OUTSIDE.to_owned()), outward(site)],
        ]
    });
    let shared = &SHARED[..SHARED.len() - usize::from(!kernel_queue)];
    let (shared, around) = match nested {
        true => (&shared[1..], &AROUND[..]),
        false => (shared, &[][..]),
    };
    let shared = around.iter().chain(shared);
    own.chain(shared.map(|ends| ends.map(|(at, name)| (at, name.to_owned())))).collect()
}

/// The value of `tcp_ecn` for hosts that request ECN; the next is for hosts that only accept it,
/// Linux's default. Both apply to IPv6 too.
const ECN_ASKED: &str = "1";
const ECN_ANSWERED: &str = "2";

/// The namespaces of a run and the links between them; removed when dropped.
pub(super) struct Network {
    id: String,
    dataplane: Dataplane,
    places: Vec<Place>,
    links: Vec<[End; 2]>,
    /// The number of sites that are addresses of site A and of site B; none where each is a place.
    branches: u8,
}

impl Network {
    /// Sets up everything for `job` that the kernel does.
    pub(super) fn set_up(
        dir: &RunDir,
        job: &Job<'_>,
        dataplane: Dataplane,
        timers: Timers,
    ) -> Result<Self, EngineError> {
        let (ip, ecn) = (job.scenario.ip, job.scenario.ecn);
        let bursts = job.scenario.largest_burst.map(|n| format!(" gso_max_segs {n}"));
        let bursts = bursts.unwrap_or_default();
        let id = dir.id().to_owned();
        let sites = capabilities::sites(job);
        let nested = job.arm.outer.is_some();
        let places: Vec<Place> = Place::all(sites, nested).collect();
        let names: Vec<String> = places.iter().map(|place| place.namespace(&id)).collect();
        // The names are noted first, so that a run killed in between leaves nothing that is not
        // noted.
        dir.note_namespaces(&names)?;
        let kernel_queue = job.arm.queue.by == Maker::Kernel;
        let links = links(sites, nested, kernel_queue);
        let branches = if capabilities::has_branches(job) { capabilities::bundles(job) } else { 0 };
        let network = Self { id, dataplane, places, links, branches };
        exec::batch("ip", None, &lines(names.iter().map(|name| format!("netns add {name}"))))?;
        for &place in &network.places {
            network.set(place, &FOR_ALL)?;
            if network.is_router(place) {
                network.set(place, &FOR_ROUTERS)?;
            }
            if let Place::Site(_) | Place::SiteB | Place::Cross = place {
                network.set(place, &FOR_HOSTS)?;
                let ecn = if ecn { ECN_ASKED } else { ECN_ANSWERED };
                network.set(place, &[("ipv4/tcp_ecn", ecn)])?;
            }
        }
        let link = |[(left, left_name), (right, right_name)]: &[End; 2]| {
            format!(
                "link add {left_name} netns {} mtu 1500{bursts} type veth peer name {right_name} mtu 1500{bursts} \
                 netns {}",
                left.namespace(&network.id),
                right.namespace(&network.id),
            )
        };
        exec::batch("ip", None, &lines(network.links.iter().map(link)))?;
        for &place in &network.places {
            network.configure(place, ip)?;
            network.prepare_senders(job, place)?;
        }
        if kernel_queue {
            qdisc::attach(job, timers, &network.namespace(Place::Path), QUEUE)?;
        }
        Ok(network)
    }

    /// Makes the hosts at `place` mark their L4S traffic with ECT(1).
    fn prepare_senders(&self, job: &Job<'_>, place: Place) -> Result<(), EngineError> {
        if !matches!(place, Place::Site(_) | Place::SiteB | Place::Cross) {
            return Ok(());
        }
        let name = self.namespace(place);
        let namespace = exec::open_namespace(&name)?;
        for (_, device) in self.links.iter().flatten().filter(|(at, _)| *at == place) {
            exec::in_namespace(&namespace, || senders::prepare(job, device))
                .map_err(EngineError::io(format!("preparing {device} in {name}")))?;
        }
        Ok(())
    }

    /// The name of the namespace.
    pub(super) fn namespace(&self, place: Place) -> String {
        place.namespace(&self.id)
    }

    fn set(&self, place: Place, settings: &[(&str, &str)]) -> Result<(), EngineError> {
        let name = self.namespace(place);
        let namespace = exec::open_namespace(&name)?;
        for (key, value) in settings {
            // `/proc/sys/net` shows the namespace of the thread that opens the file.
            let file = format!("/proc/sys/net/{key}");
            let what = format!("writing {value} to {file} in {name}");
            exec::in_namespace(&namespace, || fs::write(file, value))
                .map_err(EngineError::io(what))?;
        }
        Ok(())
    }

    /// Where packets queue at the sendboxes.
    pub(super) fn dataplane(&self) -> Dataplane {
        self.dataplane
    }

    /// Whether `place` is a sendbox that the kernel forwards for. It is a router and not a bridge,
    /// since its hosts stand for other machines. A router takes a packet from its sender. Behind a
    /// bridge, the sender's TCP would see the packet in the queue (TCP small queues), and at most
    /// two would wait there.
    fn is_router(&self, place: Place) -> bool {
        matches!((self.dataplane, place), (Dataplane::Kernel, Place::Sendbox(_)))
    }

    /// The offloads to switch off on `device` at `place`. If the kernel queues at the sendbox,
    /// packets may be large and without checksums from the site's hosts through that queue, as on a
    /// router.
    fn offloads(&self, place: Place, device: &str) -> &'static [&'static str] {
        match (self.dataplane, place) {
            (Dataplane::Kernel, Place::Site(_)) => &[],
            (Dataplane::Kernel, Place::Sendbox(_)) if device == OUTSIDE => &["tx", "off"],
            (Dataplane::Kernel, Place::Sendbox(_)) => &[],
            _ => &OFFLOADS,
        }
    }

    /// Sets offloads and addresses and brings all interfaces up.
    fn configure(&self, place: Place, ip: IpVersion) -> Result<(), EngineError> {
        let name = self.namespace(place);
        let namespace = exec::open_namespace(&name)?;
        let devices: Vec<_> = self
            .links
            .iter()
            .flatten()
            .filter(|(at, _)| *at == place)
            .map(|(_, device)| device.as_str())
            .collect();
        let mut batch = vec!["link set lo up".to_owned()];
        for device in &devices {
            let offloads = self.offloads(place, device);
            if !offloads.is_empty() {
                let mut ethtool = Command::new("ethtool");
                ethtool.arg("-K").arg(device).args(offloads);
                exec::run(exec::within(&mut ethtool, namespace.clone()), "")?;
            }
            // No link-local address, so that only the traffic is on the wire.
            batch.push(format!("link set {device} addrgenmode none"));
        }
        let addressed = match place {
            Place::Path => None,
            Place::Sendbox(_) | Place::OuterSendbox => Some(OUTSIDE),
            Place::Hub | Place::Receivebox | Place::OuterReceivebox => {
                batch.push(format!("link add {BRIDGE} type bridge mcast_snooping 0"));
                batch.push(format!("link set {BRIDGE} addrgenmode none"));
                batch.extend(devices.iter().map(|d| format!("link set {d} master {BRIDGE}")));
                batch.push(format!("link set {BRIDGE} up"));
                (place != Place::Hub).then_some(BRIDGE)
            }
            Place::Site(_) | Place::SiteB | Place::Cross | Place::Branch(_) => {
                devices.first().copied()
            }
        };
        batch.extend(devices.iter().map(|device| format!("link set {device} up")));
        if let Some(device) = addressed {
            let on_wire = !self.is_behind_router(place);
            // Behind routers, routes on the wire are per place. An IPv6 host that has not resolved
            // its gateway uses any other route (RFC 4191, section 3.2, is what kernels without
            // ROUTER_PREF omit), and a prefix of the whole wire would contain those sites too.
            let by_place = ip == IpVersion::V6 && self.dataplane == Dataplane::Kernel;
            batch.push(address(place, ip, device, on_wire && !by_place));
            if on_wire && by_place {
                let others = self.places.iter().filter(|p| !self.is_behind_router(**p));
                let prefixes = others.filter(|p| **p != Place::Path).map(|p| p.prefix(ip));
                batch.extend(prefixes.map(|p| format!("route replace {p} dev {device}")));
            }
            batch.extend(self.routes(place, ip, device));
            batch.extend(self.branch_addresses(place, ip, device));
        }
        exec::batch("ip", Some(&name), &lines(batch))
    }

    /// The addresses of the branches at `place`, and the routes by which hosts choose them: traffic
    /// between site A and a branch has both addresses of that number.
    fn branch_addresses(&self, place: Place, ip: IpVersion, device: &str) -> Vec<String> {
        let ends: fn(u8) -> (Place, Place) = match place {
            Place::Site(_) => |n| (Place::Site(n), Place::Branch(n)),
            Place::SiteB => |n| (Place::Branch(n), Place::Site(n)),
            _ => return Vec::new(),
        };
        let commands = (0..self.branches).flat_map(|n| {
            let (own, peer) = ends(n);
            let route =
                format!("route replace {} dev {device} src {}", peer.prefix(ip), own.address(ip));
            let given = (own != place).then(|| address(own, ip, device, true));
            given.into_iter().chain([route])
        });
        commands.collect()
    }

    /// Whether other places reach `place` only through a router.
    fn is_behind_router(&self, place: Place) -> bool {
        matches!((self.dataplane, place), (Dataplane::Kernel, Place::Site(_)))
    }

    /// The routes between `place`, which sends through `device`, and the sites behind routers.
    fn routes(&self, place: Place, ip: IpVersion, device: &str) -> Vec<String> {
        let of = |place: Place| place.address(ip);
        match place {
            Place::Site(site) if self.is_behind_router(place) => {
                let router = of(Place::Sendbox(site));
                vec![
                    format!("route add {router} dev {device}"),
                    format!("route add default via {router} dev {device}"),
                ]
            }
            Place::Sendbox(site) if self.is_router(place) => {
                let mut all = vec![
                    address(place, ip, INSIDE, false),
                    format!("route add {} dev {INSIDE}", of(Place::Site(site))),
                ];
                if ip == IpVersion::V6 {
                    // The source address with which a router resolves its neighbours for forwarded
                    // packets.
                    let own = u16::from(site) + 1;
                    let link_local = |d| format!("address add fe80::{own:x}/64 dev {d} nodad");
                    all.extend([INSIDE, device].map(link_local));
                }
                all
            }
            Place::SiteB => {
                let all = self.places.iter().filter_map(|&p| match p {
                    Place::Site(site) if self.is_behind_router(p) => {
                        Some(format!("route add {} via {}", of(p), of(Place::Sendbox(site))))
                    }
                    _ => None,
                });
                all.collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The command that gives `place` its address on `device`, with the shared subnet or alone.
fn address(place: Place, ip: IpVersion, device: &str, shared: bool) -> String {
    let address = place.address(ip);
    match (ip, shared) {
        (IpVersion::V4, true) => format!("address add {address}/16 dev {device}"),
        (IpVersion::V4, false) => format!("address add {address}/32 dev {device}"),
        // Without duplicate address detection, the address is usable at once.
        (IpVersion::V6, true) => format!("address add {address}/64 dev {device} nodad"),
        (IpVersion::V6, false) => format!("address add {address}/128 dev {device} nodad"),
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for &place in &self.places {
            if let Err(e) = remove_namespace(&self.namespace(place)) {
                tracing::error!("{e}");
            }
        }
    }
}
