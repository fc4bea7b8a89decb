//! Tests of each controller of the bundle on the demonstration's scenario in the simulator.

use forebay_control::ControllerKind;
use forebay_lab::analysis::{Analysis, Summary};
use forebay_lab::engine::{Engine, Interrupt, Job};
use forebay_lab::scenario::{Arm, DEMO, Scenario, Sendbox, parse};
use forebay_lab::sim_engine::Sim;
use forebay_units::Nanos;

fn demo() -> Scenario {
    let scenario = parse("demo.toml".as_ref(), DEMO).unwrap().cells.remove(0);
    scenario.measured_for(Nanos::from_secs(20))
}

fn arm(scenario: &Scenario, name: &str) -> Arm {
    scenario.arms.iter().find(|a| a.name == name).unwrap().clone()
}

fn run(scenario: &Scenario, arm: &Arm) -> Summary {
    let job = Job { scenario, arm, seed: 1 };
    let run = Sim.run(&job, &Interrupt::default(), &mut |_| {}).unwrap();
    Analysis::of(&run).summary
}

fn run_with(scenario: &Scenario, controller: ControllerKind) -> Summary {
    let mut arm = arm(scenario, "forebay_sfq");
    let Sendbox::Bundle(bundle) = &mut arm.sendbox else { panic!("a bundle") };
    bundle.controller = controller;
    let summary = run(scenario, &arm);
    assert!(summary.conservation.ok, "{controller}: {:?}", summary.conservation);
    summary
}

/// Returns the mean queue delays at the bottleneck and at the sendbox in milliseconds.
fn queues(summary: &Summary) -> (f64, f64) {
    let mean = |delay: &Option<forebay_lab::analysis::Delay>| delay.as_ref().unwrap().mean;
    (mean(&summary.bottleneck_queue_ms), mean(&summary.sendbox_queue_ms))
}

#[test]
fn each_controller_moves_the_queue_to_the_sendbox() {
    let scenario = demo();
    let status_quo = run(&scenario, &arm(&scenario, "status_quo"));
    let quo = status_quo.bottleneck_queue_ms.unwrap().mean;
    // The queues at the bottleneck are eight packets, a quarter of 50 ms, and the queue of a probe.
    // BBR also limits its rate for a twentieth of the time to measure the empty path.
    for (controller, most, goodput) in [
        (ControllerKind::Forebay, 2.0, 0.95),
        (ControllerKind::BasicDelay, 15.0, 0.95),
        (ControllerKind::Bbr, 12.0, 0.9),
    ] {
        let summary = run_with(&scenario, controller);
        let (bottleneck, sendbox) = queues(&summary);
        let share = summary.goodput_mbps / status_quo.goodput_mbps;
        let slowdown = summary.slowdown.all.p50.unwrap();
        println!(
            "{controller}: {bottleneck:.2} ms at the bottleneck, {sendbox:.2} ms at the sendbox, \
             {share:.3} of status quo's goodput, median slowdown {slowdown:.2}"
        );
        assert!(bottleneck < most, "{controller}: {bottleneck} ms");
        assert!(bottleneck < sendbox / 3.0, "{controller}: {bottleneck} ms, {sendbox} ms");
        assert!(bottleneck < quo / 3.0, "{controller}: {bottleneck} ms, {quo} ms without boxes");
        assert!(share >= goodput, "{controller}: {share}");
        assert!(slowdown < status_quo.slowdown.all.p50.unwrap(), "{controller}: {slowdown}");
    }
}
