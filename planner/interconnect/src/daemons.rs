//! The BGP daemons. Each of the ISP's sessions has a GoBGP speaker
//! (docs/decisions/0027-gobgp-by-its-command.md). Each provider has a BIRD, which installs its best
//! paths in the kernel.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;

use super::blueprint::{Blueprint, FIRST_ASN, Reflector, Sender, Session};
use super::build::Built;
use super::files::Network;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;
use forebay_lab::netns::process::{Kind, Processes};
use forebay_lab::netns::run_dir::RunDir;

/// The time limit for a speaker to take commands.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// The local preference of the ISP's usual routes. Hints have the default of 100, so that a hint
/// replaces the usual route while it is there. (RFC 4271 leaves the default open; 100 is GoBGP's.)
/// The preference is not sent to other ASes.
const USUAL: u32 = 50;
/// The path identifier of the usual routes, so that a speaker keeps them beside hints.
const USUAL_PATH_ID: u32 = 1;
/// The addresses of a provider's own GoBGP and of its BIRD, for the session between them.
const OWN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const OWN_BIRD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Where a provider's own GoBGP takes commands.
pub(super) const OWN_SPEAKER: SocketAddrV4 = SocketAddrV4::new(OWN, 50_051);
/// The port of the service for BMP.
pub(super) const BMP_PORT: u16 = 11_019;
/// The time between two reports of statistics by BMP, the least that GoBGP takes.
pub(super) const STATISTICS: Duration = Duration::from_secs(15);

/// The paths of the daemons' programs.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    gobgpd: PathBuf,
    pub(super) gobgp: PathBuf,
    bird: PathBuf,
    pub(super) birdc: PathBuf,
}

impl Programs {
    /// Finds the programs on this machine.
    ///
    /// # Errors
    /// [`EngineError::Unfit`] if one is missing.
    pub(super) fn find() -> Result<Self, EngineError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let find = |name: &str| {
            // The `PATH` of users often lacks the last two.
            let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
            let mut all = std::env::split_paths(&path).chain(usual);
            all.find_map(|dir| Some(dir.join(name)).filter(|file| file.is_file())).ok_or_else(
                || {
                    EngineError::Unfit(format!(
                        "{name} is not installed: `make demo-plan` installs what it needs, or \
                     `apt-get install gobgpd bird2`"
                    ))
                },
            )
        };
        Ok(Self {
            gobgpd: find("gobgpd")?,
            gobgp: find("gobgp")?,
            bird: find("bird")?,
            birdc: find("birdc")?,
        })
    }
}

/// Returns the name of a session's speaker.
fn speaker_name(session: &Session, senders: &[Sender]) -> String {
    format!("gobgpd-{}-{}", session.router, senders[session.provider].name)
}

/// Returns the name of a provider's own GoBGP.
pub(super) fn own_name(provider: &str) -> String {
    format!("gobgpd-of-{provider}")
}

/// Returns the name of the speaker that reports an ISP's routes.
pub(super) fn reflector_name(blueprint: &Blueprint) -> String {
    format!("reflector{}", blueprint.tag)
}

/// Returns the name of the BIRD of a place.
pub(super) fn bird_name(place: &str) -> String {
    format!("bird-{place}")
}

/// Returns the socket at which the BIRD of a place takes commands.
pub(super) fn bird_socket(dir: &RunDir, place: &str) -> PathBuf {
    dir.file(&format!("bird-{place}.ctl"))
}

/// Starts all speakers of an ISP, and has them announce its usual routes.
///
/// # Errors
/// If a daemon does not start or does not take commands.
pub(super) fn start(
    dir: &RunDir,
    programs: &Programs,
    network: &Network,
    blueprint: &Blueprint,
    built: &Built,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    for session in &blueprint.sessions {
        let name = speaker_name(session, &blueprint.senders);
        let api = SocketAddrV4::new(session.speaker.0, session.speaker.1);
        let text = speaker(session, blueprint);
        start_gobgp(dir, programs, built, (&name, &session.router), &text, api, processes)?;
    }
    for session in &blueprint.sessions {
        for prefix in network.prefixes.keys() {
            usual(programs, (built, &blueprint.ops), session, prefix, processes)?;
        }
    }
    Ok(())
}

