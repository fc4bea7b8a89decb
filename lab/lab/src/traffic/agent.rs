//! The process of a traffic program: it reads its role and plays it.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use forebay_system::wait::precise_timers;
use forebay_units::Nanos;

use super::cue::{Cue, WindowCue};
use super::spec::{Event, Role, Spec, Start};
use super::{datagrams, requests, tcp_bulk, udp_bulk, udp_prague, udp_rr};

/// Runs the process of a traffic program; the module's documentation describes its protocol.
pub fn main() -> ExitCode {
    match agent() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("forebay agent: {e}");
            ExitCode::FAILURE
        }
    }
}

fn agent() -> io::Result<()> {
    // Threads that start later inherit the setting.
    precise_timers();
    let lines = lines();
    let spec: Spec = next(&lines)?;
    let late = run(&spec, &mut || {
        say(Event::Ready)?;
        next::<Start>(&lines).map(|start| Nanos(start.start))
    })?;
    say(Event::Done { late: late.0 })
}

/// The lines of standard input. When it ends the process ends, since nothing reads its results any
/// more.
fn lines() -> Receiver<String> {
    let (tx, rx) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if tx.send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    rx
}

fn next<T: serde::de::DeserializeOwned>(lines: &Receiver<String>) -> io::Result<T> {
    let line = lines.recv().map_err(io::Error::other)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

fn say(event: Event) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &event)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Plays the role of `spec`, and returns the largest lateness.
pub(super) fn run(spec: &Spec, cue: Cue<'_>) -> io::Result<Nanos> {
    let mut cue = || cue().map(|start| spec.window(start));
    let cue: WindowCue<'_> = &mut cue;
    match &spec.role {
        Role::RequestServer { listen, connections, new_connections, tcp } => {
            requests::serve(*listen, *connections, *new_connections, tcp, cue)
        }
        Role::RequestClient { .. } => requests::ask(spec, cue),
        Role::TcpSource { listen, flows, tcp } => tcp_bulk::source(*listen, *flows, tcp, cue),
        Role::TcpSink { source, from, flows, tcp } => {
            tcp_bulk::sink(spec, *source, from, *flows, tcp, cue)
        }
        Role::UdpSource { sinks } => udp_bulk::source(sinks, cue),
        Role::PragueSource { sinks } => udp_prague::source(sinks, cue),
        Role::PragueSink { listen } => udp_prague::sink(spec, listen, cue),
        Role::DatagramSource { sink, pattern, l4s } => {
            datagrams::source(*sink, *pattern, *l4s, cue)
        }
        Role::UdpSink { listen, reports } => udp_bulk::sink(spec, listen, *reports, cue),
        Role::UdpEcho { listen } => udp_rr::echo(*listen, cue),
        Role::UdpLoops { echo, flows } => udp_rr::loops(spec, *echo, *flows, cue),
    }
}
