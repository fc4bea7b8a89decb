//! Creates the namespaces of a blueprint.

use std::fs;
use std::fs::File;
use std::process::Command;
use std::sync::Arc;

use forebay_units::Rate;

use super::blueprint::{Blueprint, End, Role, towards};
use super::segments::Segments;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;
use forebay_lab::netns::namespace::{
    FOR_ALL, FOR_HOSTS, FOR_ROUTERS, OFFLOADS, lines, remove_namespace,
};
use forebay_lab::netns::run_dir::RunDir;

/// The settings of every namespace. Answers may use another path than requests, and addresses must
/// be usable at once, since no other host can have them.
const SYSCTLS: [(&str, &str); 7] = [
    // A link that is switched off and on again has its addresses.
    ("ipv6/conf/default/keep_addr_on_down", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
];

/// The settings of routers that spread connections over several paths by their ports too.
const SPREAD: [(&str, &str); 2] =
    [("ipv4/fib_multipath_hash_policy", "1"), ("ipv6/fib_multipath_hash_policy", "1")];
/// The settings with which all interfaces take packets with segments.
const SEGMENTS: [(&str, &str); 2] =
    [("ipv6/conf/all/seg6_enabled", "1"), ("ipv6/conf/default/seg6_enabled", "1")];
/// The MTU between routers: 1500 octets, and the room for segments that decision 74 asks for.
const INSIDE_MTU: u32 = 1700;
/// The metric of static routes inside, which carry traffic until the IGP has its own.
const BELOW_IGP: u32 = 2000;
/// The longest delay of a shaper's queue, in milliseconds. At 30 Mbit/s it holds 250 packets, so
/// that each of a few dozen flows has packets in flight and does not depend on timeouts.
const QUEUE_MS: u64 = 100;
/// The burst of a shaper in milliseconds at its rate: a few ticks of the kernel's timer.
const BURST_MS: u64 = 4;

/// The namespaces, which are removed when this value is dropped.
pub(super) struct Built {
    id: String,
    places: Vec<String>,
}

impl Built {
    /// Creates everything in `blueprint`.
    ///
    /// # Errors
    /// If the system refuses a command, with its output.
    pub(super) fn of(dir: &RunDir, blueprint: &Blueprint) -> Result<Self, EngineError> {
        let places: Vec<String> = blueprint.places.keys().cloned().collect();
        let built = Self { id: dir.id().to_owned(), places };
        let names: Vec<_> = built.places.iter().map(|place| built.name(place)).collect();
        // The names are recorded before the namespaces exist, so that a run that is killed leaves
        // nothing unrecorded.
        dir.note_namespaces(&names)?;
        exec::batch("ip", None, &lines(names.iter().map(|name| format!("netns add {name}"))))?;
        for (place, role) in &blueprint.places {
            built.set(place, &FOR_ALL)?;
            built.set(place, &SYSCTLS)?;
            match role {
                Role::Router => {
                    built.set(place, &FOR_ROUTERS)?;
                    built.set(place, &SPREAD)?;
                    // A kernel without SRv6 has no such setting, and `add_segments` says so.
                    let _ = built.set(place, &SEGMENTS);
                }
                Role::Provider | Role::Users => built.set(place, &FOR_HOSTS)?,
                Role::Ops => {}
            }
        }
        let is_inside = |end: &End| blueprint.places.get(&end.place) == Some(&Role::Router);
        let link = |[a, b]: &[End; 2]| {
            let mtu = if is_inside(a) && is_inside(b) { INSIDE_MTU } else { 1500 };
            format!(
                "link add {} netns {} mtu {mtu} type veth peer name {} mtu {mtu} netns {}",
                a.device,
                built.name(&a.place),
                b.device,
                built.name(&b.place)
            )
        };
        exec::batch("ip", None, &lines(blueprint.wires.iter().map(link)))?;
        for place in blueprint.places.keys() {
            built.configure(blueprint, place)?;
        }
        Ok(built)
    }

    /// Returns the name of a place's namespace.
    pub(super) fn name(&self, place: &str) -> String {
        format!("fb-{}-{place}", self.id)
    }

    /// Opens the namespace of a place.
    ///
    /// # Errors
    /// If it does not exist.
    pub(super) fn open(&self, place: &str) -> Result<Arc<File>, EngineError> {
        exec::open_namespace(&self.name(place))
    }

    /// Adds the routers' segments. Returns the reason if this kernel has no SRv6.
    ///
    /// # Errors
    /// If a router has no link.
    pub(super) fn add_segments(
        &self,
        blueprint: &Blueprint,
        segments: &[Segments],
    ) -> Result<Result<(), String>, EngineError> {
        for own in segments {
            let end = blueprint.wires.iter().flatten().find(|end| end.place == own.router);
            let end = end.ok_or_else(|| {
                EngineError::Unfit(format!("the router {} has no link", own.router))
            })?;
            for arguments in own.commands(&end.device) {
                let mut command = Command::new("ip");
                command.args(["-n", &self.name(&own.router), "-6"]);
                command.args(arguments.split_whitespace());
                if let Err(e) = exec::run(&mut command, "") {
                    return Ok(Err(format!("this kernel has no SRv6 ({e})")));
                }
            }
        }
        Ok(Ok(()))
    }

    /// Switches all links of a place on or off.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn switch(
        &self,
        blueprint: &Blueprint,
        place: &str,
        on: bool,
    ) -> Result<(), EngineError> {
        let ends = blueprint.wires.iter().flatten().filter(|end| end.place == place);
        let state = if on { "up" } else { "down" };
        let ip = ends.map(|end| format!("link set {} {state}", end.device));
        exec::batch("ip", Some(&self.name(place)), &lines(ip))
    }

    fn set(&self, place: &str, settings: &[(&str, &str)]) -> Result<(), EngineError> {
        let name = self.name(place);
        let namespace = exec::open_namespace(&name)?;
        let set = || {
            settings.iter().try_for_each(|(key, value)| {
                // /proc/sys/net shows the namespace of the thread that opens the file.
                fs::write(format!("/proc/sys/net/{key}"), value)
            })
        };
        exec::in_namespace(&namespace, set)
            .map_err(EngineError::io(format!("writing to /proc/sys/net in {name}")))
    }

    /// Configures the offloads, rates, addresses and routes of a place.
    fn configure(&self, blueprint: &Blueprint, place: &str) -> Result<(), EngineError> {
        let namespace = self.open(place)?;
        let ends: Vec<&End> =
            blueprint.wires.iter().flatten().filter(|end| end.place == place).collect();
        let mut ip = vec!["link set lo up".to_owned()];
        let mut tc = Vec::new();
        for end in &ends {
            let device = &end.device;
            let mut ethtool = Command::new("ethtool");
            ethtool.arg("-K").arg(device).args(OFFLOADS);
            exec::run(exec::within(&mut ethtool, namespace.clone()), "")?;
            for address in &end.addresses {
                ip.push(format!("address add {address} dev {device}"));
            }
            ip.push(format!("link set {device} up"));
            tc.extend(end.rate.map(|rate| shape(device, rate)));
        }
        for sender in blueprint.senders.iter().filter(|s| s.name == place) {
            ip.extend(sender.own.iter().map(|(_, server)| format!("address add {server} dev lo")));
        }
        let is_router = blueprint.places.get(place) == Some(&Role::Router);
        for route in blueprint.routes.iter().filter(|r| r.place == place) {
            let (prefix, via) = (route.prefix, route.via);
            // A neighbour is reached without a gateway.
            let from_igp = is_router && blueprint.is_router(via);
            ip.push(match (prefix.addr() == via, from_igp) {
                (true, _) => format!("route add {prefix} dev {}", device_to(blueprint, place, via)),
                (_, true) => format!("route add {prefix} via {via} metric {BELOW_IGP}"),
                _ => format!("route add {prefix} via {via}"),
            });
        }
        let name = self.name(place);
        exec::batch("ip", Some(&name), &lines(ip))?;
        exec::batch("tc", Some(&name), &lines(tc))
    }
}

