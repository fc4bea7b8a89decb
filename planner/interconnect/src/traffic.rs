//! The traffic that congests the entry: backlogged TCP from each provider to each half of each
//! prefix.

use std::net::{IpAddr, SocketAddr};

use forebay_system::clock;
use forebay_units::Nanos;

use super::blueprint::Blueprint;
use super::build::Built;
use forebay_lab::engine::EngineError;
use forebay_lab::netns::process::{Kind, Processes};
use forebay_lab::netns::run_dir::RunDir;
use forebay_lab::traffic::{Role, Spec, Start, Tcp};

/// The number of connections from each address of a user to each provider.
const FLOWS: u32 = 4;
/// The duration of the flows, longer than the story, which ends them.
const LONG: Nanos = Nanos::from_secs(3600);
/// The first port of the first ISP; each program has its own.
const PORT: u16 = 10_000;
/// The ports of each ISP.
const PORTS: u16 = 100;
/// The time over which flows start.
const STAGGER: Nanos = Nanos::from_millis(500);

/// Returns pairs of programs: a server, and the users who read from it.
fn programs(dir: &RunDir, blueprint: &Blueprint) -> Vec<[(String, String, Spec); 2]> {
    let tcp = || Tcp { congestion: "cubic".to_owned(), l4s: false, paced: false };
    let mut out = Vec::new();
    for sender in &blueprint.senders {
        for ((_, server), family) in sender.own.iter().zip(["v4", "v6"]) {
            let number = out.len() as u32;
            let from: Vec<IpAddr> = blueprint
                .users
                .iter()
                .copied()
                .filter(|user| user.is_ipv4() == server.is_ipv4())
                .collect();
            let flows = FLOWS * from.len() as u32;
            let port = PORT + PORTS * u16::from(blueprint.number) + number as u16;
            let listen = SocketAddr::new(*server, port);
            let program = |end: &str, place: &str, role| {
                let name = format!("{}-{family}-{end}{}", sender.name, blueprint.tag);
                let spec = Spec {
                    traffic: name.clone(),
                    seed: 1,
                    stream: number,
                    begin: 0,
                    stagger: STAGGER.0,
                    stop: LONG.0,
                    end: LONG.0,
                    output: dir.file(&format!("{name}.jsonl")),
                    role,
                };
                (name, place.to_owned(), spec)
            };
            out.push([
                program("server", &sender.name, Role::TcpSource { listen, flows, tcp: tcp() }),
                program(
                    "users",
                    &blueprint.users_at,
                    Role::TcpSink { source: listen, from, flows, tcp: tcp() },
                ),
            ]);
        }
    }
    out
}

/// Starts the programs of one end; they must all be ready before the next end is started.
pub(super) fn start(
    end: usize,
    dir: &RunDir,
    blueprint: &Blueprint,
    built: &Built,
    processes: &mut Processes,
) -> Result<(), EngineError> {
    for pair in programs(dir, blueprint) {
        let (name, place, spec) = &pair[end];
        processes.start(dir, name, Kind::Serving, built.open(place)?, ["agent"])?;
        processes.tell_last(spec)?;
    }
    Ok(())
}

/// Starts the traffic.
pub(super) fn begin(processes: &mut Processes) -> Result<(), EngineError> {
    processes.tell_programs(&Start { start: clock::now().0 })
}
