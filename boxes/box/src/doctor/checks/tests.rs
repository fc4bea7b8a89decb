//! Checks of made-up machines.

use std::collections::BTreeSet;

use forebay_dataplane::{Feature, Framing, Method, XdpDriver, XdpSupport};
use forebay_units::Nanos;

use super::all;
use crate::doctor::facts::{
    Bpf, Clock, Facts, Interface, Kernel, Peer, PeerRoute, Plan, Reply, Root,
};
use crate::doctor::report::{Report, Role, Verdict};

/// The facts about a machine that lacks nothing.
fn machine() -> Facts {
    Facts {
        kernel: kernel("6.18.4", (6, 18)),
        qdiscs: Ok(forebay_tc::Features::KINDS.into()),
        bpf: Bpf {
            parts: vec![("XDP programs", true), ("ring buffers", true)],
            types: true,
            jit: Some(true),
            observer: Ok(()),
            ingress: Ok(()),
            tunnel_observer: Ok(()),
            tunnel_ingress: Ok(()),
            bypass: Ok(()),
            af_xdp: Ok("AF_XDP (generic)".to_owned()),
        },
        capabilities: u64::MAX,
        memlock: None,
        clock: Clock {
            source: Some("tsc".to_owned()),
            resolution: Nanos(1),
            hertz: Some(250),
            read: Nanos(25),
            late: (Nanos::from_micros(8), Nanos::from_micros(90)),
            slew: Some(-11.5),
        },
        interfaces: vec![interface("wan0"), interface("lan0")],
        plan: None,
    }
}

fn kernel(release: &str, version: (u32, u32)) -> Kernel {
    Kernel { release: release.to_owned(), version: Some(version) }
}

fn interface(name: &str) -> Interface {
    let driver = XdpDriver { native: true, redirect: true, zero_copy: true };
    Interface {
        name: name.to_owned(),
        up: true,
        framing: Ok(Framing::Ethernet),
        mtu: 1_500,
        queues: 4,
        features: BTreeSet::from([Feature::Gro, Feature::Gso, Feature::Tso]),
        xdp: Ok(XdpSupport { driver, attached: None }),
        root: Ok(Root::Default),
    }
}

fn plan(role: Role) -> Plan {
    let route =
        PeerRoute { device: "wan0".to_owned(), mtu: 1_500, source: "192.0.2.1".parse().ok() };
    Plan {
        file: "box.toml".to_owned(),
        role,
        trouble: None,
        interfaces: vec!["wan0".to_owned(), "lan0".to_owned()],
        method: Method::Auto,
        take_over: false,
        tree: (role == Role::SendboxKernel).then_some(Ok(4)),
        pool: 64 << 20,
        peers: vec![Peer {
            bundle: "b".to_owned(),
            address: "198.51.100.1:28317".parse().ok(),
            route: Ok(route),
            strays: vec![],
            reply: Some(Reply::Answered {
                after: Nanos::from_millis(41),
                from: "198.51.100.1:28317".parse().unwrap(),
            }),
        }],
    }
}

fn planned(role: Role) -> Facts {
    Facts { plan: Some(plan(role)), ..machine() }
}

fn report(facts: &Facts) -> Report {
    Report::new(facts.plan.as_ref().map(|p| p.role), all(facts))
}

/// The verdicts and names of the checks that are not all right.
fn complaints(facts: &Facts) -> Vec<(Verdict, String)> {
    let report = report(facts);
    let bad = report.checks().iter().filter(|c| c.verdict != Verdict::Ok);
    bad.inspect(|c| assert!(c.advice.is_some(), "{c:?}"))
        .map(|c| (c.verdict, c.what.clone()))
        .collect()
}

/// Checks that `facts` differ from a good machine in `what` alone.
fn only(facts: &Facts, verdict: Verdict, what: &str) {
    // The note about address translation comes with every configuration.
    let mut complaints = complaints(facts);
    complaints.retain(|(_, what)| what != "b: address translation");
    assert_eq!(complaints, [(verdict, what.to_owned())]);
    assert_eq!(report(facts).is_healthy(), verdict != Verdict::Problem);
}

#[test]
fn a_machine_that_lacks_nothing_hears_nothing() {
    assert_eq!(complaints(&machine()), []);
    for role in Role::ALL {
        let unknown = (Verdict::Note, "b: address translation".to_owned());
        assert_eq!(complaints(&planned(role)), [unknown], "{role}");
    }
}

