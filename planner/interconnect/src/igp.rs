//! The IGP of the ISP: a BIRD at each router speaks OSPFv2 and OSPFv3 with its neighbours, with the
//! metrics of the topology.

use std::fmt::Write;
use std::process::Command;

use ipnet::IpNet;

use super::blueprint::{Blueprint, Role, towards};
use super::build::Built;
use super::daemons::{Programs, run_bird};
use super::files::Network;
use super::segments::Segments;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;
use forebay_lab::netns::process::Processes;
use forebay_lab::netns::run_dir::RunDir;

/// Starts the daemon of each router.
///
/// # Errors
/// If one cannot be started.
pub(super) fn start(
    dir: &RunDir,
    programs: &Programs,
    network: &Network,
    blueprint: &Blueprint,
    built: &Built,
    segments: &[Segments],
    processes: &mut Processes,
) -> Result<(), EngineError> {
    for (number, own) in segments.iter().enumerate() {
        let text = config(network, blueprint, own, number);
        run_bird(dir, programs, built, &own.router, &text, processes)?;
    }
    Ok(())
}

/// Whether every router has the IGP's routes to the locators of all others.
///
/// # Errors
/// If the routes cannot be read.
pub(super) fn is_complete(
    blueprint: &Blueprint,
    built: &Built,
    segments: &[Segments],
) -> Result<bool, EngineError> {
    let routers = blueprint.places.iter().filter(|(_, role)| **role == Role::Router);
    for (router, _) in routers {
        let mut command = Command::new("ip");
        let name = built.name(router);
        command.args(["-j", "-6", "-n", &name, "route", "show", "proto", "bird"]);
        let text = exec::output(&mut command, "")?;
        let others = segments.iter().filter(|s| s.router != *router);
        if !others.map(|s| s.locator.to_string()).all(|l| text.contains(&l)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the prefixes that a router originates: its locator, its users', and those of providers
/// whose first entry it is.
fn originated(network: &Network, blueprint: &Blueprint, own: &Segments) -> Vec<IpNet> {
    let users = network.prefixes.iter();
    let users = users.filter(|(_, users)| network.router(users.router) == own.router);
    let first = blueprint.sessions.iter().filter(|s| s.entry == 0 && s.router == own.router);
    let servers = first.flat_map(|s| blueprint.senders[s.provider].own.map(|(prefix, _)| prefix));
    let locator = std::iter::once(IpNet::V6(own.locator));
    locator.chain(users.map(|(prefix, _)| *prefix)).chain(servers).collect()
}

/// Returns the configuration of the router with this number.
///
/// What the router originates is in its kernel already. A lost neighbour is noticed by the carrier
/// of the link; hellos are the second sign, and have time on a busy machine.
fn config(network: &Network, blueprint: &Blueprint, own: &Segments, number: usize) -> String {
    let mut text = format!(
        "log stderr all;\nrouter id 10.3.0.{};\nprotocol device {{ scan time 1; }}\n",
        number + 1
    );
    let originated = originated(network, blueprint, own);
    for (family, version, v4) in [(4, "v2", true), (6, "v3", false)] {
        let is_own = |prefix: &&IpNet| matches!(prefix, IpNet::V4(_)) == v4;
        let prefixes: Vec<String> =
            originated.iter().filter(is_own).map(ToString::to_string).collect();
        let except = match prefixes.is_empty() {
            true => String::new(),
            false => format!(" && !(net ~ [ {} ])", prefixes.join(", ")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "protocol kernel kernel{family} {{ ipv{family} {{ import none; \
             export where source ~ [ RTS_OSPF, RTS_OSPF_IA ]{except}; }}; }}\n\
             protocol ospf {version} igp{family} {{\n  ecmp off;\n  \
             ipv{family} {{ import all; export none; }};\n  area 0 {{"
        );
        for prefix in prefixes {
            let _ = writeln!(text, "    stubnet {prefix} {{ cost 1; }};");
        }
        let topology = &network.topology;
        for link in topology.links().iter().filter(|l| network.router(l.from) == own.router) {
            let device = towards(network.router(link.to));
            let _ = writeln!(
                text,
                "    interface \"{device}\" {{ type ptp; cost {}; hello 1; dead 10; }};",
                link.metric
            );
        }
        text += "  };\n}\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments;

    #[test]
    fn each_link_is_an_interface_with_its_metric_in_both_families() {
        let network = Network::carried().unwrap();
        let blueprint = Blueprint::of(&network).unwrap();
        let segments = segments::all(&network, &blueprint);
        let texts: Vec<_> = segments
            .iter()
            .enumerate()
            .map(|(at, own)| config(&network, &blueprint, own, at))
            .collect();
        let interfaces: usize = texts.iter().map(|t| t.matches("interface \"fb-").count()).sum();
        assert_eq!(interfaces, 2 * network.topology.links().len());
        let west = &texts[0];
        assert!(west.contains("interface \"fb-core3\" { type ptp; cost 15;"), "{west}");
        // Its providers and its locator, in the IGP and not from it in the kernel.
        for prefix in ["203.0.113.0/28", "fc00:0:1::/48"] {
            assert_eq!(west.matches(prefix).count(), 2, "{west}");
        }
        assert!(texts[7].contains("stubnet 198.18.0.0/23") && !west.contains("198.18.0.0/23"));
    }
}
