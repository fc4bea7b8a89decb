//! `forebay upgrade`: a new process takes over from a running box.
//!
//! A service manager ends the old process before it starts the new one. This command holds the
//! state and the UDP socket in between.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_cli::terminal::{Failure, fail, note, print};
use forebay_records::{HANDOVER_SOCKET, MAX_HANDOVER, Offer, Taken, UPGRADE_SOCKET};
use forebay_status::BoxSocket;
use forebay_system::local::{self, Directory, Peer};
use forebay_system::{NameLock, descriptors};

use crate::cli::UpgradeArgs;

/// The time for the old process to end and the new one to start.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that a box has to describe itself, which it does at once.
const OFFER_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two looks at what may have happened.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest line in which a box describes itself.
const LINE: usize = 4096;
/// The longest report of a new process.
const REPORT: usize = 16 << 20;

pub(crate) fn upgrade(args: &UpgradeArgs) -> ExitCode {
    match run(args) {
        Ok(taken) => {
            // The exit status says whether it worked.
            let _ = print(&if args.json {
                format!("{}\n", serde_json::json!(taken))
            } else {
                text(&taken)
            });
            ExitCode::SUCCESS
        }
        Err(e) => fail(&e, 1),
    }
}

fn text(taken: &Taken) -> String {
    let Taken { process, release, kept, fresh } = taken;
    let kept = kept.iter().map(|what| format!("taken over: {what}\n"));
    let fresh = fresh.iter().map(|what| format!("starts fresh: {what}\n"));
    let lines: String = kept.chain(fresh).collect();
    format!("process {process} of release {release} has taken over\n{lines}")
}

fn run(args: &UpgradeArgs) -> Result<Taken, Failure> {
    let socket = find(args.process)?;
    let process = socket.process();
    let of_process = |e: &dyn Display| -> Failure { format!("process {process}: {e}").into() };
    let old = socket.connect().map_err(|e| of_process(&e))?;
    let offer = offer(&old).map_err(|e| of_process(&e))?;
    // The process that listens has this number, and it lives, since it has just answered.
    let mut command = match args.command.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        None => systemctl(process)?,
    };
    let interface = offer.interfaces.first().map(String::as_str).unwrap_or_default();
    // The new process may start before the state is here, and waits for it then.
    let place = Place::take(interface)?;
    note(&format!("process {process}: a {} of release {}", offer.role, offer.release));
    let shown = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot run {shown}: {e}"))?;
    let until = Instant::now() + UPGRADE_TIMEOUT;
    let (state, descriptors) = receive(&old, until, &shown, &mut child)?;
    if state.is_empty() {
        return Err(format!(
            "process {process} ended without handing over: the new one starts fresh"
        )
        .into());
    }
    drop(old);
    let new = accept(&place.listener, until, &shown, &mut child)?;
    let taken = hand(&new, &state, descriptors)
        .map_err(|e| format!("the new process did not take over: see its log ({e})"))?;
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("the new process has taken over, but {shown} failed ({status})").into());
    }
    Ok(taken)
}

/// Finds the box to replace.
fn find(wanted: Option<u32>) -> Result<BoxSocket, Failure> {
    let mut sockets = forebay_status::find(UPGRADE_SOCKET)?;
    // Processes that have ended may have left a socket.
    sockets.retain(|socket| {
        wanted.is_none_or(|wanted| wanted == socket.process()) && socket.is_alive()
    });
    match (sockets.len(), wanted) {
        (0, Some(process)) => Err(format!(
            "process {process} is no site, sendbox or receivebox of this network namespace, or of \
             a release that cannot hand over"
        )
        .into()),
        (0, None) => Err("no box that can hand over runs in this network namespace".into()),
        (1, _) => Ok(sockets.remove(0)),
        _ => {
            let numbers: Vec<_> = sockets.iter().map(|s| s.process().to_string()).collect();
            Err(format!("several boxes run: give --process with one of {}", numbers.join(", "))
                .into())
        }
    }
}

/// Returns the command that restarts the systemd service of `process`.
fn systemctl(process: u32) -> Result<Command, Failure> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup"))
        .map_err(|e| format!("process {process}: {e}"))?;
    let Some(unit) = service(&groups) else {
        return Err(format!(
            "process {process} is no systemd service: give the command that ends it and starts the \
             new one, after --"
        )
        .into());
    };
    let mut command = Command::new("systemctl");
    command.args(["restart", "--"].map(OsStr::new)).arg(unit);
    Ok(command)
}

