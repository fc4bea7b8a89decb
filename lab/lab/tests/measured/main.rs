//! Tests the engine `uml`, in virtual time, with stand-ins for the boxes. It needs no root but a
//! kernel, which is built first if it is not there.
//!
//! The guest starts this program for each of its processes, so it handles their names.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../live/stand_in.rs"]
mod stand_in;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::thread;

use forebay_lab::engine::{Engine, EngineError, Interrupt, Job, Phase};
use forebay_lab::netns::Dataplane;
use forebay_lab::results::Run;
use forebay_lab::scenario::{self, Maker, Queue, QueueKind, Scenario};
use forebay_lab::uml::{self, Uml};
use forebay_lab::{link, traffic};
use forebay_records::packet_log::Fate;
use forebay_test_support::{Dir, Need, is_root, queues, skip_named};
use libtest_mimic::{Arguments, Trial};

/// The name of a copy of this program whose receivebox never blocks.
const SPINS: &str = "spins";
/// The name of a copy of this program whose sendbox creates the kernel's queues and checks them.
const QUEUES: &str = "queues";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("guest") => uml::guest(),
        Some("agent") => traffic::main(),
        Some("link-emulator") => {
            link::main().unwrap();
            ExitCode::SUCCESS
        }
        Some("sendbox") if own_name().contains(QUEUES) => {
            eprintln!("made and found: {:?}", queues::made_and_found());
            ExitCode::FAILURE
        }
        Some("sendbox") => stand_in::sendbox(),
        Some("receivebox") if own_name().contains(SPINS) => spin(),
        Some("receivebox") => stand_in::receivebox(),
        Some("keygen") => stand_in::keygen(),
        Some("one-run") => {
            match run(&short(), &Interrupt::default()) {
                Ok(run) => println!("{} requests", run.requests.len()),
                Err(e) => println!("{e}"),
            }
            ExitCode::SUCCESS
        }
        _ => tests(),
    }
}

/// Lists tests by their names.
macro_rules! trials {
    ($($test:ident),* $(,)?) => {
        [$(trial(concat!("measured::", stringify!($test)), $test)),*]
    };
}

fn tests() -> ExitCode {
    let all = trials![
        a_seed_gives_the_same_run_again,
        a_path_that_varies_is_repeatable,
        queues_of_the_kernel_s_are_accounted_for,
        a_sendbox_s_queues_are_made_and_found,
        an_interrupt_leaves_nothing,
        a_killed_guest_is_said_to_be,
        a_user_needs_no_rights,
        who_never_blocks_is_named,
    ];
    let mut arguments = Arguments::from_args();
    // A test looks for guests of this process, so the tests of one process take turns.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, all.into()).exit_code()
}

/// A test of a running kernel, which is built first if it is not there.
fn trial(name: &'static str, test: fn()) -> Trial {
    Trial::test(name, move || {
        match uml::prepare(&Interrupt::default()) {
            Ok(()) => test(),
            Err(EngineError::Unfit(why)) => skip_named(name, Need::Kernel, &why),
            Err(e) => panic!("{e}"),
        }
        assert!(guests(std::process::id()).is_empty(), "it left a guest");
        Ok(())
    })
}

/// Returns a scenario with a second of every kind of traffic.
fn short() -> Scenario {
    let text = include_str!("../live/short.toml");
    scenario::parse("short.toml".as_ref(), text).unwrap().cells.remove(0)
}

/// Returns the engine with this program in place of the boxes.
fn engine() -> Uml {
    Uml { forebay: std::env::current_exe().unwrap(), dataplane: Dataplane::User }
}

fn run(scenario: &Scenario, interrupt: &Interrupt) -> Result<Run, EngineError> {
    let job = Job { scenario, arm: &scenario.arms[0], seed: 1 };
    engine().run(&job, interrupt, &mut |_| {})
}

