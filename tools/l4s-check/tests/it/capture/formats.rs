//! Captures of other links, cut, damaged, merged, repeated and out of order.

use forebay_l4s_check::Verdict;
use forebay_l4s_check::tcp::{
    Analysis, Feedback, Flags, MAX_CONNECTIONS, Place, Segment, TcpReport,
};
use forebay_queue::Ecn;
use forebay_units::Nanos;
use proptest::prelude::*;

use crate::capture::frame::{self, ACK, SYN, Tcp};
use crate::capture::world::{Captures, analysis, analysis_of};
use crate::capture::{data, dual, path};

/// Writes the packet of a segment.
type Write = fn(&Tcp) -> Vec<u8>;

fn captures() -> Captures {
    path(dual(40)).run()
}

fn report(packets: &[(u64, Tcp)]) -> TcpReport {
    analysis(packets, None).report()
}

#[test]
fn links_and_versions_make_no_difference() {
    let captures = captures();
    let expected = data(&report(&captures.receiver)).segments;
    let ethernet = [&[2; 12][..], &[0x81, 0, 0, 7]].concat();
    let in_ipv4 = [&ethernet[..], &[8, 0]].concat();
    let in_ipv6 = [&ethernet[..], &[0x86, 0xdd]].concat();
    let cases: [(u32, &[u8], Write); 7] = [
        (101, &[], frame::ipv6),
        (228, &[], frame::ipv4),
        (1, &in_ipv4, frame::ipv4),
        (1, &in_ipv6, frame::ipv6),
        (113, &[0; 16], frame::ipv4),
        (276, &[0; 20], frame::ipv4),
        (276, &[0; 20], frame::ipv6),
    ];
    for (link, before, write) in cases {
        let packets: Vec<_> = captures.receiver.iter().map(|(at, tcp)| (*at, write(tcp))).collect();
        let report = analysis_of(&frame::pcap(link, before, &packets), None).report();
        assert_eq!(report.verdict, Verdict::Works, "{link}\n{report}");
        assert_eq!(data(&report).segments, expected, "{link}");
    }
}

#[test]
fn packets_captured_twice_count_once() {
    let captures = captures();
    for packets in [&captures.sender, &captures.receiver] {
        let twice: Vec<_> =
            packets.iter().flat_map(|(at, tcp)| [(*at, *tcp), (at + 10_000, *tcp)]).collect();
        let (one, two) = (report(packets), report(&twice));
        let (one, two) = (data(&one), data(&two));
        assert_eq!((one.segments, one.retransmitted), (two.segments, two.retransmitted));
        assert_eq!((two.twice, two.verdict), (two.segments.all(), Some(Verdict::Works)));
        assert_eq!(one.echo.marks, two.echo.marks);
    }
}

#[test]
fn overtaken_packets_are_no_fault() {
    let captures = captures();
    for packets in [&captures.sender, &captures.receiver] {
        let mut swapped = packets.clone();
        for pair in swapped.chunks_exact_mut(2).step_by(3) {
            if pair.iter().all(|p| p.1.payload > 0) && pair[1].0 - pair[0].0 < 1_000_000 {
                let (a, b) = (pair[0].1, pair[1].1);
                (pair[0].1, pair[1].1) = (b, a);
            }
        }
        let report = report(&swapped);
        assert_eq!(report.verdict, Verdict::Works, "{report}");
        assert!(data(&report).retransmitted < 10, "{report}");
    }
    // Several receive queues may have the handshake in another order.
    let mut receiver = captures.receiver;
    (receiver[0].1, receiver[1].1) = (receiver[1].1, receiver[0].1);
    let report = report(&receiver);
    assert_eq!(report.connections[0].handshake.syn.as_deref(), Some("111"));
    assert_eq!((report.verdict, report.connections.len()), (Verdict::Works, 1), "{report}");
}

#[test]
fn a_capture_may_begin_in_the_middle() {
    let captures = captures();
    for packets in [&captures.sender, &captures.middle, &captures.receiver] {
        let report = report(&packets[1_001..]);
        let [connection] = &report.connections[..] else { panic!("one") };
        assert_eq!(connection.feedback, Feedback::Accurate);
        assert_eq!(connection.handshake.syn, None);
        assert_eq!(report.verdict, Verdict::Works, "{report}");
    }
    let sender = analysis(&captures.sender[2_001..], Some(Place::Sender));
    let both = sender.report_of_both(&analysis(&captures.receiver[1_501..], None));
    assert_eq!(both.verdict, Verdict::Works, "{both}");
}

