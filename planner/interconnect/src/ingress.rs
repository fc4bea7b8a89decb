//! The clients at ingress routers (`forebay plan paths --watch`), which carry out the plan's paths,
//! and what they have in the kernels.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::net::Ipv6Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use super::build::Built;
use super::segments::Segments;
use super::service::PORT;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;
use forebay_lab::netns::process::{Kind, Processes};
use forebay_lab::netns::run_dir::RunDir;

/// The routing protocol's number of the clients' routes, their default.
const PROTOCOL: &str = "228";

/// What a client has in the kernel of its router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steered {
    /// The number of routes.
    pub(super) routes: usize,
    /// The number of nexthop objects.
    pub(super) objects: usize,
    /// All segments of these.
    pub(super) segments: BTreeSet<Ipv6Addr>,
}

impl Steered {
    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the name of the process of a router's client.
pub(super) fn client_name(router: &str) -> String {
    format!("paths-{router}")
}

/// Returns the configuration of a router's client, which asks the service at `service`.
///
/// Damping has a short memory, since the faults of the story come every few seconds.
fn config(router: &str, service: std::net::IpAddr, segments: &[Segments]) -> String {
    let mut text = format!(
        "url = \"http://{service}:{PORT}\"\ntoken = \"{}.token\"\ncleartext = true\n\
         name = \"{router}\"\nhalf_life = \"5 s\"\n",
        client_name(router)
    );
    for own in segments {
        text += &own.table();
    }
    text
}

/// Starts the client of a router.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start(
    dir: &RunDir,
    built: &Built,
    router: &str,
    service: std::net::IpAddr,
    (token, segments): (&str, &[Segments]),
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let name = client_name(router);
    let (file, secret) = (dir.file(&format!("{name}.toml")), dir.file(&format!("{name}.token")));
    let written = fs::write(&file, config(router, service, segments))
        .and_then(|()| fs::write(&secret, token))
        .and_then(|()| fs::set_permissions(&secret, Permissions::from_mode(0o600)));
    written.map_err(EngineError::io(format!("writing {}", file.display())))?;
    let file = file.to_string_lossy().into_owned();
    let args = ["paths", "--config", &file, "--watch"];
    processes.start(dir, &name, Kind::Daemon, built.open(router)?, args)
}

/// Reads what a client has in the kernel of its router.
///
/// # Errors
/// If it cannot be read.
pub(super) fn steered(built: &Built, router: &str) -> Result<Steered, EngineError> {
    let name = built.name(router);
    let list = |arguments: &[&str]| -> Result<Vec<Value>, EngineError> {
        let mut command = Command::new("ip");
        command.args(["-j", "-n", &name]).args(arguments).args(["show", "protocol", PROTOCOL]);
        let text = exec::output(&mut command, "")?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    };
    let (v4, v6) = (list(&["-4", "route"])?, list(&["-6", "route"])?);
    Ok(parse(&[v4, v6].concat(), &list(&["nexthop"])?))
}

fn parse(routes: &[Value], objects: &[Value]) -> Steered {
    let segments = objects.iter().flat_map(|o| o["segs"].as_array().into_iter().flatten());
    Steered {
        routes: routes.len(),
        objects: objects.len(),
        segments: segments.filter_map(|s| s.as_str()?.parse().ok()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blueprint::Blueprint;
    use crate::files::Network;
    use crate::segments;

    #[test]
    fn a_client_knows_the_segments_of_all_routers() {
        let network = Network::carried().unwrap();
        let segments = segments::all(&network, &Blueprint::of(&network).unwrap());
        let text = config("west", [10, 254, 0, 1].into(), &segments);
        assert!(text.starts_with("url = \"http://10.254.0.1:8480\"\n"), "{text}");
        assert_eq!(text.matches("[[router]]").count(), network.topology.routers().len());
    }

    #[test]
    fn the_kernels_lists_are_read() {
        let objects: Vec<Value> = serde_json::from_str(
            r#"[{"id":1,"encap":"seg6","mode":"encap","segs":["fc00:0:7::1","fc00:0:8::6"],"dev":"lo"},
            {"id":2,"group":[{"id":1,"weight":3}]}]"#,
        )
        .unwrap();
        let seen = parse(&[serde_json::json!({"dst": "198.18.0.0/23"})], &objects);
        assert_eq!((seen.routes, seen.objects, seen.segments.len()), (1, 2, 2));
        assert!(!seen.is_empty() && parse(&[], &[]).is_empty());
    }
}
