//! The guest's side: its first process, which sets the network up, does what it was told, and
//! switches off.

mod checks;
mod flows;
mod network;
mod poll;
mod sink;

use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use self::sink::Sink;
use super::MARK;
use super::order::{self, Findings, Order, Work};
use crate::{HOSTS_DIR, mount, power_off};

type Failure = Box<dyn Error + Send + Sync>;

/// Where the directory that is shared with the host is mounted: one that every system has.
const SHARED: &str = "/mnt";

/// The process `forebay zd-guest`: the first of a guest, and nothing to start by hand.
pub fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!(
            "forebay zd-guest: this is the first process of a guest of `forebay lab zd`; nothing to run by hand"
        );
        return ExitCode::from(2);
    }
    let shared = Path::new(SHARED);
    let outcome = mounts().map_err(Failure::from).and_then(|()| work(shared));
    let outcome = outcome.map_err(|e| e.to_string());
    if let Err(e) = order::write_outcome(shared, &outcome) {
        eprintln!("forebay zd-guest: {e}");
    }
    power_off()
}

/// Tells the host that something begins or ends now.
fn mark(what: &str) {
    println!("{MARK}{what}");
}

fn work(shared: &Path) -> Result<Findings, Failure> {
    let order = Order::read(shared)?;
    many_files();
    network::settings(order.backpressure)?;
    let sink = Sink::start(order.queue)?;
    match order.work {
        Work::Flows { flows, pace, warm_up, seconds } => {
            let (warm_up, length) = (Duration::from_secs(warm_up), Duration::from_secs(seconds));
            flows::run(&sink, flows, pace, warm_up, length)
        }
        Work::Transfer { flows, bytes } => checks::transfer(&sink, flows, bytes, || Ok(())),
        Work::Datagrams { sockets, each, polled } => {
            checks::datagrams(&sink, sockets, each, polled)
        }
        Work::Close { flows } => checks::close(&sink, flows),
        Work::Down { flows, bytes } => checks::transfer(&sink, flows, bytes, checks::down),
        Work::Replace { flows, bytes } => {
            checks::transfer(&sink, flows, bytes, || checks::replace(order.queue))
        }
    }
}

/// Thousands of flows at both ends are more than the usual limit.
fn many_files() {
    let limit = libc::rlimit { rlim_cur: 65_536, rlim_max: 65_536 };
    // SAFETY: reads one valid value. If it is refused, the flow that is too many says so.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
}

fn mounts() -> io::Result<()> {
    mount("proc", "/proc", "proc", "")?;
    mount("none", SHARED, "hostfs", HOSTS_DIR)
}
