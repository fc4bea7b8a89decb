//! Bulk traffic over UDP that looks like QUIC to the network: an unconnected socket without
//! fragmentation, for which Linux sends IP ID 0, and a payload whose first bytes look encrypted.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_sim::udp::{BULK_PAYLOAD, REPORT_PAYLOAD, Sink, Window};
use forebay_system::clock;
use forebay_units::Nanos;

use super::cue::FILLER;
use super::cue::WindowCue;
use super::pair::{pack, unpack};
use super::spec::Spec;
use super::{flows, sockets, wait};
use forebay_guest::sockopt;

const DATAGRAM: usize = BULK_PAYLOAD as usize;
const REPORT: usize = REPORT_PAYLOAD as usize;

/// Sends to each of `sinks` as much as its window allows.
pub(super) fn source(sinks: &[SocketAddr], cue: WindowCue<'_>) -> io::Result<Nanos> {
    let sockets: Vec<_> =
        sinks.iter().map(|sink| unfragmented(*sink)).collect::<io::Result<_>>()?;
    flows::send(&sockets, sinks, cue()?, send)
}

/// Creates a socket for datagrams to `sink` without fragmentation.
pub(super) fn unfragmented(sink: SocketAddr) -> io::Result<UdpSocket> {
    let socket = sockets::udp(sockets::any_like(sink))?;
    let (level, name, value) = match sink {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
    };
    sockopt::set(&socket, level, name, value)?;
    Ok(socket.into())
}

/// Sends when reports arrive, so it cannot be late.
fn send(socket: &UdpSocket, sink: SocketAddr, stop: Nanos) -> io::Result<Nanos> {
    let mut window = Window::new(clock::now());
    let mut datagram = FILLER[..DATAGRAM].to_vec();
    let mut buf = [0; REPORT];
    loop {
        while let Some(sequence) = window.send() {
            datagram[..16].copy_from_slice(&encode(sequence));
            match socket.send_to(&datagram, sink) {
                Ok(_) => {}
                // A full device queue is a drop like any other.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(e) => return Err(e),
            }
        }
        let Some(left) = wait::left_until(window.deadline().min(stop)) else {
            let now = clock::now();
            if now >= stop {
                return Ok(Nanos::ZERO);
            }
            window.silence(now);
            continue;
        };
        socket.set_read_timeout(Some(left))?;
        match socket.recv_from(&mut buf) {
            Ok((REPORT, from)) if from == sink => {
                let (next, received) = unpack(buf);
                window.report(clock::now(), next, received);
            }
            Ok(_) => {}
            Err(e) if sockets::is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Receives at `listen`, one address per flow, until the run ends, and writes the amounts.
pub(super) fn sink(
    spec: &Spec,
    listen: &[SocketAddr],
    reports: bool,
    cue: WindowCue<'_>,
) -> io::Result<Nanos> {
    let sockets: Vec<_> = listen
        .iter()
        .map(|address| sockets::udp(*address).map(UdpSocket::from))
        .collect::<io::Result<_>>()?;
    let receive = |socket: &_, count: &_, end| receive(socket, count, reports, end);
    flows::receive(spec, &sockets, cue()?, receive)
}

fn receive(socket: &UdpSocket, count: &AtomicU64, reports: bool, end: Nanos) -> io::Result<()> {
    let mut buf = [0; 2_048];
    let mut sink = Sink::default();
    let mut sender = None;
    loop {
        let Some(left) = wait::left_until(sink.deadline().min(end)) else {
            if clock::now() >= end {
                return Ok(());
            }
            report(socket, &mut sink, sender);
            continue;
        };
        socket.set_read_timeout(Some(left))?;
        match socket.recv_from(&mut buf) {
            Ok((n, from)) => {
                count.fetch_add(n as u64, Ordering::Relaxed);
                if let (true, Some(header)) = (reports, buf[..n].first_chunk()) {
                    sender = Some(from);
                    if sink.on_datagram(clock::now(), decode(*header)) {
                        report(socket, &mut sink, sender);
                    }
                }
            }
            Err(e) if sockets::is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

fn report(socket: &UdpSocket, sink: &mut Sink, sender: Option<SocketAddr>) {
    let (next, received) = sink.report();
    if let Some(sender) = sender {
        // A lost report is replaced by the next one.
        let _ = socket.send_to(&pack(next, received), sender);
    }
}

/// Encodes a datagram's header: its number under a mask that differs between datagrams, so that the
/// first bytes look random, like QUIC's encrypted ones.
pub(super) fn encode(sequence: u64) -> [u8; 16] {
    // The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
    let mut z = sequence.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mask = z ^ (z >> 31);
    pack(mask, sequence ^ mask)
}

/// Decodes the number from a header of [`encode`].
pub(super) fn decode(header: [u8; 16]) -> u64 {
    let (mask, masked) = unpack(header);
    mask ^ masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_differ_at_their_first_byte_and_decode() {
        let headers: Vec<_> = (0..256).map(encode).collect();
        let first: std::collections::HashSet<_> = headers.iter().map(|h| h[0]).collect();
        assert!(first.len() > 120, "256 random bytes take about 162 values, not {}", first.len());
        assert!(headers.iter().zip(0..).all(|(header, n)| decode(*header) == n));
    }
}
