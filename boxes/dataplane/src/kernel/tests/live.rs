//! The classifier in the kernel, run on frames that are given to it.

use forebay_system::clock;
use forebay_test_support::{frames, has_root};
use forebay_wire::{Frame, Headers};
use libbpf_rs::ProgramInput;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::super::*;
use crate::HEARTBEAT_TIMEOUT;

fn prefixes(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|p| p.parse().unwrap()).collect()
}

/// Loads the programs for any device of this framing.
fn unattached(framing: Framing) -> Result<EgressObserver, Error> {
    LoadedEgress::load_for((0, 0), framing).and_then(EgressObserver::unattached)
}

/// Returns the classifier's answer and the five words that it writes into the packet.
fn classify(observer: &EgressObserver, frame: &[u8]) -> Option<(i32, [u32; 5])> {
    // `struct __sk_buff` of linux/bpf.h, whose `cb` is here.
    let mut context = [0xff; 192];
    let input = ProgramInput {
        data_in: Some(frame),
        context_out: Some(&mut context),
        ..ProgramInput::default()
    };
    let program = bpf::program(&observer.bundles.object, "fb_classify").unwrap();
    let answer = program.test_run(input).ok()?.return_value as i32;
    let word = |i: usize| u32::from_ne_bytes(context[48 + 4 * i..][..4].try_into().unwrap());
    Some((answer, std::array::from_fn(word)))
}

/// The rule of a sendbox in user space.
fn fits(rule: &ClassRule, headers: &Headers) -> bool {
    let port = |p: &u16| headers.ports.is_some_and(|q| q.source == *p || q.destination == *p);
    let within = |p: &IpNet| p.contains(&headers.source) || p.contains(&headers.destination);
    (rule.dscp.is_empty() || rule.dscp.contains(&headers.dscp))
        && (rule.ports.is_empty() || rule.ports.iter().any(port))
        && (rule.prefixes.is_empty() || rule.prefixes.iter().any(within))
}

/// Makes rules that random packets sometimes fit.
fn any_rule() -> impl Strategy<Value = ClassRule> {
    let lists = (any::<u64>(), any::<u16>(), any::<u16>(), 0..27_u32);
    lists.prop_map(|(bits, port, other, what)| {
        let dscp = (0..64).filter(|d| bits >> d & 1 == 1).collect();
        let all =
            prefixes(&["0.0.0.0/1", "64.0.0.0/3", "::/2", "8000::/1", "192.0.0.0/2", "a000::/4"]);
        let prefixes = all.into_iter().enumerate().filter(|(i, _)| bits >> (20 + i) & 1 == 1);
        ClassRule {
            dscp: if what % 3 == 0 { dscp } else { vec![] },
            ports: if what / 3 % 3 == 0 {
                (0..64).map(|i| port ^ i << 10).chain([other]).collect()
            } else {
                vec![]
            },
            prefixes: if what / 9 == 0 { prefixes.map(|(_, p)| p).collect() } else { vec![] },
        }
    })
}

#[test]
fn no_packet_is_in_a_bundle_when_the_process_is_silent() {
    if !has_root() {
        return;
    }
    let mut observer = unattached(Framing::Ethernet).unwrap();
    observer.set_bundles(&[prefixes(&["0.0.0.0/0"])]).unwrap();
    let mut frame = vec![0; 60];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[14 + 2..14 + 4].copy_from_slice(&[0, 46]);
    frame[14 + 9] = 17;
    let answer = |observer: &EgressObserver| classify(observer, &frame).unwrap().0;
    assert_eq!(answer(&observer), -1, "no report yet");
    // Time passes between the report and the packet, so that the margins are wide.
    let margin = Nanos::from_secs(60);
    observer.report_alive(clock::now() + margin).unwrap();
    assert_eq!(answer(&observer), 0);
    // The program's clock is as exact as the kernel's tick.
    observer.report_alive(clock::now().saturating_sub(HEARTBEAT_TIMEOUT * 2)).unwrap();
    assert_eq!(answer(&observer), -1, "too long ago");
    observer.report_alive(clock::now() + margin).unwrap();
    assert_eq!(answer(&observer), 0, "it is back");
}