#[test]
fn an_old_kernel_stops_what_is_newer() {
    use Role::{Receivebox, SendboxKernel, SendboxUser};
    let of = |release, version| Facts { kernel: kernel(release, version), ..machine() };
    let stops = |facts: &Facts| report(facts).checks()[0].stops.clone();
    assert_eq!(stops(&of("5.12.0", (5, 12))), []);
    assert_eq!(stops(&of("5.10.0", (5, 10))), [SendboxKernel, Receivebox]);
    assert_eq!(stops(&of("5.4.0", (5, 4))), [SendboxKernel, Receivebox]);
    assert_eq!(stops(&of("4.19.0", (4, 19))), [SendboxUser, SendboxKernel, Receivebox]);
    let odd = Facts { kernel: Kernel { release: "?".to_owned(), version: None }, ..machine() };
    only(&odd, Verdict::Note, "release");
}

#[test]
fn queues_matter_to_whom_they_are_for() {
    let few = Ok(BTreeSet::from(["htb", "pfifo", "bfifo"]));
    only(&Facts { qdiscs: few, ..machine() }, Verdict::Note, "queues");
    let none = Ok(BTreeSet::from(["pfifo"]));
    only(&Facts { qdiscs: none.clone(), ..machine() }, Verdict::Note, "queues");
    only(&Facts { qdiscs: none, ..planned(Role::SendboxKernel) }, Verdict::Problem, "queues");
    let mut facts = planned(Role::SendboxKernel);
    facts.plan.as_mut().unwrap().tree = Some(Err("this kernel has no cake".to_owned()));
    only(&facts, Verdict::Problem, "tree of queues");
}

#[test]
fn somebody_else_s_queues_stop_a_sendbox_unless_it_may_take_over() {
    let mut facts = planned(Role::SendboxKernel);
    facts.interfaces[0].root = Ok(Root::Foreign("pfifo 7:".to_owned()));
    only(&facts, Verdict::Problem, "queues of wan0");
    facts.plan.as_mut().unwrap().take_over = true;
    only(&facts, Verdict::Note, "queues of wan0");
    facts.interfaces[0].root = Ok(Root::Ours);
    only(&facts, Verdict::Note, "queues of wan0");
    // They do not matter on the other interface.
    let mut facts = planned(Role::SendboxKernel);
    facts.interfaces[1].root = Ok(Root::Foreign("pfifo 7:".to_owned()));
    assert_eq!(complaints(&facts).len(), 1);
}

#[test]
fn a_part_of_bpf_that_fails_stops_its_box() {
    let with = |change: fn(&mut Bpf)| {
        let mut facts = machine();
        change(&mut facts.bpf);
        facts
    };
    only(&with(|b| b.parts[1].1 = false), Verdict::Note, "parts");
    only(&with(|b| b.jit = Some(false)), Verdict::Note, "compiler");
    only(&with(|b| b.types = false), Verdict::Note, "types of the kernel");
    only(&with(|b| b.observer = Err("no".to_owned())), Verdict::Note, "egress observer");
    only(&with(|b| b.ingress = Err("no".to_owned())), Verdict::Note, "tc's ingress");
    only(&with(|b| b.bypass = Err("no".to_owned())), Verdict::Note, "AF_PACKET");
    only(&with(|b| b.af_xdp = Err("no".to_owned())), Verdict::Note, "AF_XDP");
    let mut facts = planned(Role::SendboxKernel);
    facts.bpf.observer = Err("no".to_owned());
    only(&facts, Verdict::Problem, "egress observer");
    let mut facts = planned(Role::SendboxUser);
    facts.bpf.af_xdp = Err("no".to_owned());
    facts.plan.as_mut().unwrap().method = Method::Xdp;
    only(&facts, Verdict::Problem, "AF_XDP");
}

#[test]
fn capabilities_are_missed_by_name() {
    let without = |bits: &[u32]| bits.iter().fold(u64::MAX, |all, bit| all & !(1 << bit));
    let of = |bits: &[u32]| Facts { capabilities: without(bits), ..machine() };
    only(&of(&[12]), Verdict::Problem, "CAP_NET_ADMIN");
    only(&of(&[13]), Verdict::Note, "CAP_NET_RAW");
    // CAP_SYS_ADMIN implies CAP_BPF and CAP_PERFMON.
    assert_eq!(complaints(&of(&[38, 39])), []);
    let of_both = complaints(&of(&[21, 38]));
    let names: Vec<&str> = of_both.iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(names, ["CAP_PERFMON", "CAP_SYS_ADMIN"]);
    let nobody = report(&Facts { capabilities: 0, ..machine() });
    assert!(!nobody.is_healthy());
}

