//! Real ports in real namespaces: what goes in comes out, byte for byte, whatever it is. Both ways
//! of moving frames pass the same tests.

use forebay_dataplane::Method;
use forebay_test_support::has_root;

use crate::pair::Pair;

const BOTH: [Method; 2] = [Method::Xdp, Method::Packet];
const TO: [u8; 6] = [2, 0, 0, 0, 0, 0x22];
const FROM: [u8; 6] = [2, 0, 0, 0, 0, 0x11];

fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut f = [TO, FROM].concat();
    f.extend(ethertype.to_be_bytes());
    f.extend(payload);
    f.resize(f.len().max(60), 0);
    f
}

/// One of everything that a wire carries.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let mut ipv4 = vec![0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ipv4.extend([0x10, 0, 0x20, 0, 0, 20, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let mut ipv6 = vec![0x60, 0, 0, 0, 0, 12, 17, 64];
    ipv6.extend([0xfd; 32]);
    ipv6.extend([0x10, 0, 0x20, 0, 0, 12, 0, 0, 1, 2, 3, 4]);
    let arp =
        [&[0, 1, 8, 0, 6, 4, 0, 1][..], &FROM, &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat();
    let broadcast = |mut f: Vec<u8>| {
        f[..6].fill(0xff);
        f
    };
    let vlan = [&[0x60, 0x07, 0x08, 0x00][..], &ipv4].concat();
    let qinq = [&[0x00, 0x05, 0x81, 0x00][..], &vlan].concat();
    vec![
        ("IPv4", frame(0x0800, &ipv4)),
        ("IPv6", frame(0x86dd, &ipv6)),
        ("ARP", broadcast(frame(0x0806, &arp))),
        ("VLAN", frame(0x8100, &vlan)),
        ("two VLAN tags", frame(0x88a8, &qinq)),
        ("unknown", frame(0x88b5, &[0xa5; 300])),
        ("cut short", frame(0x0800, &ipv4[..9])),
        ("full size", frame(0x88b5, &[0x5a; 1500])),
        ("multicast", {
            let mut f = frame(0x88b5, b"to many");
            f[0] = 3;
            f
        }),
    ]
}

#[test]
fn everything_is_forwarded_untouched_both_ways() {
    if !has_root() {
        return;
    }
    for method in BOTH {
        let pair = Pair::new(method);
        for (what, frame) in frames() {
            pair.left.send(&frame);
            assert_eq!(pair.right.receive_from(FROM, &frame), frame, "{what}, {method:?}");
            pair.right.send(&frame);
            assert_eq!(pair.left.receive_from(FROM, &frame), frame, "{what} back, {method:?}");
        }
    }
}

/// The lengths around which a frame gets another chunk of the kernel, and the longest.
#[test]
fn jumbo_frames_pass_both_ways_and_by_the_programs_alone() {
    if !has_root() {
        return;
    }
    /// Frames that are sent before they are received: they fit into every buffer on the way.
    const STEP: u32 = 30;
    let frames: Vec<Vec<u8>> = [60, 3_840, 3_841, 4_096, 7_680, 7_681, 9_014]
        .into_iter()
        .map(|len| frame(0x88b5, &(14..len).map(|i| ((i * 7) >> 3) as u8).collect::<Vec<_>>()))
        .collect();
    for method in BOTH {
        let mut pair = Pair::over(method, 9_000, 1);
        for is_dead in [false, true, false] {
            for frame in &frames {
                let what = format!("{} bytes, {method:?}, dead: {is_dead}", frame.len());
                pair.left.send(frame);
                assert!(pair.right.receive_from(FROM, frame) == *frame, "{what}");
                pair.right.send(frame);
                assert!(pair.left.receive_from(FROM, frame) == *frame, "{what}, back");
            }
            if is_dead {
                pair = pair.restart(method);
            } else {
                assert_passes_a_burst(&pair, 5);
                // More than there are chunks, so that each must come back.
                for _ in 0..18_000 / STEP {
                    (0..STEP).for_each(|_| pair.left.send(&frames[6]));
                    for _ in 0..STEP {
                        let received = pair.right.receive_from(FROM, &frames[6]);
                        assert_eq!(received.len(), frames[6].len());
                    }
                }
                pair = pair.die();
                pair.wait_until_frames_pass();
            }
        }
    }
}

/// TCP segments of 9000 bytes pass both ways, in every way in which a port moves frames, and by the
/// programs alone when the process is dead.
#[test]
fn tcp_over_jumbo_frames_passes() {
    if !has_root() {
        return;
    }
    const LEN: usize = 2_000_000;
    for method in [Method::Auto, Method::Xdp, Method::Packet] {
        let mut pair = Pair::over(method, 9_000, 1);
        pair.give_addresses();
        for is_dead in [false, true] {
            for (from, version) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let before = pair.sent(from);
                pair.transfer(from, version, LEN);
                let packets = (pair.sent(from) - before) as usize;
                // Fewer than frames of 1500 bytes would be, whatever is sent twice.
                assert!(packets < LEN / 1_500, "{packets} packets, {method:?}, dead: {is_dead}");
            }
            if !is_dead {
                pair = pair.die();
                pair.wait_until_frames_pass();
            }
        }
    }
}

