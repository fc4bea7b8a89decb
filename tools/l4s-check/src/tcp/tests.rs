//! What makes two segments of a capture one, and packets that are no segments.

use forebay_capture::{IpPacket, LeftOut};
use forebay_queue::Ecn;
use forebay_units::Nanos;
use forebay_wire::Headers;

use super::*;
use crate::Verdict;

/// The flags of a segment without ECN, and those of ECN.
const SYN: u16 = 1 << 1;
const ACK: u16 = 1 << 4;
const ECE: u16 = 1 << 6;
const AE_CWR_ECE: u16 = 0b111 << 6;

/// The flags AE, CWR and ECE with this number.
fn ace(number: u16) -> u16 {
    (number & 0b111) << 6 | ACK
}

/// A segment of the client, or of the server, at so many microseconds.
fn segment(at: u64, is_client: bool, flags: u16, (seq, ack, payload): (u32, u32, u32)) -> Segment {
    let ends = [([192, 0, 2, 1], 40_000).into(), ([192, 0, 2, 2], 443).into()];
    Segment {
        at: Nanos::from_micros(at),
        from: ends[usize::from(!is_client)],
        to: ends[usize::from(is_client)],
        ecn: if payload > 0 { Ecn::Ect1 } else { Ecn::NotEct },
        id: 0,
        seq,
        ack,
        flags: Flags(flags),
        payload,
        mss: None,
        timestamps: None,
        counters: None,
        has_sack: false,
    }
}

/// A handshake with AccECN, whose SYN/ACK arrives as Not-ECT. The client's answer comes `times`,
/// and its server then sends segments of 100 bytes that are acknowledged with these ACE fields.
fn analysis(answers: &[Segment], counters: &[u16]) -> Analysis {
    let mut analysis = Analysis::new(None);
    analysis.push_segment(&segment(0, true, SYN | AE_CWR_ECE, (99, 0, 0)));
    analysis.push_segment(&segment(1, false, SYN | ace(0b010), (499, 100, 0)));
    answers.iter().for_each(|answer| analysis.push_segment(answer));
    for (counter, n) in counters.iter().zip(0..) {
        let at = 10_000 + 1000 * u64::from(n);
        let seq = 500 + 100 * n;
        analysis.push_segment(&segment(at, false, ace(5), (seq, 100, 100)));
        analysis.push_segment(&segment(at + 500, true, ace(*counter), (100, seq + 100, 0)));
    }
    analysis
}

fn answer(at: u64, number: u16) -> Segment {
    segment(at, true, ace(number), (100, 500, 0))
}

/// The marks that the client echoes to the server.
fn marks(analysis: &Analysis) -> u64 {
    let report = analysis.report();
    let direction = report.connections[0].directions.iter().find(|d| d.from.port() == 443);
    direction.and_then(|d| d.echo.marks).map_or(0, |marks| marks.most)
}

#[test]
fn the_answer_to_the_syn_ack_counts_no_marks_however_often_it_comes() {
    // One mark: 5, then 6.
    let counters = [5, 6, 6];
    let third = answer(2, 0b010);
    assert_eq!(marks(&analysis(&[third], &counters)), 1);
    // Captured twice, and sent again for a SYN/ACK that came again.
    assert_eq!(marks(&analysis(&[third, answer(3, 0b010)], &counters)), 1);
    let again = [third, answer(1_000_000, 0b010), answer(3_000_000, 0b010)];
    assert_eq!(marks(&analysis(&again, &counters)), 1);
    // An acknowledgement with the counter, of data that came out of order.
    assert_eq!(marks(&analysis(&[third, answer(9_000, 6)], &[6, 6])), 1);
}

#[test]
fn only_a_pure_acknowledgement_answers_the_syn_ack() {
    // The answer was not captured: the ACE field of the data that follows is the counter.
    let data = segment(5, true, ace(5), (100, 500, 10));
    let seen = analysis(&[data], &[5, 6]);
    assert_eq!(
        (marks(&seen), seen.report().connections[0].handshake.syn_ack_ecn_arrived),
        (1, None)
    );
    // With SACK it is no answer either, and counts: 5 became 6.
    let sack = Segment { has_sack: true, ..answer(5, 6) };
    assert_eq!(marks(&analysis(&[sack], &[6, 6])), 1);
}