/// Starts a GoBGP with a name at a place, which takes commands at `api`.
fn start_gobgp(
    dir: &RunDir,
    programs: &Programs,
    built: &Built,
    (name, place): (&str, &str),
    text: &str,
    api: SocketAddrV4,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let file = write(dir, &format!("{name}.toml"), text)?;
    let (file, api) = (file.to_string_lossy().into_owned(), api.to_string());
    let args = ["-f", &file, "-t", "toml", "--api-hosts", &api, "--pprof-disable"];
    let namespace = built.open(place)?;
    let program = (&*programs.gobgpd).into();
    processes.start_program(dir, name, Kind::Daemon, namespace, program, args)
}

/// Starts a provider's own GoBGP, which gives the routes of its clients to its BIRD.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start_own(
    dir: &RunDir,
    programs: &Programs,
    built: &Built,
    sender: &Sender,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let Sender { name: provider, asn, .. } = sender;
    let number = asn - FIRST_ASN + 1;
    // BIRD listens at the port of BGP, so this one only connects.
    let text = format!(
        "[global.config]\nas = {asn}\nrouter-id = \"10.2.0.{number}\"\nport = -1\n{}\
         [neighbors.transport.config]\nlocal-address = \"{OWN}\"\n{}",
        neighbour(OWN_BIRD, *asn, ""),
        families()
    );
    let name = own_name(provider);
    start_gobgp(dir, programs, built, (&name, provider), &text, OWN_SPEAKER, processes)
}

/// Starts the speaker that reports the routes of a router to the service by BMP, and the BIRD of
/// that router, from which it has them.
///
/// # Errors
/// If one cannot be started.
pub(super) fn start_reflector(
    dir: &RunDir,
    programs: &Programs,
    network: &Network,
    (blueprint, reflector): (&Blueprint, &Reflector),
    built: &Built,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let Reflector { router, ours, theirs, theirs_v6 } = reflector;
    let asn = blueprint.asn;
    let text = format!(
        "[global.config]\nas = {asn}\nrouter-id = \"{ours}\"\nlocal-address-list = [\"{ours}\"]\n\
         {}[neighbors.transport.config]\npassive-mode = true\n{}\
         [[bmp-servers]]\n[bmp-servers.config]\naddress = \"127.0.0.1\"\nport = {BMP_PORT}\n\
         route-monitoring-policy = \"pre-policy\"\nstatistics-timeout = {}\n",
        neighbour(*theirs, asn, "idle-hold-time-after-reset = 1\n"),
        families(),
        STATISTICS.as_secs()
    );
    let name = reflector_name(blueprint);
    let api = SocketAddrV4::new(*ours, 50_051);
    start_gobgp(dir, programs, built, (&name, &blueprint.ops), &text, api, processes)?;
    let mut text = format!("log stderr all;\nrouter id {theirs};\nprotocol device {{}}\n");
    let users = network.prefixes.iter();
    let users = users.filter(|(_, users)| network.router(users.router) == router);
    for (number, (prefix, _)) in users.enumerate() {
        let family = if matches!(prefix, IpNet::V4(_)) { "ipv4" } else { "ipv6" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "protocol static users{number} {{ {family}; route {prefix} unreachable; }}"
        );
    }
    let export = "import none; export where source = RTS_STATIC;";
    let _ = writeln!(
        text,
        "protocol bgp reflector {{\n  local {theirs} as {asn};\n  neighbor {ours} as {asn};\n  \
         direct;\n  hold time 90;\n  connect delay time 1;\n  connect retry time 1;\n  \
         error wait time 1, 2;\n  ipv4 {{ next hop self; {export} }};\n  \
         ipv6 {{ next hop address {theirs_v6}; {export} }};\n}}"
    );
    run_bird(dir, programs, built, router, &text, processes)
}