fn a_seed_gives_the_same_run_again() {
    let scenario = short();
    let once = || run(&scenario, &Interrupt::default()).unwrap();
    let (first, second) = thread::scope(|scope| {
        let beside = scope.spawn(once);
        (once(), beside.join().unwrap())
    });
    assert!(first == second, "byte for byte, whatever runs beside it");

    assert_eq!((first.end - first.start).0, scenario.duration.0);
    assert!(first.requests.iter().any(|r| r.end.is_some()), "answers came");
    for name in ["cubic", "bbr", "quic", "cbr"] {
        let received = first.progress.iter().filter(|p| p.traffic == name);
        assert!(received.map(|p| p.bytes).sum::<u64>() > 0, "{name}");
    }
    let rtts = first.round_trips.iter().filter_map(|r| Some(r.end? - r.start));
    let shortest = rtts.min().unwrap();
    // The 20 ms of the path, to a tenth of a packet's transmission time.
    assert!((20_000_000..20_030_000).contains(&shortest), "{shortest}");

    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 2 };
    let other = engine().run(&job, &Interrupt::default(), &mut |_| {}).unwrap();
    assert!(other.requests != first.requests, "another seed asks for other things");
}

/// A trace with loss, jitter and a way back of its own: packets leave when the trace allows it, and
/// the same ones are lost again.
fn a_path_that_varies_is_repeatable() {
    let name = format!("fb-uml-{}.trace", std::process::id());
    let file = std::env::temp_dir().join(&name);
    fs::write(&file, "20\n".repeat(80)).unwrap();
    let path = format!(
        "loss = \"1 %\"\njitter = {{ up_to = \"2 ms\", reorders = true }}\n\
         back = {{ rate = \"4 Mbit/s\", loss = \"1 %\" }}\ntrace = \"{name}\""
    );
    let text = include_str!("../live/short.toml").replace("rate = \"96 Mbit/s\"", &path);
    let beside = std::env::temp_dir().join("short.toml");
    let scenario = scenario::parse(&beside, &text).unwrap().cells.remove(0);
    fs::remove_file(&file).unwrap();
    let [first, second] = [(); 2].map(|()| run(&scenario, &Interrupt::default()).unwrap());
    assert!(first == second, "byte for byte");
    let begin = first.start - scenario.warmup;
    let sent = first.bottleneck.iter().filter(|r| r.fate == Fate::Sent && r.time >= begin);
    let times: Vec<_> = sent.map(|r| (r.time - begin).0).collect();
    assert!(times.len() > 2_000 && times.iter().all(|t| t % 20_000_000 == 0), "{times:?}");
    let link = &first.hops[1];
    assert!((20..200).contains(&link.lost), "about a hundredth: {link:?}");
}

/// Tests all kinds of queues of scenarios, each small enough to drop or configured to mark.
fn queues_of_the_kernel_s_are_accounted_for() {
    use QueueKind::{Cake, Codel, Fifo, FqCodel, Pie, Sfq};
    for kind in [Fifo, Sfq, Codel, FqCodel, Pie, Cake] {
        let mut scenario = short();
        // Marks need time, which a full queue does not leave.
        let ecn = kind.can_mark();
        let limit = if ecn { "400 packets" } else { "40 packets" }.parse().unwrap();
        scenario.ecn = true;
        scenario.arms[0].queue = Queue { by: Maker::Kernel, ecn, ..Queue::plain(kind, limit) };
        let run = run(&scenario, &Interrupt::default()).unwrap();
        let name = kind.name();
        let count = |fate| run.bottleneck.iter().filter(|r| r.fate == fate).count() as u64;
        let link = &run.hops[1];
        assert!(link.policy_drops > 0, "{name}: {link:?}");
        // The kernel's own count, and what was seen to go in and not to come out.
        assert_eq!(link.policy_drops, count(Fate::Dropped), "{name}");
        assert_eq!(link.received, link.sent + link.policy_drops + link.queued, "{name}");
        assert_eq!(link.lost, 0, "{name}");
        assert_eq!(link.marked.unwrap() > 0, ecn, "{name}: {link:?}");
        // In virtual time the longest delay of a FIFO is that of 40 full frames of 126.2 us each.
        let longest = run.bottleneck.iter().map(|r| r.sojourn.0).max().unwrap();
        assert!(longest > 1_000_000, "{name}: {longest}");
        assert!(kind != Fifo || longest <= 41 * 126_167, "{longest}");
    }
}

fn an_interrupt_leaves_nothing() {
    let scenario = short();
    let interrupt = Interrupt::default();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let mut phases = Vec::new();
    let ended = engine().run(&job, &interrupt, &mut |progress| {
        phases.push(progress.phase);
        if progress.phase == Phase::WarmUp {
            assert_eq!(guests(std::process::id()).len(), 1);
            interrupt.raise();
        }
    });
    assert!(matches!(ended, Err(EngineError::Interrupted)), "{ended:?}");
    assert!(phases.contains(&Phase::WarmUp) && !phases.contains(&Phase::Collect), "{phases:?}");
}

