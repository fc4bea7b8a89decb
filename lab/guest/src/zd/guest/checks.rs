//! Work with a required result: everything arrives, and no socket is left behind.

use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use super::Failure;
use super::command::run;
use super::network::{self, Counters, DEVICE, FAR};
use super::sink::{self, Sink};
use crate::sockopt;
use crate::zd::order::{Findings, Queue};

/// The length of a datagram in bytes.
const DATAGRAM: usize = 1_000;
/// The time in which a condition must come true, by the guest's clock.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(300);
/// The interval at which a condition is checked.
const ROUND: Duration = Duration::from_millis(100);
/// The time for which flows fill the queue before the disturbance.
const FILLED: Duration = Duration::from_millis(500);

/// Waits until a condition is true; an error after [`CONDITION_TIMEOUT`].
fn until(what: &str, mut so: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let begun = Instant::now();
    while !so()? {
        if begun.elapsed() > CONDITION_TIMEOUT {
            return Err(format!("{what}: not so after {CONDITION_TIMEOUT:?}").into());
        }
        thread::sleep(ROUND);
    }
    Ok(())
}

/// Runs flows that send a number of bytes each from blocking threads, and calls `meanwhile` in
/// between.
pub(super) fn transfer(
    sink: &Sink,
    flows: u32,
    bytes: u64,
    meanwhile: impl FnOnce() -> Result<(), Failure>,
) -> Result<Findings, Failure> {
    let before = Counters::now()?;
    let begun = Instant::now();
    let streams = (0..flows)
        .map(|_| TcpStream::connect((FAR, sink::FLOWS)))
        .collect::<Result<Vec<_>, _>>()?;
    let senders: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            thread::Builder::new().stack_size(64 << 10).spawn(move || -> io::Result<()> {
                let piece = [7; 8 << 10];
                let mut left = bytes;
                while left > 0 {
                    let now = left.min(piece.len() as u64) as usize;
                    stream.write_all(&piece[..now])?;
                    left -= now as u64;
                }
                Ok(())
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    thread::sleep(FILLED);
    meanwhile()?;
    for sender in senders {
        sender.join().map_err(|_| "a sender panicked")??;
    }
    until("all flows have ended", || {
        let seen = sink.seen();
        Ok(seen.flows.len() == flows as usize && seen.flows.iter().all(|flow| flow.ended))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let arrived = sink.seen().bytes();
    let findings = left_over(Some(sink), before)?;
    Ok(Findings { seconds, sent: u64::from(flows) * bytes, arrived, ..findings })
}

/// Takes the device down for a while.
pub(super) fn down() -> Result<(), Failure> {
    run(&format!("ip link set {DEVICE} down"))?;
    thread::sleep(FILLED);
    run(&format!("ip link set {DEVICE} up"))?;
    Ok(())
}

/// Deletes the queue and adds it again.
pub(super) fn replace(queue: Queue) -> Result<(), Failure> {
    run(&format!("tc qdisc del dev {DEVICE} root"))?;
    thread::sleep(Duration::from_millis(20));
    network::add_queue(queue)
}

/// Sends datagrams as fast as they are accepted.
pub(super) fn datagrams(
    sink: &Sink,
    sockets: u32,
    each: u32,
    polled: bool,
) -> Result<Findings, Failure> {
    let before = Counters::now()?;
    let begun = Instant::now();
    // The neighbour is resolved first, since packets that wait for its address have their own
    // queue.
    let first = UdpSocket::bind("0.0.0.0:0")?;
    first.send_to(&[0], (FAR, sink::DATAGRAMS))?;
    until("the first has come", || Ok(sink.seen().datagrams > 0))?;
    let senders: Vec<_> = (0..sockets)
        .map(|_| thread::spawn(move || flood(each, polled).map_err(|e| e.to_string())))
        .collect();
    let mut refused = 0;
    for sender in senders {
        refused += sender.join().map_err(|_| "a sender panicked")??;
    }
    let mut last = 0;
    until("nothing more comes", || {
        thread::sleep(Duration::from_secs(1));
        let now = sink.seen().datagrams;
        Ok(std::mem::replace(&mut last, now) == now)
    })?;
    let sent = u64::from(sockets) * u64::from(each) * DATAGRAM as u64;
    let arrived = (sink.seen().datagrams - 1) * DATAGRAM as u64;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Findings { seconds, sent, arrived, refused, ..left_over(Some(sink), before)? })
}

/// Sends a number of datagrams from one socket; returns how often the queue refused one.
fn flood(each: u32, polled: bool) -> Result<u64, Failure> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect((FAR, sink::DATAGRAMS))?;
    socket.set_nonblocking(polled)?;
    // More than the queue holds. Otherwise the socket's own buffer would block it.
    sockopt::set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64_i32 << 20)?;
    let datagram = [7; DATAGRAM];
    let (mut done, mut refused) = (0, 0);
    while done < each {
        match socket.send(&datagram) {
            Ok(_) => done += 1,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                refused += 1;
                let mut one =
                    libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                // A minute, so that one that is never told is found out.
                // SAFETY: valid for one element.
                if unsafe { libc::poll(&mut one, 1, 60_000) } != 1 {
                    return Err("a socket that was refused was never told to go on".into());
                }
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(refused)
}

/// Closes flows while they are paused.
pub(super) fn close(sink: &Sink, flows: u32) -> Result<Findings, Failure> {
    let before = Counters::now()?;
    let streams = (0..flows)
        .map(|_| TcpStream::connect((FAR, sink::FLOWS)))
        .collect::<Result<Vec<_>, _>>()?;
    let piece = vec![7; 64 << 10];
    for stream in &streams {
        stream.set_nonblocking(true)?;
        let _ = (&*stream).write(&piece);
    }
    thread::sleep(FILLED / 5);
    let paused = Counters::now()?.since(before).paused;
    for (stream, i) in streams.into_iter().zip(0..) {
        let reset = libc::linger { l_onoff: i32::from(i % 2 == 0), l_linger: 0 };
        sockopt::set(&stream, libc::SOL_SOCKET, libc::SO_LINGER, reset)?;
    }
    // A reset that finds no room is lost, as without the patch: it is not repeated, and the
    // receiver never gets it. The last segments of the other flows wait, and arrive.
    until("the flows that were not reset have ended", || {
        let ended = sink.seen().flows.iter().filter(|flow| flow.ended).count();
        Ok(ended >= flows as usize / 2)
    })?;
    Ok(Findings { paused, ..left_over(None, before)? })
}

/// The result when all is done: no sockets and no paused flows, also at the receiver if it is
/// given.
fn left_over(sink: Option<&Sink>, before: Counters) -> Result<Findings, Failure> {
    // The receiver checks when no data arrives.
    let begun = Instant::now();
    let mut left = u64::MAX;
    // The receiver has a listening socket.
    let listens = u64::from(sink.is_some());
    while left > listens && begun.elapsed() < CONDITION_TIMEOUT {
        thread::sleep(Duration::from_secs(5));
        left = network::sockets()? + sink.map_or(0, |sink| sink.seen().sockets);
    }
    Ok(Findings {
        sockets_left: left.saturating_sub(listens),
        warnings: network::warnings(),
        ..Findings::of(Counters::now()?.since(before))
    })
}
