//! Reads and judges an arbitrary capture of TCP connections, alone and as both captures of a
//! transfer. The first byte chooses a whole file or bare IP packets, which each follow their
//! length and the time since the one before.
#![no_main]

use forebay_capture::{Capture, IpPacket};
use forebay_l4s_check::tcp::{Analysis, Place, TcpReport};
use forebay_units::Nanos;
use forebay_wire::Headers;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let mut analyses = [None, Some(Place::Sender), Some(Place::Receiver)].map(Analysis::new);
    let mut push = |packet: &IpPacket<'_>| {
        assert!(usize::from(packet.headers.transport_offset) <= packet.octets.len());
        analyses.iter_mut().for_each(|analysis| analysis.push(packet));
    };
    if kind % 2 == 0 {
        let Ok(mut capture) = Capture::new(rest) else { return };
        while let Ok(Some(packet)) = capture.next_ip() {
            let _ = capture.interface_name(packet.interface);
            push(&packet);
        }
    } else {
        let (mut left, mut at) = (rest, Nanos(0));
        while let Some(([length, later], more)) = left.split_first_chunk() {
            let (octets, more) = more.split_at(usize::from(*length).min(more.len()));
            at = at.saturating_add(Nanos::from_micros(1 << (later % 40)));
            if let Ok(headers) = Headers::parse_ip(octets) {
                push(&IpPacket { at, interface: 0, headers, octets });
            }
            left = more;
        }
    }
    let [one, sender, receiver] = &analyses;
    for report in [one.report(), sender.report(), sender.report_of_both(receiver)] {
        check(&report);
    }
});

fn check(report: &TcpReport) {
    assert!(!report.to_string().is_empty());
    assert!(serde_json::to_string(report).is_ok());
    for direction in report.connections.iter().flat_map(|c| &c.directions) {
        assert!((0.0..=1.0).contains(&direction.ce_share));
        if let Some(marks) = direction.echo.marks {
            assert!(marks.least <= marks.most);
        }
    }
}
