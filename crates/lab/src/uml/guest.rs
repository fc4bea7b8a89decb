//! The guest's init: makes the host's file system usable, runs the job, and switches off.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use forebay_dataplane::wait::precise_timers;
use forebay_guest::{HOSTS_DIR, mount, power_off};

use super::order::{self, Failure, Order};
use crate::engine::{EngineError, Interrupt, Progress};
use crate::netns::{self, Timers};
use crate::results::store;

/// Where the private layer is mounted first, over a directory that every system has.
const LAYER: &str = "/run";
/// The new root, in that layer.
const ROOT: &str = "/run/root";
/// In the new root: the directory that the host sees too.
const SHARED: &str = "/run/forebay-shared";

/// The process `forebay guest`: the first of a guest, and nothing to start by hand.
pub fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!(
            "forebay guest: this is the first process of a `--engine uml` guest; nothing to run by hand"
        );
        return ExitCode::from(2);
    }
    if let Err(e) = set_up().map_err(EngineError::io("setting up the guest")).and_then(|()| run()) {
        // The console is all there is left if this fails, and the host shows its end.
        eprintln!("forebay guest: {e}");
        if let Err(e) = Failure::of(e).write(Path::new(SHARED)) {
            eprintln!("forebay guest: {e}");
        }
    }
    power_off()
}

fn run() -> Result<(), EngineError> {
    let shared = Path::new(SHARED);
    let order = Order::read(shared).map_err(EngineError::io("reading the order"))?;
    let mut beat = |progress: Progress| {
        if let Err(e) = order::write_beat(shared, &progress) {
            eprintln!("forebay guest: {e}");
        }
    };
    let run = netns::run_with(
        &order.job(),
        order.dataplane,
        Timers::Exact,
        &Interrupt::default(),
        &mut beat,
    )?;
    store::save(&shared.join(order::RUN), &run).map_err(|e| EngineError::Unfit(e.to_string()))
}

/// The host's files below a layer of the guest's own, so that everything can be written and nothing
/// is; and of what the host has mounted, what the kernel here has of its own.
fn set_up() -> io::Result<()> {
    // Threads and programs that are started later inherit it.
    precise_timers();
    mount("layer", LAYER, "tmpfs", "mode=755")?;
    for dir in ["upper", "work", "root"] {
        fs::create_dir(Path::new(LAYER).join(dir))?;
    }
    mount("root", ROOT, "overlay", "lowerdir=/,upperdir=/run/upper,workdir=/run/work")?;
    std::os::unix::fs::chroot(ROOT)?;
    std::env::set_current_dir("/")?;
    mount("proc", "/proc", "proc", "")?;
    mount("sys", "/sys", "sysfs", "")?;
    mount("dev", "/dev", "devtmpfs", "")?;
    // Namespaces and runs of the host's are not this kernel's.
    for dir in ["/run/netns", "/run/forebay"] {
        fs::create_dir_all(dir)?;
        mount("own", dir, "tmpfs", "mode=755")?;
    }
    fs::create_dir_all(SHARED)?;
    mount("none", SHARED, "hostfs", HOSTS_DIR)
}