/// Without an Ethernet header, a packet is in the same bundle, and has the same note.
#[test]
fn a_packet_without_ethernet_is_the_same_packet() {
    if !has_root() {
        return;
    }
    let load = |framing| {
        let mut observer = unattached(framing).unwrap();
        observer.set_bundles(&[vec![], prefixes(&["0.0.0.0/0", "::/0"])]).unwrap();
        observer.set_key(1, frames::KEY).unwrap();
        observer.report_alive(clock::now() + Nanos::from_secs(3_600)).unwrap();
        observer
    };
    let (ethernet, bare) = (load(Framing::Ethernet), load(Framing::BareIp));
    let mut packets = 0;
    for vector in frames::vectors() {
        let Ok(Frame::Ip(headers)) = Frame::parse(&vector.frame) else { continue };
        let packet = &vector.frame[headers.network_offset.into()..];
        let (framed, alone) = (classify(&ethernet, &vector.frame), classify(&bare, packet));
        let (Some((answer, [class, _, framed @ ..])), Some((alone, words))) = (framed, alone)
        else {
            continue;
        };
        let [class_alone, _, note @ ..] = words;
        assert_eq!((answer, class), (alone, class_alone), "{}", vector.name);
        // The check word has the salt of the load.
        if let Some(fingerprint) = vector.fingerprint {
            assert_eq!(note[0], 1 << 16 | headers.ip_len(vector.frame.len()) as u32);
            assert_eq!((framed[0], framed[1]), (note[0], note[1]), "{}", vector.name);
            assert_eq!(note[1], fingerprint, "{}", vector.name);
            packets += 1;
        }
    }
    assert!(packets > 60, "{packets}");
}

#[test]
fn packets_are_in_the_class_that_they_would_be_in_without_the_kernel() {
    if !has_root() {
        return;
    }
    let mut observer = unattached(Framing::Ethernet).unwrap();
    observer.set_bundles(&[prefixes(&["0.0.0.0/1", "::/0"]), prefixes(&["128.0.0.0/2"])]).unwrap();
    observer.report_alive(clock::now() + Nanos::from_secs(3_600)).unwrap();
    (0..2).for_each(|bundle| observer.set_key(bundle, frames::KEY).unwrap());
    let mut runner = TestRunner::deterministic();
    let (mut classes, mut noted) = ([0; 4], 0);
    for _ in 0..60 {
        let rules =
            proptest::collection::vec(any_rule(), 3).new_tree(&mut runner).unwrap().current();
        observer.set_classes(0, &rules).unwrap();
        for _ in 0..60 {
            let frame = frames::any_frame().new_tree(&mut runner).unwrap().current();
            let Some((answer, [class, _, note @ ..])) = classify(&observer, &frame) else {
                continue;
            };
            let headers = match Frame::parse(&frame) {
                Ok(Frame::Ip(headers)) => Some(headers),
                _ => None,
            };
            let is_in = |h: &Headers, list: &[&str]| {
                prefixes(list).iter().any(|p| p.contains(&h.destination))
            };
            let expected = match headers {
                Some(h) if is_in(&h, &["0.0.0.0/1", "::/0"]) => {
                    let class = rules.iter().position(|r| fits(r, &h)).unwrap_or(3);
                    classes[class] += 1;
                    (0, class as u32)
                }
                // One class takes all; the bundle is said too.
                Some(h) if is_in(&h, &["128.0.0.0/2"]) => (0, 1 << 8),
                // TC_ACT_UNSPEC: not ours to say.
                _ => (-1, 0),
            };
            assert_eq!((answer, class), expected, "{rules:?}: {frame:02x?}");
            // What is noted of it is what would be found on the wire.
            let found = headers.filter(|_| answer == 0).and_then(|h| {
                let bundle = u32::from(is_in(&h, &["128.0.0.0/2"]));
                let bytes = h.ip_len(frame.len());
                Some([
                    bundle << 16 | bytes as u32,
                    forebay_wire::fingerprint(&frame, &h, &frames::KEY)?,
                ])
            });
            // Of what is in a bundle and has no fingerprint there is only a number.
            let is_there = note[2] != 0 && note[0] != 0xffff_0000;
            assert_eq!(is_there.then_some([note[0], note[1]]), found, "{frame:02x?}");
            assert_eq!(note[2] != 0, answer == 0, "{frame:02x?}");
            noted += u32::from(found.is_some());
        }
    }
    assert!(classes.iter().all(|n| *n > 50), "each class is met: {classes:?}");
    assert!(noted > 500, "{noted} packets with a note");
    observer.set_classes(0, &[]).unwrap();
    assert!(observer.classes.is_empty(), "nothing is left");
    let many = vec![ClassRule::default(); MAX_CLASSES];
    let error = observer.set_classes(0, &many).unwrap_err().to_string();
    assert_eq!(error, "9 classes of a bundle, but there is room for 8");

    let good = [ClassRule { ports: vec![80], ..ClassRule::default() }];
    observer.set_classes(1, &good).unwrap();
    let all =
        (0..=MAX_PREFIXES as u32).map(|n| IpNet::from(std::net::IpAddr::from(n.to_be_bytes())));
    let large = [ClassRule { prefixes: all.collect(), ..ClassRule::default() }];
    assert!(
        observer.set_classes(1, &large).unwrap_err().to_string().contains("prefixes of classes")
    );
    let map = bpf::map(&observer.bundles.object, "class_ports").unwrap();
    let there = map.lookup(&port_key(1_u32.to_ne_bytes(), 80), libbpf_rs::MapFlags::ANY).unwrap();
    assert!(
        there.is_some() && observer.classes.contains_key(&1),
        "what is refused changes nothing"
    );
}