/// Returns the interface of `place` whose other end has this address.
fn device_to(blueprint: &Blueprint, place: &str, address: std::net::IpAddr) -> String {
    let has = |end: &End| end.addresses.iter().any(|a| a.addr() == address);
    let wire = |[a, b]: &[End; 2]| {
        (a.place == place && has(b))
            .then(|| a.device.clone())
            .or_else(|| (b.place == place && has(a)).then(|| b.device.clone()))
    };
    blueprint.wires.iter().find_map(wire).unwrap_or_else(|| towards(place))
}

/// Returns the command for a token bucket in front of an interface.
fn shape(device: &str, rate: Rate) -> String {
    let bps = rate.as_bps();
    let bytes = |ms: u64| bps / 8 * ms / 1000;
    format!(
        "qdisc add dev {device} root tbf rate {bps}bit burst {}b limit {}b",
        bytes(BURST_MS).max(10_000),
        bytes(QUEUE_MS).max(30_000)
    )
}

impl Drop for Built {
    fn drop(&mut self) {
        for place in &self.places {
            if let Err(e) = remove_namespace(&self.name(place)) {
                tracing::error!("{e}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shaper_is_a_command_of_tc() {
        assert_eq!(
            shape("fb-core", Rate::from_mbps(30)),
            "qdisc add dev fb-core root tbf rate 30000000bit burst 15000b limit 375000b"
        );
    }
}
