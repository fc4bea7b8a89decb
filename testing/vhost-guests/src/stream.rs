//! Many backlogged TCP flows in one thread, with the round-trip times of their data.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use forebay_guest::sockopt;
use forebay_guest::stamps::{self, Stamps};
use serde_json::{Value, json};

use crate::backend::SINK;
use crate::{guest, percentiles, sink};

/// Bytes passed to the kernel at a time; the round trip of each such piece is measured.
const PIECE: usize = 16 << 10;
/// Maximum number of unsent bytes of a flow before it gets more.
const UNSENT: i32 = PIECE as i32;

pub(crate) fn run(flows: usize, warm_up: Duration, length: Duration) -> Value {
    let flows: Vec<_> = (0..flows).map(|_| connect()).collect();
    let mut stamps: Vec<_> = flows.iter().map(|_| Stamps::default()).collect();
    let events = libc::POLLOUT;
    let mut polled: Vec<_> = flows
        .iter()
        .map(|flow| libc::pollfd { fd: flow.as_raw_fd(), events, revents: 0 })
        .collect();
    let piece = vec![7; PIECE];
    let begun = Instant::now();
    let mut measured_from = None;
    let mut dropped = 0;
    let mut end = None;
    while begun.elapsed() < warm_up + length {
        if measured_from.is_none() && begun.elapsed() >= warm_up {
            measured_from = Some(retransmissions(&flows));
            dropped = guest::queue_drops(guest::CARD).unwrap();
            stamps.iter_mut().for_each(Stamps::begin);
        }
        // SAFETY: the array is valid for its length.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 100) };
        for (one, stamps) in polled.iter().zip(&mut stamps) {
            if one.revents & libc::POLLERR != 0 {
                stamps.collect(one.fd);
            }
            if one.revents & libc::POLLOUT != 0 {
                stamps.send(one.fd, &piece);
            }
        }
        end = Some(begun.elapsed());
    }
    let measured = end.unwrap_or_default().saturating_sub(warm_up);
    let before = measured_from.unwrap_or_default();
    // Unacknowledged pieces have waited at least until now.
    stamps.iter_mut().for_each(Stamps::finish);
    let samples = stamps.into_iter().flat_map(|s| s.round_trips).collect();
    json!({
        "seconds": measured.as_secs_f64(),
        "retransmissions": retransmissions(&flows) - before,
        "local_drops": guest::queue_drops(guest::CARD).unwrap() - dropped,
        "rtt_ms": percentiles::of(samples),
    })
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect((SINK, sink::DISCARD)).unwrap();
    stream.set_nonblocking(true).unwrap();
    sockopt::set(&stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT).unwrap();
    sockopt::set(&stream, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps::FLAGS).unwrap();
    stream
}

/// Number of segments that all flows have retransmitted since their start.
fn retransmissions(flows: &[TcpStream]) -> u64 {
    let of = |flow: &TcpStream| {
        // SAFETY: all-zero is a valid `tcp_info`, and the call writes at most its size.
        unsafe {
            let mut info: libc::tcp_info = std::mem::zeroed();
            let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
            libc::getsockopt(
                flow.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &mut len,
            );
            u64::from(info.tcpi_total_retrans)
        }
    };
    flows.iter().map(of).sum()
}
