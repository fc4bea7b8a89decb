//! The guest's init process: it makes the host's file system usable, runs the job and powers off.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use forebay_guest::{HOSTS_DIR, mount, power_off};
use forebay_system::wait::precise_timers;

use super::order::{self, Failure, Order};
use crate::engine::{EngineError, Interrupt, Progress};
use crate::netns::{self, Timers, run_dir};
use crate::results::store;

/// The mount point of the private layer, a directory that every system has.
const LAYER: &str = "/run";
/// The new root, in that layer.
const ROOT: &str = "/run/root";
/// The mount point of the directory that the host shares, in the new root.
const SHARED: &str = "/run/forebay-shared";

/// Runs the process `forebay guest`, the first process of a guest.
pub fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!(
            "forebay guest: this is the first process of a `--engine uml` guest; nothing to run by hand"
        );
        return ExitCode::from(2);
    }
    if let Err(e) = set_up().map_err(EngineError::io("setting up the guest")).and_then(|()| run()) {
        // If this fails, only the console is left; the host shows its end.
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
        &order.engine(),
        Timers::Exact,
        &Interrupt::default(),
        &mut beat,
    )?;
    store::save(&shared.join(order::RUN), &run).map_err(|e| EngineError::Unfit(e.to_string()))
}

/// Mounts the host's files below a private overlay, so that everything is writable and the host is
/// unchanged, and mounts this kernel's own pseudo file systems.
fn set_up() -> io::Result<()> {
    // Threads and programs that start later inherit the setting.
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
    // Namespaces and runs of the host do not exist in this kernel.
    for dir in ["/run/netns", "/run/forebay", run_dir::BASE] {
        fs::create_dir_all(dir)?;
        mount("own", dir, "tmpfs", "mode=755")?;
    }
    fs::create_dir_all(SHARED)?;
    mount("none", SHARED, "hostfs", HOSTS_DIR)
}
