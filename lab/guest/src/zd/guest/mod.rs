//! The guest's side: its first process, which sets up the network, does the work and powers off.

mod checks;
mod command;
mod flows;
mod network;
mod poll;
mod sink;
mod tun;

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

/// The mount point of the directory shared with the host, which every system has.
const SHARED: &str = "/mnt";

/// Runs the process `forebay zd-guest`, the first process of a guest.
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

/// Reports the begin or the end of the measurement to the host.
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

/// Raises the limit of open files, which is too low for thousands of flows at both ends.
fn many_files() {
    let limit = libc::rlimit { rlim_cur: 65_536, rlim_max: 65_536 };
    // SAFETY: reads one valid value. If it is refused, the flow that is too many says so.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
}

fn mounts() -> io::Result<()> {
    mount("proc", "/proc", "proc", "")?;
    mount("none", SHARED, "hostfs", HOSTS_DIR)
}