/// All queues of both ports have chunks, and each flow passes by whichever queue.
#[test]
fn ports_with_many_queues_pass_frames() {
    if !has_root() {
        return;
    }
    for method in BOTH {
        let pair = Pair::over(method, 1_500, 32);
        for (what, frame) in frames() {
            pair.right.send(&frame);
            assert_eq!(pair.left.receive_from(FROM, &frame), frame, "{what} back, {method:?}");
        }
        assert_passes_a_burst(&pair, 5);
        let stats = pair.stop();
        assert!(stats.iter().all(|s| s.receive_lost + s.send_lost == 0), "{method:?}: {stats:?}");
    }
}

/// Sends frames in steps that fit into a veth's ring of 256 packets. Each arrives once, in order.
fn assert_passes_a_burst(pair: &Pair, steps: u32) {
    let numbered = |i: u32| frame(0x88b6, &[&i.to_be_bytes()[..], &[0; 900]].concat());
    for step in 0..steps {
        for i in 0..100 {
            pair.left.send(&numbered(step * 100 + i));
        }
        for i in 0..100 {
            let expected = numbered(step * 100 + i);
            let got = pair.right.receive_from(FROM, &expected);
            assert_eq!(got, expected, "packet {i} of step {step}");
        }
    }
}

#[test]
fn a_burst_keeps_its_order_and_loses_nothing() {
    if !has_root() {
        return;
    }
    for method in BOTH {
        let pair = Pair::new(method);
        assert_passes_a_burst(&pair, 20);
        let stats = pair.stop();
        assert_eq!(stats[0].received, stats[1].sent, "{method:?}: {stats:?}");
        assert!(stats.iter().all(|s| s.receive_lost + s.send_lost == 0), "{method:?}: {stats:?}");
    }
}

#[test]
fn a_box_that_died_is_a_wire_and_its_successor_takes_over() {
    if !has_root() {
        return;
    }
    let pair = Pair::new(Method::Xdp);
    let frame = frame(0x88b5, b"still here");
    let pair = pair.die();
    pair.left.send(&frame);
    assert_eq!(pair.right.receive_from(FROM, &frame), frame, "by the program alone");
    let pair = pair.restart(Method::Xdp);
    pair.left.send(&frame);
    assert_eq!(pair.right.receive_from(FROM, &frame), frame, "by the new process");
    // One that moves frames in another way takes over too: frames do not go past it.
    let pair = pair.die().restart(Method::Packet);
    assert!(!pair.link().contains("xdp"), "nothing is left: {}", pair.link());
    pair.left.send(&frame);
    assert_eq!(pair.right.receive_from(FROM, &frame), frame, "by the third process");
    assert_eq!(pair.stop()[0].received, 1, "it saw the frame");
}

#[test]
fn a_box_over_af_packet_that_died_is_a_wire_too() {
    if !has_root() {
        return;
    }
    let mut pair = Pair::new(Method::Packet);
    for method in [Method::Packet, Method::Xdp] {
        pair = pair.die();
        pair.wait_until_frames_pass();
        assert_passes_a_burst(&pair, 5);
        for (what, frame) in frames() {
            pair.right.send(&frame);
            assert_eq!(pair.left.receive_from(FROM, &frame), frame, "{what}");
        }
        pair = pair.restart(method);
        assert_passes_a_burst(&pair, 1);
    }
    assert!(pair.has_program());
    assert!(pair.stop()[0].received >= 100, "it saw the frames");
}

/// A process that wakes up does not send frames again that passed it by.
#[test]
fn a_box_that_hangs_is_passed_by() {
    if !has_root() {
        return;
    }
    for method in BOTH {
        let pair = Pair::new(method);
        for _ in 0..2 {
            assert_passes_a_burst(&pair, 1);
            pair.hang();
            pair.wait_until_frames_pass();
            assert_passes_a_burst(&pair, 2);
            pair.go_on();
        }
        assert_passes_a_burst(&pair, 1);
        pair.stop();
    }
}

/// A panic and an error drop the ports, as an orderly end does.
#[test]
fn a_box_that_dropped_its_ports_is_a_wire() {
    if !has_root() {
        return;
    }
    for method in BOTH {
        let mut pair = Pair::new(method);
        for _ in 0..2 {
            pair = pair.end_in_order();
            assert_passes_a_burst(&pair, 1);
            pair = pair.restart(method);
        }
    }
}

#[test]
fn a_receivebox_shares_an_interface_with_af_packet_alone() {
    if !has_root() {
        return;
    }
    let pair = Pair::new(Method::Packet).die();
    let [packet, xdp] = pair.open_beside_a_receivebox([Method::Packet, Method::Xdp]);
    packet.expect("the receivebox lets all frames pass");
    let taken = xdp.expect_err("an interface has one XDP program");
    assert!(taken.to_string().contains("in use by another running forebay"), "{taken}");
}

#[test]
fn an_interface_has_one_box_and_is_clean_after_its_removal() {
    if !has_root() {
        return;
    }
    for method in BOTH {
        let pair = Pair::new(method);
        for second in BOTH {
            let error = pair.open_second(second).expect_err("the interface is taken");
            let said = error.to_string();
            assert!(said.contains("in use by another running forebay"), "{second:?}: {said}");
        }
        assert!(pair.has_program());
        let pair = pair.end_in_order().restart(method).end_in_order();
        assert!(pair.has_program(), "it stays");
        assert_eq!(pair.remove_programs(), [true, true]);
        assert!(!pair.has_program(), "nothing stays attached");
        assert_eq!(pair.remove_programs(), [false, false]);

        // What the administrator has set stays.
        pair.make_promiscuous();
        let pair = pair.restart(method).end_in_order();
        assert_eq!(pair.remove_programs(), [true, true]);
        assert!(pair.link().contains("PROMISC"));
    }
}