#[test]
fn what_is_captured_twice_counts_once() {
    let mut analysis = Analysis::new(None);
    // Classic ECN: the receiver echoes one mark, and the sender reduces its window.
    analysis.push_segment(&segment(0, true, SYN | ECE | 1 << 7, (99, 0, 0)));
    analysis.push_segment(&segment(1, false, SYN | ACK | ECE, (499, 100, 0)));
    for _ in 0..2 {
        analysis.push_segment(&segment(2, true, ACK, (100, 500, 0)));
    }
    for _ in 0..2 {
        analysis.push_segment(&segment(10, false, ACK, (500, 100, 100)));
    }
    for at in [500, 501] {
        analysis.push_segment(&segment(at, true, ACK | ECE, (100, 600, 0)));
    }
    for at in [900, 901] {
        analysis.push_segment(&segment(at, false, ACK | 1 << 7, (600, 100, 100)));
    }
    let connection = &analysis.connections[0];
    let half = &connection.halves[1];
    assert_eq!((half.ece.acks, half.cwr, half.twice), (1, 1, 2));
    // Two acknowledgements with the flag that differ in time are two.
    analysis.push_segment(&segment(5000, true, ACK | ECE, (100, 700, 0)));
    analysis.push_segment(&segment(9000, true, ACK | ECE, (100, 700, 0)));
    assert_eq!(analysis.connections[0].halves[1].ece.acks, 3);
}

/// The text of the finding of a capture of packets with this protocol and payload.
fn found(protocol: u8, payload: &[u8], left_out: LeftOut) -> String {
    let length = 20 + payload.len() as u8;
    let mut octets = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0];
    octets.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    octets.extend(payload);
    let headers = Headers::parse_ip(&octets).unwrap();
    let packet = IpPacket { at: Nanos(0), interface: 0, headers, octets: &octets };
    let mut analysis = Analysis::new(None);
    (0..3).for_each(|_| analysis.push(&packet));
    analysis.push_left_out(left_out);
    let report = analysis.report();
    assert_eq!(report.verdict, Verdict::Unknown);
    assert_eq!(report.others.iter().map(|other| other.packets).sum::<u64>(), report.packets);
    report.findings[0].text.clone()
}

#[test]
fn a_capture_without_tcp_says_what_it_has() {
    let none = LeftOut::default();
    let udp = |port: u16| [&[0xc0, 0][..], &port.to_be_bytes(), &[0, 8, 0, 0]].concat();
    let is = "no packet of the capture is a TCP segment: ";
    let tunnel = "a tunnel hides the segments; capture at its end, on the interface inside it";
    for (protocol, payload, expected) in [
        (17, udp(4789), format!("{is}3 UDP of port 4789 (VXLAN): {tunnel}")),
        (17, udp(51820), format!("{is}3 UDP of port 51820 (WireGuard): {tunnel}")),
        (50, vec![0; 8], format!("{is}3 IPsec (ESP): {tunnel}")),
        (17, udp(9999), format!("{is}3 UDP of port 9999")),
        (1, vec![8; 8], format!("{is}3 ICMP")),
        (200, vec![8; 8], format!("{is}3 IP protocol 200")),
    ] {
        assert_eq!(found(protocol, &payload, none), expected);
    }
    let quic = found(17, &udp(443), none);
    assert!(quic.contains("3 UDP of port 443 (QUIC): QUIC encrypts its feedback"), "{quic}");
    let left_out = LeftOut { fragments: 1, not_ip: 9, short: 4 };
    assert_eq!(
        found(17, &udp(53), left_out),
        format!(
            "{is}9 no IP packets, 4 cut in their headers: capture 128 octets of each packet, 3 UDP \
             of port 53 (DNS)"
        )
    );
    assert_eq!(Analysis::new(None).report().findings[0].text, "the capture has no packets");
}
