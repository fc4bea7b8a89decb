//! Other users of a box's machine, who attack its sockets and the commands of root.

use std::any::Any;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use forebay_records::{RELOAD_SOCKET, STATUS_SOCKET, Status, UPGRADE_SOCKET};
use forebay_test_support::namespace::{Namespace, enter, within};
use forebay_test_support::{has_root, without_root};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::support::process;
use crate::support::sites::{RECEIVEBOX, Sites};
use crate::support::transfer::{FILLING, Transfers};
use crate::support::{forebay_in, until};

/// The kinds of a box's sockets.
pub(crate) const KINDS: [&str; 3] = [STATUS_SOCKET, RELOAD_SOCKET, UPGRADE_SOCKET];
/// The process ids whose names are taken in advance.
const PROCESSES: u32 = 3000;
/// What a stranger answers who poses as a box.
const ANSWER: &str = "{\"version\":2,\"role\":\"\x1b[2J\x1b]0;owned\x07\",\"changes\":[\"\x1b[31m";

/// Threads of another user in a network namespace, which attack until this value is dropped.
pub(crate) struct Strangers {
    enough: Arc<AtomicBool>,
    attacks: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Strangers {
    /// Starts threads that call `attack` again and again.
    pub(crate) fn start(
        place: &Namespace,
        threads: usize,
        attack: impl Fn() + Clone + Send + 'static,
    ) -> Self {
        let (enough, attacks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = |_| {
            let (enough, attacks) = (Arc::clone(&enough), Arc::clone(&attacks));
            let (place, attack) = (place.0.clone(), attack.clone());
            thread::spawn(move || {
                enter(&place);
                without_root(move || {
                    while !enough.load(Ordering::Relaxed) {
                        attack();
                        attacks.fetch_add(1, Ordering::Relaxed);
                    }
                });
            })
        };
        let threads = (0..threads).map(start).collect();
        Self { enough, attacks, threads }
    }

    /// Returns the number of attacks so far.
    pub(crate) fn attacks(&self) -> u64 {
        self.attacks.load(Ordering::Relaxed)
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn abstract_name(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).unwrap()
}

/// Takes, as another user, the abstract names that boxes and commands of earlier releases used: of
/// sockets of the next processes, of the hand-over at `interface` and of locks. Nobody else fits
/// into the backlog of the hand-over. They are held until the result is dropped.
pub(crate) fn take_names(place: &Namespace, interface: &str) -> Vec<Box<dyn Any + Send>> {
    let wanted = u64::from(4 * PROCESSES);
    assert!(forebay_system::allow_open_files(wanted).unwrap() >= wanted);
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let last: u32 = load.trim().rsplit(' ').next().unwrap().parse().unwrap();
    within(&place.0, || {
        without_root(|| {
            let mut held: Vec<Box<dyn Any + Send>> = Vec::new();
            for process in last..last + PROCESSES {
                for kind in KINDS {
                    let name = abstract_name(&format!("forebay-{kind}-{process}"));
                    held.push(Box::new(UnixListener::bind_addr(&name).unwrap()));
                }
            }
            for lock in ["port", "tree"] {
                let name = abstract_name(&format!("forebay-{lock}-{interface}"));
                held.push(Box::new(UnixDatagram::bind_addr(&name).unwrap()));
            }
            let name = SockAddr::unix(format!("\0forebay-handover-{interface}")).unwrap();
            let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            listener.bind(&name).unwrap();
            listener.listen(0).unwrap();
            held.push(Box::new(listener));
            loop {
                let waiting = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
                waiting.set_nonblocking(true).unwrap();
                let connected = waiting.connect(&name);
                held.push(Box::new(waiting));
                if connected.is_err() {
                    return held;
                }
            }
        })
    })
}

/// A stranger who listens at the names of boxes of the release before, and answers who connects a
/// byte at a time, without an end.
pub(crate) fn pose_as_boxes(place: &Namespace) -> Strangers {
    let own = std::process::id();
    let listeners: Vec<UnixListener> = within(&place.0, || {
        without_root(|| {
            let names = KINDS.iter().flat_map(|kind| {
                [1, own].map(|process| abstract_name(&format!("forebay-{kind}-{process}")))
            });
            let listen = |name| {
                let listener = UnixListener::bind_addr(&name).unwrap();
                listener.set_nonblocking(true).unwrap();
                listener
            };
            names.map(listen).collect()
        })
    });
    let listeners = Arc::new(listeners);
    Strangers::start(place, 1, move || {
        for listener in &*listeners {
            if let Ok((mut stream, _)) = listener.accept() {
                thread::spawn(move || {
                    let mut bytes = ANSWER.bytes().cycle();
                    while bytes.next().is_some_and(|byte| stream.write_all(&[byte]).is_ok()) {
                        thread::yield_now();
                    }
                });
            }
        }
        thread::yield_now();
    })
}

/// Returns the paths of the sockets of a process.
pub(crate) fn sockets_of(process: u32) -> Vec<PathBuf> {
    let end = format!("-{process}.sock");
    let all = fs::read_dir("/run/forebay").unwrap().map(|entry| entry.unwrap().path());
    let own = all.filter(|path| path.to_str().is_some_and(|path| path.ends_with(&end)));
    let sockets: Vec<_> = own.collect();
    assert_eq!(sockets.len(), KINDS.len(), "{sockets:?}");
    sockets
}

/// Runs a command of root in a namespace, and checks that nothing is printed raw.
pub(crate) fn command(place: &Namespace, arguments: &[&str]) -> Output {
    let output = forebay_in(place, arguments).output().unwrap();
    for text in [&output.stdout, &output.stderr] {
        assert_printable(&String::from_utf8(text.clone()).unwrap());
    }
    output
}

fn assert_printable(text: &str) {
    let raw = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(raw), "{text:?}");
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].concat().try_into().unwrap()
}

/// Checks that `status`, `reload` and `upgrade` reach the box of this process and nobody else.
pub(crate) fn check_commands(place: &Namespace, process: u32) {
    let status = command(place, &["status", "--json"]);
    let boxes: Vec<Status> = serde_json::from_slice(&status.stdout).unwrap();
    let processes: Vec<_> = boxes.iter().map(|status| status.process).collect();
    assert_eq!(processes, [process], "{}", text(&status));
    let reload = command(place, &["reload"]);
    assert_eq!(text(&reload), "nothing changed\n");
    // Nothing takes over, and the box goes on.
    let upgrade = text(&command(place, &["upgrade", "--", "false"]));
    let reached = format!("process {process}: a sendbox of release ");
    assert!(upgrade.starts_with(&reached), "{upgrade}");
}

/// Returns what an exporter in this namespace serves.
pub(crate) fn scrape(place: &Namespace) -> String {
    within(&place.0, || {
        let mut stream = TcpStream::connect(("127.0.0.1", 9477)).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    })
}

#[test]
fn names_taken_in_advance_keep_no_box_from_starting_and_no_command_from_working() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("la");
    let names = take_names(&sites.router, "fb-out");
    let mut sendbox = sites.sendbox();
    check_commands(&sites.router, sendbox.id());
    // Nor can a stranger make, open or remove a file there.
    without_root(|| {
        let denied = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        };
        denied(File::create("/run/forebay/handover-1-fb-out.sock").map(drop));
        denied(File::open("/run/forebay/locks").map(drop));
        for socket in sockets_of(sendbox.id()) {
            denied(UnixStream::connect(&socket).map(drop));
            denied(fs::remove_file(&socket));
        }
    });
    sendbox.assert_alive();
    drop(names);
}

