//! The clients of content providers (`forebay plan neighbour --watch`), which feed the hints of an
//! ISP to the provider's own GoBGP.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use ipnet::IpNet;
use serde_json::Value;

use super::blueprint::{Blueprint, Session};
use super::build::Built;
use super::daemons::{OWN_SPEAKER, Programs};
use super::service::PORT;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;
use forebay_lab::netns::process::{Kind, Processes};
use forebay_lab::netns::run_dir::RunDir;

/// The time between two questions to the service, in seconds.
const EVERY: u64 = 1;
/// The time without an answer of the service after which its hints are no longer followed, in
/// seconds.
pub(super) const HOLD: u64 = 5;

/// A provider's client of one ISP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Client<'a> {
    pub(super) provider: &'a str,
    /// The provider's token at the service.
    pub(super) token: &'a str,
    /// The prefixes of the ISP's users.
    pub(super) accept: &'a [IpNet],
    /// The entry that the provider cannot use, if there is one.
    pub(super) unusable: Option<&'a str>,
}

/// Returns the name of the process of a provider's client of an ISP.
pub(super) fn client_name(provider: &str, blueprint: &Blueprint) -> String {
    format!("neighbour-{provider}{}", blueprint.tag)
}

/// Returns the configuration of a client, which asks the service at `service`.
fn config(
    client: &Client<'_>,
    service: IpAddr,
    sessions: &[&Session],
    (name, gobgp): (&str, &str),
) -> String {
    let accept: Vec<String> = client.accept.iter().map(|net| format!("\"{net}\"")).collect();
    let mut text = format!(
        "url = \"http://{service}:{PORT}\"\ntoken = \"{name}.token\"\ncleartext = true\n\
         out = \"{name}.hints\"\nevery = \"{EVERY} s\"\nhold = \"{HOLD} s\"\naccept = [{}]\n",
        accept.join(", ")
    );
    for session in sessions {
        let usable = client.unusable != Some(session.router.as_str());
        text += &format!(
            "[[entry]]\nname = \"{}\"\nnext_hop = \"{}\"\nnext_hop_v6 = \"{}\"\nusable = {usable}\n",
            session.router, session.ours, session.ours_v6
        );
    }
    text + &format!(
        "[gobgp]\nspeaker = \"{OWN_SPEAKER}\"\njournal = \"{name}.journal\"\ncommand = {}\n",
        // A string of JSON is also one of TOML.
        Value::from(gobgp)
    )
}

/// Returns the path of a client's configuration.
fn file(dir: &RunDir, provider: &str, blueprint: &Blueprint) -> PathBuf {
    dir.file(&format!("{}.toml", client_name(provider, blueprint)))
}

/// Writes the configuration of a client.
///
/// # Errors
/// If it cannot be written.
pub(super) fn configure(
    dir: &RunDir,
    programs: &Programs,
    blueprint: &Blueprint,
    client: &Client<'_>,
) -> Result<(), EngineError> {
    let name = client_name(client.provider, blueprint);
    let (file, secret) =
        (file(dir, client.provider, blueprint), dir.file(&format!("{name}.token")));
    let own = |s: &&Session| blueprint.senders[s.provider].name == client.provider;
    let sessions: Vec<&Session> = blueprint.sessions.iter().filter(own).collect();
    let service = blueprint.service_for(client.provider)?;
    let gobgp = programs.gobgp.to_string_lossy();
    let text = config(client, service, &sessions, (&name, &gobgp));
    let written = fs::write(&file, text)
        .and_then(|()| fs::write(&secret, client.token))
        .and_then(|()| fs::set_permissions(&secret, Permissions::from_mode(0o600)));
    written.map_err(EngineError::io(format!("writing {}", file.display())))
}

/// Starts a client, for the first time or again.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start(
    dir: &RunDir,
    built: &Built,
    blueprint: &Blueprint,
    provider: &str,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let file = file(dir, provider, blueprint).to_string_lossy().into_owned();
    let args = ["neighbour", "--config", &file, "--watch"];
    let name = client_name(provider, blueprint);
    processes.start(dir, &name, Kind::Daemon, built.open(provider)?, args)
}

/// Takes all routes of a client back. No client may run.
///
/// # Errors
/// If a route stays.
pub(super) fn withdraw(
    dir: &RunDir,
    built: &Built,
    blueprint: &Blueprint,
    provider: &str,
) -> Result<(), EngineError> {
    let own = std::env::current_exe().map_err(EngineError::io("finding this program"))?;
    let mut command = Command::new(own);
    command.args(["neighbour", "--withdraw", "--config"]);
    command.arg(file(dir, provider, blueprint));
    exec::run(exec::within(&mut command, built.open(provider)?), "")
}

/// Returns the routes in a provider's own GoBGP.
///
/// # Errors
/// If it does not answer.
pub(super) fn own_routes(
    programs: &Programs,
    built: &Built,
    provider: &str,
) -> Result<BTreeSet<String>, EngineError> {
    let mut all = BTreeSet::new();
    for family in ["ipv4", "ipv6"] {
        let mut command = Command::new(&programs.gobgp);
        let (host, port) = (OWN_SPEAKER.ip().to_string(), OWN_SPEAKER.port().to_string());
        command.args(["-u", &host, "-p", &port, "-j", "global", "rib", "-a", family]);
        let text = exec::output(exec::within(&mut command, built.open(provider)?), "")?;
        let routes: Value = serde_json::from_str(&text).map_err(|e| {
            EngineError::Unfit(format!("the routes of {provider}'s GoBGP cannot be read: {e}"))
        })?;
        all.extend(routes.as_object().into_iter().flatten().map(|(prefix, _)| prefix.clone()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Network, TWO};

    #[test]
    fn a_client_knows_its_own_sessions_and_the_entry_that_it_cannot_use() {
        let network = Network::of(&TWO[1].1).unwrap();
        let all = ["video", "cloud", "games", "music", "shop"];
        let mut blueprint = Blueprint::numbered(&network, 1, &all).unwrap();
        blueprint.connect_clients();
        let accept: Vec<_> = network.prefixes.keys().copied().collect();
        let client =
            Client { provider: "games", token: "t", accept: &accept, unusable: Some("south") };
        let own: Vec<_> = blueprint.sessions.iter().filter(|s| s.provider == 2).collect();
        let service = blueprint.service_for("games").unwrap();
        let text = config(&client, service, &own, ("neighbour-games2", "/usr/bin/gobgp"));
        assert!(text.starts_with("url = \"http://10.252.1.4:8480\"\n"), "{text}");
        assert_eq!(text.matches("[[entry]]").count(), 2);
        assert!(text.contains(
            "next_hop = \"100.64.2.8\"\nnext_hop_v6 = \"2001:db8:fa:20::\"\nusable = true"
        ));
        assert_eq!(text.matches("usable = false").count(), 1);
        assert!(text.contains("\"198.19.0.0/23\", ") && !text.contains("198.18."), "{text}");
    }
}
