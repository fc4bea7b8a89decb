//! The cost of the programs in the kernel.

use forebay_test_support::frames;
use libbpf_rs::ProgramInput;

use super::super::*;
use super::load;

/// Prints what a packet costs in the kernel, by its own account:
/// `cargo test -p forebay-dataplane --lib cost -- --ignored --nocapture`.
#[test]
#[ignore = "it measures"]
fn the_cost_of_a_packet() {
    for hook in [Hook::Xdp, Hook::Tc] {
        let Some(sampler) = load(hook, Framing::Ethernet) else { return };
        sampler.set_epoch(0, 1 << 24).unwrap();
        for name in ["ipv4-tcp", "ipv6-tcp", "ipv6-udp", "ipv6-esp", "arp"] {
            let frame = frames::frame(name);
            let mut runs: Vec<_> = (0..21)
                .map(|_| {
                    let input = ProgramInput {
                        data_in: Some(&frame),
                        repeat: 100_000,
                        ..ProgramInput::default()
                    };
                    let source = hook.source().name;
                    let program = bpf::program(&sampler.bundles.object, source).unwrap();
                    program.test_run(input).unwrap().duration.as_nanos()
                })
                .collect();
            runs.sort_unstable();
            println!("{hook} {name}: {} ns, at least {} ns", runs[10], runs[0]);
        }
    }
}