#[test]
fn a_stranger_who_poses_as_a_box_is_not_asked() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("lb");
    let sendbox = sites.sendbox();
    let _strangers = pose_as_boxes(&sites.router);
    check_commands(&sites.router, sendbox.id());
    let log = sites.dir.0.join("exporter.log");
    let _exporter = process::start(&sites.router, &["exporter"], &log);
    let metrics = scrape(&sites.router);
    assert_printable(&metrics);
    let up: Vec<_> = metrics.lines().filter(|line| line.starts_with("forebay_up{")).collect();
    assert_eq!(up, [format!("forebay_up{{process=\"{}\"}} 1", sendbox.id())]);
}

/// Answers each connection with these bytes, and closes it unless `keeps`.
fn answer_all(listener: UnixListener, answer: Vec<u8>, keeps: bool) {
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            // A command may only look who listens.
            let _ = stream.write_all(&answer);
            kept.extend(keeps.then_some(stream));
        }
    });
}

#[test]
fn boxes_of_the_release_before_are_found_at_their_abstract_names() {
    if !has_root() {
        return;
    }
    let process = std::process::id();
    let place = Namespace::new(format!("fb-lf{process}"));
    let [status, upgrade] = within(&place.0, || {
        [STATUS_SOCKET, UPGRADE_SOCKET].map(|kind| {
            UnixListener::bind_addr(&abstract_name(&format!("forebay-{kind}-{process}"))).unwrap()
        })
    });
    let state = serde_json::json!({
        "version": 2, "role": "site", "process": process, "run": 1, "up_s": 1.5,
        "interfaces": ["wan0"], "sends": [], "receives": []
    });
    answer_all(status, state.to_string().into_bytes(), false);
    let offer = serde_json::json!({"release": "0", "role": "site", "interfaces": ["wan0"]});
    answer_all(upgrade, format!("{offer}\n").into_bytes(), true);
    let status = text(&command(&place, &["status"]));
    assert!(status.starts_with(&format!("site at wan0, process {process}, up ")), "{status}");
    let upgrade = text(&command(&place, &["upgrade", "--", "false"]));
    assert!(upgrade.starts_with(&format!("process {process}: a site of release 0\n")), "{upgrade}");
}