fn a_killed_guest_is_said_to_be() {
    let scenario = short();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let ended = engine().run(&job, &Interrupt::default(), &mut |progress| {
        if progress.phase == Phase::WarmUp {
            for guest in guests(std::process::id()) {
                let kill = Command::new("kill").args(["-9", &guest.to_string()]).status();
                assert!(kill.unwrap().success());
            }
        }
    });
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("the guest's kernel ended early (signal: 9"), "{error}");
}

/// Runs as a user who can read neither the project nor the kernel's cache.
fn a_user_needs_no_rights() {
    if !is_root() {
        let why = "this user has no rights to drop: all tests here run without any";
        skip_named("a_user_needs_no_rights", Need::Root, why);
        return;
    }
    let dir = public_dir("uml-user");
    let program = copy(&std::env::current_exe().unwrap(), &dir, "program");
    let kernel = copy(&kernel(), &dir, "kernel");
    let own = dir.path().join("tmp");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(12_345), Some(12_345)).unwrap();
    let output = one_run(&program, |command| {
        command.uid(12_345).gid(12_345).env("FOREBAY_UML_KERNEL", &kernel).env_remove("HOME");
        command.env("TMPDIR", &own).env_remove("XDG_RUNTIME_DIR");
    });
    assert!(output.contains(" requests"), "{output}");
    let told = one_run(&program, |command| {
        let home = ("HOME", "/proc/no-such-dir");
        command.uid(12_345).gid(12_345).env(home.0, home.1).env_remove("XDG_CACHE_HOME");
        command.env_remove("FOREBAY_UML_KERNEL");
    });
    assert!(told.contains("XDG_CACHE_HOME") && told.trim().lines().count() == 1, "{told}");
    assert!(own.join("forebay-uml-12345").is_dir());
}

fn who_never_blocks_is_named() {
    let dir = public_dir("uml-spin");
    let program = copy(&std::env::current_exe().unwrap(), &dir, SPINS);
    let output = one_run(&program, |_| {});
    assert!(output.starts_with("receivebox keeps the guest's clock"), "{output}");
}

/// Tests the kernel's policies, of which this kernel has more than many machines.
fn a_sendbox_s_queues_are_made_and_found() {
    let dir = public_dir("uml-queues");
    let program = copy(&std::env::current_exe().unwrap(), &dir, QUEUES);
    let output = one_run(&program, |_| {});
    let (_, made) = output.split_once("made and found: ").expect(&output);
    for kind in ["htb", "pfifo", "bfifo", "sfq", "fq_codel", "pie", "fq_pie", "cake"] {
        assert!(made.contains(&format!("\"{kind}\"")), "{kind}: {output}");
    }
}

fn one_run(program: &Path, prepare: impl FnOnce(&mut Command)) -> String {
    let mut command = Command::new(program);
    prepare(command.arg("one-run").current_dir("/"));
    let Output { stdout, stderr, .. } = command.output().unwrap();
    String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap()
}

/// Reports that it is ready, and then never yields the processor.
fn spin() -> ExitCode {
    println!(r#"{{"event":"ready"}}"#);
    loop {
        std::hint::spin_loop();
    }
}

fn own_name() -> String {
    std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned()
}

/// Returns the kernel of this user's runs.
fn kernel() -> PathBuf {
    forebay_guest::kernel_file(forebay_guest::Kernel::Plain, &Interrupt::default()).unwrap()
}

/// Returns the guests that the process `parent` has started: its children in a directory of runs.
fn guests(parent: u32) -> Vec<u32> {
    let of_ours = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let dir = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        status.contains(&format!("PPid:\t{parent}\n"))
            && dir.to_string_lossy().contains("forebay-uml")
    };
    let all = fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(of_ours).collect()
}

/// Copies a program so that every user can run it, and returns the copy.
fn copy(file: &Path, to: &Dir, name: &str) -> PathBuf {
    let to = to.path().join(name);
    fs::copy(file, &to).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
    to
}

/// Makes a directory that every user can read.
fn public_dir(name: &str) -> Dir {
    let dir = Dir::new(name);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}
