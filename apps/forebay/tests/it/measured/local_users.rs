//! How late ticks are, and how long commands of root take, while other users attack a box.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use forebay_records::Tick;
use forebay_system::clock;
use forebay_test_support::has_root;
use forebay_units::Nanos;

use crate::live::local_users::{Strangers, command, pose_as_boxes, scrape, sockets_of, take_names};
use crate::support::process;
use crate::support::sites::{Sites, path};
use crate::support::transfer::{FILLING, Transfers};

/// The latest that a tick may be after the one before it.
const LATEST_TICK: Nanos = Nanos::from_millis(50);
/// The longest time of a command.
const MAX_COMMAND: Duration = Duration::from_secs(2);
/// The time of each attack.
const ATTACK: Duration = Duration::from_secs(20);

/// A time with one kind of attack, and the longest time of each command in it.
struct Phase {
    what: &'static str,
    from: Nanos,
    to: Nanos,
    commands: [(&'static str, Duration); 4],
}

/// Runs all commands again and again for a while.
fn phase(what: &'static str, sites: &Sites) -> Phase {
    let place = &sites.router;
    let from = clock::now();
    let start = Instant::now();
    let mut commands = ["status", "reload", "upgrade", "scrape"].map(|name| (name, Duration::ZERO));
    while start.elapsed() < ATTACK {
        for (name, longest) in &mut commands {
            let start = Instant::now();
            match *name {
                "scrape" => drop(scrape(place)),
                "upgrade" => drop(command(place, &["upgrade", "--", "false"])),
                name => drop(command(place, &[name])),
            }
            *longest = start.elapsed().max(*longest);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Phase { what, from, to: clock::now(), commands }
}

/// Returns the longest time between two ticks of a phase, and their number.
fn latest(ticks: &[u64], phase: &Phase) -> (Nanos, usize) {
    let of_phase: Vec<_> =
        ticks.iter().filter(|time| (phase.from.0..phase.to.0).contains(*time)).collect();
    let longest = of_phase.windows(2).map(|pair| pair[1] - pair[0]).max();
    (Nanos(longest.unwrap_or(u64::MAX)), of_phase.len())
}

#[test]
fn no_tick_is_late_and_no_command_slow_while_other_users_attack() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("le");
    let names = take_names(&sites.router, "fb-out");
    let (file, log) = (sites.dir.0.join("sendbox.toml"), sites.dir.0.join("sendbox.log"));
    let ticks = sites.dir.0.join("ticks");
    let arguments = ["sendbox", "--config", path(&file), "--tick-log", path(&ticks)];
    let mut sendbox = process::start(&sites.router, &arguments, &log);
    let log = sites.dir.0.join("exporter.log");
    let _exporter = process::start(&sites.router, &["exporter"], &log);
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    let mut phases = vec![phase("names taken in advance", &sites)];
    let posing = pose_as_boxes(&sites.router);
    phases.push(phase("a stranger poses as boxes", &sites));
    drop((names, posing));
    let sockets = sockets_of(sendbox.id());
    let connect = {
        let sockets = sockets.clone();
        move || sockets.iter().for_each(|socket| drop(UnixStream::connect(socket)))
    };
    let strangers = Strangers::start(&sites.router, 2, connect);
    phases.push(phase("two threads try to connect", &sites));
    for socket in &sockets {
        fs::set_permissions(socket, Permissions::from_mode(0o666)).unwrap();
    }
    phases.push(phase("two threads connect, the sockets writable", &sites));
    drop(strangers);
    phases.push(phase("no attack", &sites));
    transfers.go_on();
    transfers.end();
    assert_eq!(sendbox.signal(libc::SIGTERM), Some(0));
    let times: Vec<u64> = fs::read_to_string(&ticks)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Tick>(line).unwrap().time)
        .collect();
    for phase in &phases {
        let (gap, count) = latest(&times, phase);
        eprintln!(
            "{}: {count} ticks, {gap} at most between two; {:.1?}",
            phase.what, phase.commands
        );
    }
    for phase in &phases {
        assert!(latest(&times, phase).0 < LATEST_TICK, "{}", phase.what);
        for (name, longest) in phase.commands {
            assert!(longest < MAX_COMMAND, "{}: {name} took {longest:.1?}", phase.what);
        }
    }
    assert_eq!(sites.said().matches("mode delay control -> open").count(), 0);
}