#[test]
fn strangers_at_the_sockets_are_refused_and_disturb_no_command() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("lc");
    let sendbox = sites.sendbox();
    let transfers = Transfers::start(&sites, "10.9.9.2", FILLING);
    sites.wait_for_control();
    // Somebody has made them writable for all.
    let sockets = sockets_of(sendbox.id());
    for socket in &sockets {
        fs::set_permissions(socket, Permissions::from_mode(0o666)).unwrap();
    }
    let strangers = Strangers::start(&sites.router, 2, move || {
        for socket in &sockets {
            drop(UnixStream::connect(socket));
        }
    });
    let status = || -> Option<Status> {
        // Strangers may fill the backlog.
        let status = command(&sites.router, &["status", "--json"]);
        serde_json::from_slice::<Vec<Status>>(&status.stdout).ok()?.pop()
    };
    until("strangers are counted", || status().is_some_and(|status| status.strangers > 1000));
    until("a command is heard", || command(&sites.router, &["reload"]).status.success());
    transfers.go_on();
    let attacks = strangers.attacks();
    until("they go on", || strangers.attacks() > attacks + 100);
    until("the state is told", || status().is_some_and(|status| status.sends[0].trouble.is_none()));
    drop(strangers);
    transfers.go_on();
    transfers.end();
    let said = sites.said();
    let count = |what: &str| said.matches(what).count();
    assert_eq!(count("another process will take over"), 0, "no stranger was heard: {said}");
    assert!(count("connections of other users to the local sockets were refused") > 0, "{said}");
}

#[test]
fn a_name_with_escape_sequences_is_shown_as_text() {
    if !has_root() {
        return;
    }
    let sites = Sites::new("ld");
    let name = "\"b\\u001b[2J\\u009b31m\\nWARN forebay: \\u202egood\"";
    sites.restart_receivebox(&RECEIVEBOX.replace("name = \"b\"", &format!("name = {name}")));
    let place = &sites.to;
    let shown = "b\\u001b[2J\\u009b31m\\nWARN forebay: \\u202egood";
    let status = text(&command(place, &["status"]));
    assert!(status.contains(&format!("from {shown} (")), "{status}");
    let status: Vec<Status> =
        serde_json::from_slice(&command(place, &["status", "--json"]).stdout).unwrap();
    assert_eq!(status[0].receives[0].name, shown);
    let log = sites.dir.0.join("exporter.log");
    let _exporter = process::start(place, &["exporter"], &log);
    assert_printable(&scrape(place));
    let other = RECEIVEBOX.replace("10.9.1.0/24", "10.9.0.0/16");
    let other = other.replace("name = \"b\"", &format!("name = {name}"));
    sites.dir.file("receivebox.toml", &other, 0o644);
    assert_eq!(text(&command(place, &["reload"])), format!("{shown}: prefixes\n"));
    let said = sites.all_said();
    assert_printable(&said);
    assert!(said.contains(&format!(" is applied: {shown}: prefixes")), "{said}");
}