/// Segmentation offload: up to eight segments are one packet at the sender, and its time is that of
/// the first.
#[test]
fn packets_before_segmentation_count_as_segments() {
    let packets = captures().sender;
    let mut merged: Vec<(u64, Tcp)> = Vec::new();
    let mut open: Option<usize> = None;
    for (at, tcp) in &packets {
        if tcp.payload == 0 {
            merged.push((*at, *tcp));
            continue;
        }
        let into = open.map(|n| &mut merged[n].1).filter(|m| {
            m.seq.wrapping_add(m.payload) == tcp.seq
                && m.payload < 8 * tcp.payload
                && m.ecn == tcp.ecn
        });
        match into {
            Some(into) => into.payload += tcp.payload,
            None => {
                open = Some(merged.len());
                merged.push((*at, *tcp));
            }
        }
    }
    let data_packets = |packets: &[(u64, Tcp)]| packets.iter().filter(|p| p.1.payload > 0).count();
    assert!(data_packets(&merged) * 5 < data_packets(&packets));
    let (one, two) = (report(&packets), report(&merged));
    assert_eq!(data(&one).segments, data(&two).segments);
    assert_eq!(two.verdict, Verdict::Works, "{two}");
}

#[test]
fn headers_that_were_cut_leave_unknown_what_they_had() {
    let captures = captures();
    let cut = |most: usize| {
        let cut = |(at, tcp): &(u64, Tcp)| {
            let mut packet = frame::ipv4(tcp);
            packet.truncate(most);
            (*at, packet)
        };
        let packets: Vec<_> = captures.receiver.iter().map(cut).collect();
        analysis_of(&frame::pcap(101, &[], &packets), None).report()
    };
    assert_eq!(cut(82).verdict, Verdict::Works);
    let bare = cut(40);
    assert_eq!(bare.verdict, Verdict::Unknown, "{bare}");
    assert_eq!(data(&bare).segments, data(&cut(128)).segments);
    let none = cut(33);
    assert_eq!((none.segments, none.connections.len()), (0, 0));
    assert_eq!(none.verdict, Verdict::Unknown);
}

fn segment(port: u16, seq: u32, flags: u16, payload: u32) -> Segment {
    Segment {
        at: Nanos(u64::from(seq)),
        from: ([192, 0, 2, 1], port).into(),
        to: ([192, 0, 2, 2], 443).into(),
        ecn: Ecn::Ect1,
        id: 0,
        seq,
        ack: 0,
        flags: Flags(flags),
        payload,
        mss: None,
        timestamps: None,
        counters: None,
        has_sack: false,
    }
}

#[test]
fn bounds_are_kept_and_told() {
    let mut analysis = Analysis::new(None);
    for port in 0..MAX_CONNECTIONS as u16 + 7 {
        analysis.push_segment(&segment(port, 0, SYN, 0));
        analysis.push_segment(&segment(port, 1, ACK, 0));
    }
    let report = analysis.report();
    assert_eq!((report.connections.len(), report.not_followed), (MAX_CONNECTIONS, 14));
    assert!(report.to_string().contains("14 segments of further connections"), "{report}");
    let mut analysis = Analysis::new(None);
    for n in 0..5_000 {
        analysis.push_segment(&segment(1, 1 + n * 100, 0, 100));
    }
    assert_eq!(data(&analysis.report()).forgotten, 5_000 - 4_096);
}

proptest! {
    /// Segments of one connection with any field.
    #[test]
    fn any_segments_are_judged(
        segments in prop::collection::vec(
            (any::<[u32; 6]>(), 0_u16..512, 0_u32..70_000, any::<bool>(), 0_usize..4), 0..200,
        )
    ) {
        let mut analyses = [None, Some(Place::Sender)].map(Analysis::new);
        for (words, flags, payload, back, ecn) in segments {
            let mut tcp = segment(9, words[0], flags, payload);
            if back {
                std::mem::swap(&mut tcp.from, &mut tcp.to);
            }
            tcp.ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][ecn];
            tcp.at = Nanos(u64::from(words[1]) << (words[2] % 33));
            tcp.ack = words[3];
            tcp.timestamps = (words[2] % 3 > 0).then_some(forebay_l4s_check::tcp::Timestamps {
                value: words[4],
                echo: words[5],
            });
            for analysis in &mut analyses {
                analysis.push_segment(&tcp);
            }
        }
        let [a, b] = analyses;
        prop_assert!(!a.report().to_string().is_empty());
        prop_assert!(!a.report_of_both(&b).to_string().is_empty());
    }
}
