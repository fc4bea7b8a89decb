//! Measured backlogged flows.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::network::{self, Counters};
use super::poll::Poll;
use super::sink::{self, Sink};
use super::{Failure, mark};
use crate::sockopt;
use crate::stamps::{self, Stamps};
use crate::zd::order::{Findings, Percentiles};

/// The number of bytes that a program writes at once; times are measured per piece.
const PIECE: usize = 16 << 10;
/// The number of unsent bytes below which a flow's program writes more.
const UNSENT: i32 = PIECE as i32;
/// The interval at which TCP's own estimates are read.
const ROUND: Duration = Duration::from_secs(1);

/// Runs `flows` for `warm_up` and then for `length`, which is measured.
pub(super) fn run(
    sink: &Sink,
    flows: u32,
    pace: u64,
    warm_up: Duration,
    length: Duration,
) -> Result<Findings, Failure> {
    let streams = (0..flows).map(|_| connect(pace)).collect::<Result<Vec<_>, _>>()?;
    let mut stamps: Vec<_> = streams.iter().map(|_| Stamps::default()).collect();
    let mut poll = Poll::new()?;
    for (stream, number) in streams.iter().zip(0..) {
        poll.add(stream, libc::EPOLLOUT, number)?;
    }
    let piece = vec![7; PIECE];
    let mut smoothed = Vec::new();
    send_for(&mut poll, &streams, &mut stamps, &piece, warm_up);
    mark("begin");
    let before = Counters::now()?;
    stamps.iter_mut().for_each(Stamps::begin);
    sink.seen().begin();
    let begun = Instant::now();
    let (mut sent, mut rounds) = (0, 0);
    while begun.elapsed() < length {
        rounds += 1;
        let until = (ROUND * rounds).min(length);
        let left = until.saturating_sub(begun.elapsed());
        sent += send_for(&mut poll, &streams, &mut stamps, &piece, left);
        smoothed.extend(streams.iter().map(smoothed_rtt));
    }
    let seconds = begun.elapsed().as_secs_f64();
    let counted = Counters::now()?.since(before);
    let (bytes, shares, gaps) = {
        let seen = sink.seen();
        let shares = seen.flows.iter().map(|flow| flow.bytes).collect();
        (seen.bytes(), shares, seen.flows.iter().map(sink::Flow::gap).collect())
    };
    mark("end");
    stamps.iter_mut().for_each(Stamps::finish);
    let all = |of: fn(&mut Stamps) -> &mut Vec<u64>, stamps: &mut [Stamps]| {
        let all = stamps.iter_mut().flat_map(|s| std::mem::take(of(s))).collect();
        Percentiles::of(all, 1e6)
    };
    Ok(Findings {
        seconds,
        sent,
        arrived: bytes,
        round_trips: all(|s| &mut s.round_trips, &mut stamps),
        waits: all(|s| &mut s.waits, &mut stamps),
        smoothed: Percentiles::of(smoothed, 1e3),
        gaps: Percentiles::of(gaps, 1e6),
        shares: Percentiles::of(shares, 1.0),
        warnings: network::warnings(),
        early_timeouts: before.timeouts,
        held: counted.held + before.held,
        frame: counted.bytes as f64 / counted.frames.max(1) as f64,
        ..Findings::of(counted)
    })
}

impl Findings {
    pub(super) fn of(counted: Counters) -> Self {
        Self {
            dropped: counted.dropped,
            retransmissions: counted.retransmissions,
            timeouts: counted.timeouts,
            held: counted.held,
            paused: counted.paused,
            resumed: counted.resumed,
            ..Self::default()
        }
    }
}

/// Writes wherever there is room for the given time; returns the number of bytes.
fn send_for(
    poll: &mut Poll,
    streams: &[TcpStream],
    stamps: &mut [Stamps],
    piece: &[u8],
    length: Duration,
) -> u64 {
    let begun = Instant::now();
    let mut sent = 0;
    loop {
        let left = length.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return sent;
        }
        let patience = left.as_millis().clamp(1, 100) as i32;
        for (events, number) in poll.wait(patience) {
            let (fd, stamps) = (streams[number as usize].as_raw_fd(), &mut stamps[number as usize]);
            if events & libc::EPOLLERR != 0 {
                stamps.collect(fd);
            }
            if events & libc::EPOLLOUT != 0 {
                sent += stamps.send(fd, piece);
            }
        }
    }
}

fn connect(pace: u64) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((network::FAR, sink::FLOWS))?;
    stream.set_nonblocking(true)?;
    sockopt::set(&stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT)?;
    sockopt::set(&stream, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps::FLAGS)?;
    if pace > 0 {
        // The unit is bytes per second.
        sockopt::set(&stream, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, pace / 8)?;
    }
    Ok(stream)
}

/// TCP's smoothed round trip in microseconds.
fn smoothed_rtt(stream: &TcpStream) -> u64 {
    // SAFETY: all-zero is a valid `tcp_info`, and the call writes at most its size.
    unsafe {
        let mut info: libc::tcp_info = zeroed();
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut info).cast(), &mut len);
        u64::from(info.tcpi_rtt)
    }
}