/// Starts the daemon of a provider, for the first time or again.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start_bird(
    dir: &RunDir,
    programs: &Programs,
    blueprint: &Blueprint,
    built: &Built,
    sender: &Sender,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let text = bird(sender, std::slice::from_ref(blueprint));
    run_bird(dir, programs, built, &sender.name, &text, processes)
}

/// Starts the daemon of a provider of these ISPs, which also has the routes of its own GoBGP.
///
/// # Errors
/// If it cannot be started.
pub(super) fn start_bird_with_own(
    dir: &RunDir,
    programs: &Programs,
    blueprints: &[Blueprint],
    built: &Built,
    sender: &Sender,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let asn = sender.asn;
    // The next hops of its routes are at the links.
    let own = format!(
        "protocol direct {{ ipv4; ipv6; }}\nprotocol bgp own {{\n  local {OWN_BIRD} as {asn};\n  \
         neighbor {OWN} as {asn};\n  passive;\n  ipv4 {{ import all; export none; }};\n  \
         ipv6 {{ import all; export none; }};\n}}\n"
    );
    let text = bird(sender, blueprints) + &own;
    run_bird(dir, programs, built, &sender.name, &text, processes)
}

/// Starts the BIRD of a place with this configuration.
///
/// # Errors
/// If it cannot be started.
pub(super) fn run_bird(
    dir: &RunDir,
    programs: &Programs,
    built: &Built,
    place: &str,
    config: &str,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let name = bird_name(place);
    let socket = bird_socket(dir, place);
    // A daemon that was killed has left its socket.
    let _ = fs::remove_file(&socket);
    let file = write(dir, &format!("{name}.conf"), config)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (file, socket) = (text(&file), text(&socket));
    let pid = text(&dir.file(&format!("{name}.pid")));
    let args = ["-f", "-c", &file, "-s", &socket, "-P", &pid];
    let namespace = built.open(place)?;
    processes.start_program(dir, &name, Kind::Daemon, namespace, (&*programs.bird).into(), args)
}

fn write(dir: &RunDir, name: &str, text: &str) -> Result<PathBuf, EngineError> {
    let path = dir.file(name);
    fs::write(&path, text).map_err(EngineError::io(format!("writing {}", path.display())))?;
    Ok(path)
}

/// Has a speaker announce a prefix as the ISP does without hints.
fn usual(
    programs: &Programs,
    (built, ops): (&Built, &str),
    session: &Session,
    prefix: &IpNet,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    let (family, hop) = match prefix {
        IpNet::V4(_) => ("ipv4", session.ours.to_string()),
        IpNet::V6(_) => ("ipv6", session.ours_v6.to_string()),
    };
    let (host, port) = (session.speaker.0.to_string(), session.speaker.1.to_string());
    let (prefix, preference, identifier) =
        (prefix.to_string(), USUAL.to_string(), USUAL_PATH_ID.to_string());
    let deadline = Instant::now() + COMMAND_TIMEOUT;
    loop {
        let mut command = Command::new(&programs.gobgp);
        command.args(["-u", &host, "-p", &port, "global", "rib", "add", &prefix]);
        command.args(["identifier", &identifier, "origin", "igp", "nexthop", &hop]);
        command.args(["local-pref", &preference, "-a", family]);
        let done = exec::run(exec::within(&mut command, built.open(ops)?), "");
        // The speaker may not listen yet; `wait` reports a speaker that has ended.
        processes.wait(Duration::ZERO)?;
        match done {
            Err(e) if Instant::now() > deadline => return Err(e),
            Err(_) => thread::sleep(Duration::from_millis(50)),
            Ok(()) => return Ok(()),
        }
    }
}

/// Returns the configuration of a session's speaker.
///
/// It waits for the provider to connect, and is quick after a reset, so that a restarted neighbour
/// finds it. The hold time is long. A process that dies closes its connection, which is noticed at
/// once, and a busy machine must not lose a session.
fn speaker(session: &Session, blueprint: &Blueprint) -> String {
    let asn = blueprint.asn;
    let peer_asn = blueprint.senders[session.provider].asn;
    // The identifier decides between entries if nothing else does; the first entry has the lowest.
    let id = format!("10.0.{}.{}", session.entry + 1, session.provider + 1);
    format!(
        "[global.config]\nas = {asn}\nrouter-id = \"{id}\"\nlocal-address-list = [\"{}\"]\n{}\
         [neighbors.transport.config]\npassive-mode = true\n{}",
        session.ours,
        neighbour(session.theirs, peer_asn, "idle-hold-time-after-reset = 1\n"),
        families()
    )
}

