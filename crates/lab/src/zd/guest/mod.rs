//! The guest's side: its first process, which sets the network up, does what it was told, and
//! switches off.

mod checks;
mod flows;
mod network;
mod poll;
mod sink;

use std::error::Error;
use std::ffi::CString;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use self::sink::Sink;
use super::MARK;
use super::order::{self, Findings, Order, Work};

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
    // SAFETY: neither takes a pointer; the second does not return in a guest.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    ExitCode::FAILURE
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
    mount("none", SHARED, "hostfs", super::machine::HOSTS_DIR)
}

fn mount(source: &str, target: &str, kind: &str, options: &str) -> io::Result<()> {
    let [source, at, name, options] = [source, target, kind, options].map(CString::new);
    let (source, at, name, options) = (source?, at?, name?, options?);
    // SAFETY: all four are C strings that live through the call.
    let done = unsafe {
        libc::mount(source.as_ptr(), at.as_ptr(), name.as_ptr(), 0, options.as_ptr().cast())
    };
    if done == 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    Err(io::Error::new(e.kind(), format!("mounting {kind} on {target}: {e}")))
}
