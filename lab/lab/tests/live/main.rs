//! Tests the netns engine on this machine's kernel, with stand-ins for the boxes, and builds of the
//! kernel of the engine `uml`.
//!
//! The engines start this program for each of their processes, so it handles their names. Tests
//! whose names begin with `live` or `measured` need root. The latter compare rates and times, so
//! they need a quiet machine.
#![allow(clippy::unwrap_used, reason = "a test")]

mod building;
mod engine;
mod measured;
mod stand_in;
mod wires;

use std::process::ExitCode;

use forebay_lab::engine::{Engine, EngineError, Interrupt, Job};
use forebay_lab::netns::{Dataplane, Netns};
use forebay_lab::results::Run;
use forebay_lab::scenario::{self, Scenario};
use forebay_lab::{link, netns, traffic};
use forebay_test_support::{Need, skip_named};
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("agent") => traffic::main(),
        Some("link-emulator") => {
            link::main().unwrap();
            ExitCode::SUCCESS
        }
        Some("sendbox") => stand_in::sendbox(),
        Some("receivebox") => stand_in::receivebox(),
        Some("keygen") => stand_in::keygen(),
        Some("one-run") => {
            if let Err(e) = run(&short(4), &Interrupt::default()) {
                println!("{e}");
            }
            ExitCode::SUCCESS
        }
        Some("prepare") => building::prepare(),
        _ => tests(),
    }
}

/// Lists tests by their paths.
macro_rules! tests {
    ($($test:path),* $(,)?) => { [$((stringify!($test), $test as fn())),*] };
}

fn tests() -> ExitCode {
    let live = tests![
        engine::all_traffic_flows_and_nothing_is_left,
        engine::sites_have_boxes_of_their_own,
        engine::hosts_that_ask_for_ecn_are_marked,
        engine::a_queue_of_the_kernel_s_is_accounted_for,
        engine::a_queue_that_the_kernel_lacks_is_named,
        engine::a_killed_box_is_started_again,
        engine::an_interrupt_leaves_nothing,
        engine::a_panic_leaves_nothing,
        engine::two_runs_do_not_meet,
        engine::a_process_that_ends_is_named,
        engine::a_killed_run_is_reclaimed,
        wires::a_trace_is_served_in_bursts,
        wires::steps_and_loss_are_carried_out,
        wires::delays_vary,
        wires::a_policer_and_a_longer_path,
        wires::the_way_back_is_slow_and_lossy,
        wires::a_sendbox_is_restarted,
        wires::several_ways_carry_the_path,
        wires::a_route_changes_and_a_traffic_s_way_back_is_longer,
        wires::boxes_are_around_boxes,
        wires::sites_take_ways_of_their_own,
        wires::what_the_engine_lacks_is_named,
    ];
    let measured = tests![
        measured::a_trace_is_served_in_bursts,
        measured::steps_and_loss_are_carried_out,
        measured::delays_vary,
        measured::a_policer_and_a_longer_path,
        measured::a_sendbox_is_restarted,
        measured::several_ways_carry_the_path,
        measured::a_route_changes_and_a_traffic_s_way_back_is_longer,
    ];
    let building = tests![
        building::a_missing_compiler_is_named,
        building::a_failed_build_leaves_nothing,
        building::two_builds_at_once_make_one_kernel,
        building::an_interrupted_build_leaves_nothing,
        building::what_a_killed_build_left_is_never_used,
    ];
    let live = live.map(|(name, test)| of_root(format!("live::{name}"), test));
    let measured = measured.map(|(name, test)| of_root(name.to_owned(), test));
    let building = building.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    let mut arguments = Arguments::from_args();
    // A test looks for what this process has set up, so the tests of one process take turns.
    arguments.test_threads.get_or_insert(1);
    let all = live.into_iter().chain(measured).chain(building).collect();
    libtest_mimic::run(&arguments, all).exit_code()
}

/// A test that needs root.
fn of_root(name: String, test: fn()) -> Trial {
    Trial::test(name.clone(), move || {
        match netns::usable() {
            Ok(()) => test(),
            Err(e) => skip_named(&name, Need::Root, &e.to_string()),
        }
        Ok(())
    })
}

/// Returns a scenario with a second of every kind of traffic.
fn short(ip: u8) -> Scenario {
    let text = include_str!("short.toml").replace("ip = 4", &format!("ip = {ip}"));
    scenario::parse("short.toml".as_ref(), &text).unwrap().cells.remove(0)
}

/// Returns the engine with this program in place of the boxes.
fn with_stand_ins(dataplane: Dataplane) -> Netns {
    Netns { forebay: std::env::current_exe().unwrap(), dataplane }
}

fn run(scenario: &Scenario, interrupt: &Interrupt) -> Result<Run, EngineError> {
    let job = Job { scenario, arm: &scenario.arms[0], seed: 1 };
    with_stand_ins(Dataplane::User).run(&job, interrupt, &mut |_| {})
}