/// Returns the head of a neighbour in GoBGP's configuration.
fn neighbour(address: Ipv4Addr, asn: u32, timers: &str) -> String {
    format!(
        "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{address}\"\npeer-as = {asn}\n\
         [neighbors.timers.config]\nhold-time = 90\nkeepalive-interval = 30\n{timers}"
    )
}

/// Returns the address families of a neighbour in GoBGP's configuration.
fn families() -> String {
    let family = |family| {
        format!(
            "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{family}-unicast\"\n"
        )
    };
    ["ipv4", "ipv6"].map(family).concat()
}

/// Returns the configuration of the BIRD of a provider of these ISPs.
///
/// It announces its own prefixes, accepts the ISP's routes, and installs its best paths in the
/// kernel. MED is compared between routes of one neighbour (RFC 4271).
fn bird(sender: &Sender, blueprints: &[Blueprint]) -> String {
    let number = sender.asn - FIRST_ASN;
    let mut text = format!(
        "log stderr all;\nrouter id 10.1.0.{};\nprotocol device {{}}\n\
         protocol kernel kernel4 {{ ipv4 {{ import none; export where source = RTS_BGP; }}; }}\n\
         protocol kernel kernel6 {{ ipv6 {{ import none; export where source = RTS_BGP; }}; }}\n",
        number + 1
    );
    // Writing to a string cannot fail.
    for ((prefix, _), family) in sender.own.iter().zip(["4", "6"]) {
        let _ = writeln!(
            text,
            "protocol static own{family} {{ ipv{family}; route {prefix} unreachable; }}"
        );
    }
    let sessions = blueprints.iter().flat_map(|b| b.sessions.iter().map(move |s| (b, s)));
    for (blueprint, session) in sessions {
        if blueprint.senders[session.provider] != *sender {
            continue;
        }
        let channel = "import all; export where source = RTS_STATIC;";
        let _ = writeln!(
            text,
            "protocol bgp {} {{\n  local {} as {};\n  neighbor {} as {};\n  hold time 90;\n  \
             connect delay time 1;\n  connect retry time 1;\n  error wait time 1, 2;\n  \
             ipv4 {{ {channel} }};\n  ipv6 {{ {channel} }};\n}}",
            session.router, session.theirs, sender.asn, session.ours, blueprint.asn
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_a_speaker_with_one_neighbour() {
        let blueprint = Blueprint::of(&Network::carried().unwrap()).unwrap();
        let texts: Vec<_> = blueprint.sessions.iter().map(|s| speaker(s, &blueprint)).collect();
        for (text, session) in texts.iter().zip(&blueprint.sessions) {
            assert_eq!(text.matches("[[neighbors]]").count(), 1);
            assert!(text.contains(&format!("neighbor-address = \"{}\"", session.theirs)));
            assert!(text.contains(&format!("local-address-list = [\"{}\"]", session.ours)));
        }
        let ids: std::collections::BTreeSet<_> =
            texts.iter().filter_map(|t| t.lines().find(|l| l.starts_with("router-id"))).collect();
        assert_eq!(ids.len(), texts.len());
    }

    #[test]
    fn a_provider_has_a_session_at_each_entry_and_its_own_routes_only() {
        let blueprint = Blueprint::of(&Network::carried().unwrap()).unwrap();
        let text = bird(&blueprint.senders[1], std::slice::from_ref(&blueprint));
        for session in &blueprint.sessions {
            let own = text.contains(&format!("neighbor {} as 64500", session.ours));
            assert_eq!(own, session.provider == 1);
        }
        assert!(text.contains("route 203.0.113.16/28 unreachable"));
    }
}