#[test]
fn frames_must_fit_into_what_may_be_locked() {
    let of = |limit, bit: u32, role| {
        let mut facts = planned(role);
        (facts.memlock, facts.capabilities) = (Some(limit), !(1_u64 << bit));
        facts
    };
    only(&of(8 << 20, 14, Role::SendboxUser), Verdict::Problem, "locked memory");
    only(&of(128 << 20, 14, Role::SendboxUser), Verdict::Note, "locked memory");
    only(&of(8 << 20, 14, Role::Receivebox), Verdict::Note, "locked memory");
    let lifted = of(8 << 20, 63, Role::SendboxUser);
    assert_eq!(complaints(&lifted).len(), 1, "CAP_IPC_LOCK is held");
}

#[test]
fn a_bad_clock_is_noted() {
    let with = |change: fn(&mut Clock)| {
        let mut facts = machine();
        change(&mut facts.clock);
        facts
    };
    only(&with(|c| c.read = Nanos::from_micros(2)), Verdict::Note, "clock source");
    only(&with(|c| c.resolution = Nanos::from_millis(4)), Verdict::Note, "timers");
    only(&with(|c| c.late.1 = Nanos::from_millis(5)), Verdict::Note, "sleeps");
    only(&with(|c| c.slew = Some(-500.0)), Verdict::Note, "CLOCK_MONOTONIC");
}

#[test]
fn an_interface_is_judged_by_what_is_wanted_of_it() {
    let with = |role, change: fn(&mut Interface)| {
        let mut facts = planned(role);
        change(&mut facts.interfaces[0]);
        facts
    };
    use Role::{Receivebox, SendboxKernel, SendboxUser};
    use Verdict::{Note, Problem};
    only(&with(SendboxUser, |i| i.up = false), Problem, "wan0");
    let tunnel: fn(&mut Interface) = |i| i.framing = Ok(Framing::BareIp);
    only(&with(SendboxUser, tunnel), Problem, "wan0");
    for role in [SendboxKernel, Receivebox] {
        only(&with(role, tunnel), Note, "wan0");
    }
    only(&with(SendboxKernel, |i| i.framing = Err("what is it".to_owned())), Problem, "wan0");
    let too_large = complaints(&with(SendboxUser, |i| i.mtu = 16_000));
    assert_eq!(too_large[0], (Problem, "wan0".to_owned()));
    only(&with(SendboxUser, |i| i.features.extend([Feature::Lro])), Problem, "wan0 offloads");
    only(&with(SendboxKernel, |i| i.features.extend([Feature::MangledIds])), Note, "wan0 offloads");
    only(&with(Receivebox, |i| i.features.extend([Feature::MangledIds])), Note, "wan0 offloads");
    let foreign = |i: &mut Interface| {
        i.xdp.as_mut().unwrap().attached = Some("cilium".to_owned());
    };
    only(&with(Receivebox, foreign), Problem, "wan0 XDP");
    only(&with(SendboxKernel, foreign), Note, "wan0 XDP");
    only(&with(SendboxKernel, |i| i.xdp.as_mut().unwrap().driver.native = false), Note, "wan0 XDP");
    // GRO is a problem only where frames are received after it.
    let mut facts = planned(SendboxUser);
    facts.plan.as_mut().unwrap().method = Method::Packet;
    let offloads = complaints(&facts);
    assert_eq!(offloads[0], (Note, "wan0 offloads".to_owned()));
    assert_eq!(offloads[1], (Note, "lan0 offloads".to_owned()));
}

/// A kernel's verifier may refuse a program for devices without Ethernet headers alone.
#[test]
fn programs_that_only_tunnels_need_stop_boxes_on_tunnels() {
    use Role::{Receivebox, SendboxKernel, SendboxUser};
    let refuse = |mut facts: Facts, tunnel: bool| {
        facts.bpf.tunnel_observer = Err("the verifier refuses it".to_owned());
        facts.bpf.tunnel_ingress = Err("the verifier refuses it".to_owned());
        if tunnel {
            facts.interfaces[0].framing = Ok(Framing::BareIp);
        }
        complaints(&facts).into_iter().filter(|(_, what)| what.contains("tunnels")).collect()
    };
    let verdicts = |role, tunnel| -> Vec<(Verdict, String)> { refuse(planned(role), tunnel) };
    let expected = |observer, ingress| {
        [(observer, "observer in tunnels"), (ingress, "ingress of tunnels")]
            .map(|(verdict, what)| (verdict, what.to_owned()))
    };
    use Verdict::{Note, Problem};
    assert_eq!(verdicts(SendboxKernel, true), expected(Problem, Note));
    assert_eq!(verdicts(Receivebox, true), expected(Note, Problem));
    assert_eq!(verdicts(SendboxUser, true), expected(Note, Note));
    assert_eq!(verdicts(SendboxKernel, false), expected(Note, Note));
}

