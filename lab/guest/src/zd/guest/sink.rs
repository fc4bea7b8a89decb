//! The receiver: it reads everything and records when data of each flow arrives.

use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::poll::Poll;
use super::{Failure, network};
use crate::zd::order::Queue;
use crate::{sockopt, stamps};

/// The port for flows.
pub(super) const FLOWS: u16 = 5001;
/// The port for datagrams.
pub(super) const DATAGRAMS: u16 = 5002;
/// The number of bytes read from a flow at once.
const CHUNK: usize = 1 << 20;
/// The buffer for datagrams: more than any work sends.
const ROOM: i32 = 512 << 20;
/// The numbers of the two sockets that are no flows.
const LISTENER: u64 = u64::MAX;
const DATAGRAM_SOCKET: u64 = u64::MAX - 1;

/// The receiver, in its own thread and namespace, which lasts as long as the guest.
pub(super) struct Sink {
    seen: Arc<Mutex<Seen>>,
}

/// The data that has arrived.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) datagrams: u64,
    pub(super) flows: Vec<Flow>,
    /// The number of TCP sockets in its namespace at the last check.
    pub(super) sockets: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) bytes: u64,
    /// Whether the sender has ended the flow.
    pub(super) ended: bool,
    last: u64,
    gap: u64,
}

impl Flow {
    /// The longest time without data until now.
    pub(super) fn gap(&self) -> u64 {
        self.gap.max(stamps::now().saturating_sub(self.last))
    }
}

impl Seen {
    /// Discards everything that arrived so far.
    pub(super) fn begin(&mut self) {
        let now = stamps::now();
        for flow in &mut self.flows {
            (flow.bytes, flow.last, flow.gap) = (0, now, 0);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.flows.iter().map(|flow| flow.bytes).sum()
    }
}

impl Sink {
    /// Starts the receiver and sets up the network; the sender's side is in this thread's
    /// namespace.
    pub(super) fn start(queue: Queue) -> Result<Self, Failure> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (its, (tell, told), (go, gone)) = (Arc::clone(&seen), channel(), channel());
        thread::spawn(move || {
            // The thread lasts as long as the guest; an error before it is ready is an error of the
            // start.
            if let Err(e) = serve(queue, &its, &tell, &gone) {
                let _ = tell.send(Err(e.to_string()));
            }
        });
        let far = told.recv()??;
        go.send(network::set_up(queue, far)?)?;
        told.recv()??;
        Ok(Self { seen })
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(
    queue: Queue,
    seen: &Mutex<Seen>,
    tell: &Sender<Result<i32, String>>,
    gone: &Receiver<Option<File>>,
) -> Result<(), Failure> {
    // SAFETY: concerns this thread alone; gettid takes nothing.
    let far = unsafe {
        if libc::unshare(libc::CLONE_NEWNET) != 0 {
            return Err(io::Error::last_os_error().into());
        }
        libc::gettid()
    };
    tell.send(Ok(far))?;
    network::set_up_far(queue, gone.recv()?)?;
    let listener = TcpListener::bind(("0.0.0.0", FLOWS))?;
    // The library's own backlog is too short for thousands that connect at once.
    // SAFETY: takes two integers.
    unsafe { libc::listen(listener.as_raw_fd(), 65_535) };
    listener.set_nonblocking(true)?;
    let socket = UdpSocket::bind(("0.0.0.0", DATAGRAMS))?;
    socket.set_nonblocking(true)?;
    sockopt::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, ROOM)?;
    let mut poll = Poll::new()?;
    poll.add(&listener, libc::EPOLLIN, LISTENER)?;
    poll.add(&socket, libc::EPOLLIN, DATAGRAM_SOCKET)?;
    tell.send(Ok(0))?;
    let mut flows: Vec<Option<TcpStream>> = Vec::new();
    loop {
        let ready: Vec<u64> = poll.wait(1_000).map(|(_, number)| number).collect();
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.is_empty() {
            seen.sockets = network::sockets()?;
        }
        for number in ready {
            match number {
                LISTENER => {
                    while let Ok((flow, _)) = listener.accept() {
                        flow.set_nonblocking(true)?;
                        poll.add(&flow, libc::EPOLLIN, flows.len() as u64)?;
                        flows.push(Some(flow));
                        let last = stamps::now();
                        seen.flows.push(Flow { bytes: 0, ended: false, last, gap: 0 });
                    }
                }
                DATAGRAM_SOCKET => {
                    let mut bytes = [0; 2048];
                    while socket.recv(&mut bytes).is_ok() {
                        seen.datagrams += 1;
                    }
                }
                flow => take(&mut flows[flow as usize], &mut seen.flows[flow as usize]),
            }
        }
    }
}

/// Reads the data of a flow.
fn take(stream: &mut Option<TcpStream>, flow: &mut Flow) {
    let Some(fd) = stream.as_ref().map(AsRawFd::as_raw_fd) else { return };
    match discard(fd) {
        Some(0) => {
            flow.ended = true;
            *stream = None;
        }
        Some(got) => {
            let now = stamps::now();
            flow.bytes += got;
            flow.gap = flow.gap.max(now.saturating_sub(flow.last));
            flow.last = now;
        }
        None => {}
    }
}

/// Discards received data and returns its length; 0 at the end of the flow, whatever its reason.
fn discard(fd: RawFd) -> Option<u64> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC, TCP throws bytes away and touches no buffer (tcp(7)).
    let got = unsafe { libc::recv(fd, std::ptr::null_mut(), CHUNK, flags) };
    match u64::try_from(got) {
        Ok(got) => Some(got),
        Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => None,
        Err(_) => Some(0),
    }
}
