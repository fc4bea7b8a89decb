//! Callers: each sends one request at a time and waits for its answer, over a lasting connection or
//! over a new one per request.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use forebay_system::clock;
use forebay_units::Nanos;

use crate::results::Request;
use crate::traffic::cue::FILLER;
use crate::traffic::pair::pack;
use crate::traffic::spec::{Tcp, Window};
use crate::traffic::{sockets, wait};
use crate::workload::Asked;

/// The connection of a caller to its server.
pub(super) enum Line {
    /// One connection for all requests.
    Open(TcpStream),
    /// One connection per request: the handshake is part of the request's time.
    Anew(SocketAddr, Tcp),
}

/// A caller, which sends one request after the other.
pub(super) struct Caller<'a> {
    line: Line,
    /// The time at which an unanswered request is given up.
    end: Nanos,
    /// The number of received answer bytes.
    count: &'a AtomicU64,
    buf: Vec<u8>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(line: Line, end: Nanos, count: &'a AtomicU64) -> Self {
        Self { line, end, count, buf: vec![0; FILLER.len()] }
    }

    /// Sends `request`, and returns it with the time of its end if it has one.
    fn ask(&mut self, request: Request) -> io::Result<Request> {
        let end = match self.try_ask(&request) {
            // The server closes connections at the end, which may be noticed here first.
            Err(_) if clock::now() >= self.end => None,
            other => other?,
        };
        Ok(Request { end: end.map(|t| t.0), ..request })
    }

    fn try_ask(&mut self, request: &Request) -> io::Result<Option<Nanos>> {
        match &self.line {
            Line::Open(stream) => fetch(stream, request, self.end, self.count, &mut self.buf),
            Line::Anew(server, tcp) => match connect(*server, tcp, self.end)? {
                // The client closes the connection after the answer.
                Some(stream) => fetch(&stream, request, self.end, self.count, &mut self.buf),
                None => Ok(None),
            },
        }
    }
}

/// Opens a connection; `None` if the server cannot be reached before `end`, or the kernel gives up.
fn connect(server: SocketAddr, tcp: &Tcp, end: Nanos) -> io::Result<Option<TcpStream>> {
    let Some(left) = wait::left_until(end) else { return Ok(None) };
    match sockets::connect_one(server, tcp, left) {
        Ok(stream) => Ok(Some(stream)),
        Err(e) if sockets::is_passing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Sends `request` and reads its answer. Returns the time of the last byte; `None` if `end` comes
/// first.
fn fetch(
    mut stream: &TcpStream,
    request: &Request,
    end: Nanos,
    count: &AtomicU64,
    buf: &mut [u8],
) -> io::Result<Option<Nanos>> {
    stream.write_all(&pack(request.id, request.size))?;
    let mut missing = request.size;
    while let Some(left) = wait::left_until(end) {
        stream.set_read_timeout(Some(left))?;
        let most = missing.min(buf.len() as u64) as usize;
        match stream.read(&mut buf[..most]) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
            }
            Ok(n) => {
                count.fetch_add(n as u64, Ordering::Relaxed);
                missing -= n as u64;
            }
            Err(e) if sockets::is_passing(&e) => {}
            Err(e) => return Err(e),
        }
        if missing == 0 {
            return Ok(Some(clock::now()));
        }
    }
    Ok(None)
}

/// Runs a closed loop: each of `callers` sends the next request after an answer, until the window's
/// stop, with `sizes` as [`crate::workload::Requests::closed`] distributes them.
pub(super) fn closed(
    callers: Vec<Caller<'_>>,
    sizes: &[u64],
    window: Window,
) -> io::Result<Vec<Request>> {
    let (asked, of) = (&AtomicU64::new(0), callers.len());
    let call = move |(place, mut caller): (usize, Caller<'_>)| {
        let mut records = Vec::new();
        wait::sleep_until(window.begin_of(place as u32));
        for &size in sizes.iter().cycle().skip(place).step_by(of) {
            let start = clock::now();
            if start >= window.stop {
                break;
            }
            let id = asked.fetch_add(1, Ordering::Relaxed);
            let connection = place as u32;
            records.push(caller.ask(Request {
                id,
                connection,
                size,
                start: start.0,
                end: None,
            })?);
        }
        Ok(records)
    };
    thread::scope(|scope| {
        let callers = callers.into_iter().enumerate();
        let threads: Vec<_> = callers.map(|caller| scope.spawn(move || call(caller))).collect();
        gather(threads)
    })
}

/// Runs an open loop: each request of `schedule` is sent when its time has come and one of
/// `callers` is free; its time counts from its scheduled start. Returns the largest lateness, and
/// all requests.
pub(super) fn scheduled(
    callers: Vec<Caller<'_>>,
    schedule: &[Asked],
    window: Window,
) -> io::Result<(Nanos, Vec<Request>)> {
    // The number of waiting requests is bounded by the schedule.
    let (queue, waiting) = mpsc::channel::<Request>();
    let waiting = &Mutex::new(waiting);
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    let call = move |mut caller: Caller<'_>| {
        let mut records = Vec::new();
        while let Ok(request) = next() {
            records.push(caller.ask(request)?);
        }
        Ok(records)
    };
    thread::scope(|scope| {
        let callers = callers.into_iter();
        let threads: Vec<_> = callers.map(|caller| scope.spawn(move || call(caller))).collect();
        let mut late = Nanos::ZERO;
        for (id, Asked { at, connection, size }) in (0..).zip(schedule.iter().copied()) {
            let due = window.begin + at;
            wait::sleep_until(due);
            let start = clock::now();
            late = late.max(start.saturating_sub(due));
            let request = Request { id, connection, size, start: start.0, end: None };
            if queue.send(request).is_err() {
                break;
            }
        }
        drop(queue);
        gather(threads).map(|records| (late, records))
    })
}

type Asking<'scope> = thread::ScopedJoinHandle<'scope, io::Result<Vec<Request>>>;

fn gather(threads: Vec<Asking<'_>>) -> io::Result<Vec<Request>> {
    threads.into_iter().try_fold(Vec::new(), |mut all, thread| {
        all.extend(sockets::join(thread)?);
        Ok(all)
    })
}