#[test]
fn jumbo_frames_stop_no_box() {
    for role in Role::ALL {
        let mut facts = planned(role);
        for interface in &mut facts.interfaces {
            interface.mtu = 9_000;
        }
        facts.plan.as_mut().unwrap().peers.clear();
        let complaints = complaints(&facts);
        assert!(complaints.iter().all(|(v, _)| *v == Verdict::Note), "{complaints:?}");
    }
}

#[test]
fn the_way_to_the_other_box_is_looked_at() {
    let with = |role, change: fn(&mut Peer)| {
        let mut facts = planned(role);
        change(&mut facts.plan.as_mut().unwrap().peers[0]);
        facts
    };
    let user = Role::SendboxUser;
    let to = "b: to 198.51.100.1:28317";
    only(&with(user, |p| p.route.as_mut().unwrap().mtu = 1_400), Verdict::Note, to);
    let mut facts = planned(user);
    facts.interfaces[1].mtu = 2_000;
    only(&facts, Verdict::Problem, "lan0 to wan0");
    let lost = with(Role::Receivebox, |p| p.route = Err("there is no route".to_owned()));
    only(&lost, Verdict::Problem, to);

    let asked = "b: the receivebox";
    only(&with(user, |p| p.reply = Some(Reply::Silent)), Verdict::Note, asked);
    let refused = with(user, |p| p.reply = Some(Reply::Refused("wrong tag".to_owned())));
    only(&refused, Verdict::Problem, asked);
    let elsewhere = with(user, |p| {
        let from = "203.0.113.9:28317".parse().unwrap();
        p.reply = Some(Reply::Answered { after: Nanos::from_millis(41), from });
    });
    only(&elsewhere, Verdict::Note, asked);

    let learned = |p: &mut Peer| {
        p.address = None;
        p.route = Err("there is none".to_owned());
    };
    // The address translation to it is not guessed either.
    let facts = with(Role::SendboxKernel, learned);
    assert_eq!(complaints(&facts), [(Verdict::Note, "b: the other box".to_owned())]);

    let stray = |p: &mut Peer| p.strays = vec![("10.2.0.0/16".to_owned(), "wan1".to_owned())];
    only(&with(Role::SendboxKernel, stray), Verdict::Note, "b: routes");
    assert_eq!(complaints(&with(user, stray)).len(), 1, "a bridge has no routes");
}

#[test]
fn address_translation_is_guessed_and_never_denied() {
    let said = |ours: &str, theirs: &str| {
        let mut facts = planned(Role::SendboxUser);
        let peer = &mut facts.plan.as_mut().unwrap().peers[0];
        peer.route.as_mut().unwrap().source = ours.parse().ok();
        peer.address = theirs.parse().ok();
        let report = report(&facts);
        let check = report.checks().iter().find(|c| c.what == "b: address translation").unwrap();
        assert_eq!(check.verdict, Verdict::Note);
        check.found.clone()
    };
    assert_eq!(
        said("192.168.1.2", "198.51.100.1:1"),
        "likely: 192.168.1.2 is private, 198.51.100.1 is not"
    );
    assert_eq!(said("10.1.0.1", "10.2.0.1:1"), "no sign: 10.1.0.1 and 10.2.0.1 are both private");
    assert_eq!(
        said("2001:db8::1", "[2001:db8::2]:1"),
        "no sign: 2001:db8::1 and 2001:db8::2 are both public"
    );
    assert_eq!(said("192.0.2.1", "10.2.0.1:1"), "likely: 10.2.0.1 is private, 192.0.2.1 is not");
}

#[test]
fn a_configuration_that_cannot_be_run_is_a_problem_itself() {
    let mut facts = planned(Role::Receivebox);
    facts.plan.as_mut().unwrap().trouble = Some("box.toml:3: unknown field".to_owned());
    only(&facts, Verdict::Problem, "box.toml");
}