/// Finds the service in the control groups of a process (cgroups(7)).
fn service(groups: &str) -> Option<&str> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut units =
        paths.filter_map(|path| path.rsplit('/').find(|part| part.ends_with(".service")));
    units.next()
}

/// Reads the line in which the box describes itself, and nothing after it.
fn offer(stream: &UnixStream) -> Result<Offer, Failure> {
    let line = local::read_line(stream, Instant::now() + OFFER_TIMEOUT, LINE);
    let line = line.map_err(|e| match e.kind() {
        io::ErrorKind::TimedOut => "it does not answer: does it hang?",
        io::ErrorKind::FileTooLarge => "it does not describe itself",
        _ => "it answers root and its own user only, and one command at a time",
    })?;
    Ok(forebay_status::parse(&line)?)
}

/// The socket where the new process asks. Nobody else listens there while this value lives.
struct Place {
    listener: UnixListener,
    path: PathBuf,
    _lock: NameLock,
}

impl Place {
    fn take(interface: &str) -> Result<Self, Failure> {
        let lock = NameLock::hold(&format!("upgrade-{interface}")).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => format!("another upgrade of {interface} is under way"),
            _ => format!("cannot lock the upgrade of {interface}: {e}"),
        })?;
        let listen = || -> io::Result<_> {
            let directory = Directory::open()?;
            let listener = directory.listen(HANDOVER_SOCKET, interface)?;
            Ok((listener, directory.socket(HANDOVER_SOCKET, interface)))
        };
        let (listener, path) =
            listen().map_err(|e| format!("cannot wait for the new process: {e}"))?;
        Ok(Self { listener, path, _lock: lock })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The next box removes what is left.
        let _ = fs::remove_file(&self.path);
    }
}

/// Fails if the command failed or the time is over.
fn check(until: Instant, shown: &str, child: &mut Child, what: &str) -> Result<(), Failure> {
    if let Some(status) = child.try_wait()?.filter(|status| !status.success()) {
        return Err(format!("{shown} failed ({status}) and {what}").into());
    }
    if Instant::now() >= until {
        return Err(format!("{what} within {} s", UPGRADE_TIMEOUT.as_secs()).into());
    }
    Ok(())
}

/// Receives the state and the descriptors of the old process, which come at its end.
fn receive(
    old: &UnixStream,
    until: Instant,
    shown: &str,
    child: &mut Child,
) -> Result<(Vec<u8>, Vec<OwnedFd>), Failure> {
    old.set_nonblocking(false)?;
    old.set_read_timeout(Some(PAUSE))?;
    let (mut state, mut found, mut buffer) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
    loop {
        match descriptors::receive(old, &mut buffer, &mut found) {
            Ok(0) => return Ok((state, found)),
            Ok(n) if state.len() + n > MAX_HANDOVER => {
                return Err("the state of the old process is too large".into());
            }
            Ok(n) => state.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(format!("the old process did not hand over: {e}").into()),
        }
        check(until, shown, child, "the old process did not end")?;
    }
}

/// Accepts the connection of the new process. Those of other users are closed.
fn accept(
    listener: &UnixListener,
    until: Instant,
    shown: &str,
    child: &mut Child,
) -> Result<UnixStream, Failure> {
    loop {
        match listener.accept() {
            Ok((stream, _)) if Peer::of(&stream)?.is_trusted() => return Ok(stream),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::sleep(PAUSE),
            Err(e) => return Err(e.into()),
        }
        check(until, shown, child, "no new process came")?;
    }
}

/// Hands the state on, and returns what the new process took.
fn hand(new: &UnixStream, state: &[u8], descriptors: Vec<OwnedFd>) -> Result<Taken, Failure> {
    let until = Instant::now() + UPGRADE_TIMEOUT;
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let sent = descriptors::send(new, state, &borrowed)?;
    local::write_all(new, &state[sent..], until)?;
    new.shutdown(Shutdown::Write)?;
    // The new process cannot listen at another time while this one has the socket open.
    drop(borrowed);
    drop(descriptors);
    let report = local::read_to_end(new, until, REPORT)?;
    Ok(forebay_status::parse(&report)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_of_a_process_is_found_in_its_control_groups() {
        let unit = "forebay@site.service";
        for groups in [
            "0::/system.slice/system-forebay.slice/forebay@site.service\n",
            "12:pids:/user.slice\n1:name=systemd:/system.slice/forebay@site.service/inner\n0::/\n",
        ] {
            assert_eq!(service(groups), Some(unit), "{groups}");
        }
        assert_eq!(service("0::/user.slice/user-0.slice/session-2.scope\n"), None);
        assert_eq!(service(""), None);
    }
}
