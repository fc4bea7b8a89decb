//! The same endpoints over sockets of the kernel, in real time.

use std::io::{self, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use forebay_queue::Ecn;
use forebay_sim::{Endpoint, Received, Transmit};
use forebay_system::clock;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_units::Nanos;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};

/// The largest number of buffers that one system call fills.
const BATCH: usize = 16;
/// The size of a buffer: the kernel may join datagrams of one sender up to this size.
const BUFFER: usize = 1 << 16;

/// Runs an endpoint of the simulator over a socket, until `done` or until `deadline`.
///
/// Times count from `start`, a reading of [`forebay_system::clock::now`], so that the ends of a
/// path can share a clock. Returns whether `done` was true.
///
/// # Errors
/// If the socket fails. A datagram that the kernel refuses to send counts as lost.
pub fn drive<E: Endpoint>(
    socket: &UdpSocket,
    endpoint: &mut E,
    start: Nanos,
    deadline: Nanos,
    mut done: impl FnMut(&E) -> bool,
) -> io::Result<bool> {
    let state = UdpSocketState::new(socket.into())?;
    let now = || clock::now().saturating_sub(start);
    precise_timers();
    let mut waiter = Waiter::new([socket.as_raw_fd()]);
    let mut outbox = Outbox::default();
    let mut inbox = Inbox::new();
    loop {
        let has_room =
            outbox.send(endpoint, now, |transmit| state.send(socket.into(), transmit))?;
        if done(endpoint) {
            return Ok(true);
        }
        let time = now();
        if time >= deadline {
            return Ok(false);
        }
        let timer = endpoint.next_timer().unwrap_or(deadline).min(deadline);
        if timer > time {
            waiter.set(0, true, !has_room);
            waiter.wait_until(Nanos(start.0.saturating_add(timer.0)));
        }
        inbox.receive(endpoint, now, |buffers, meta| state.recv(socket.into(), buffers, meta))?;
        let time = now();
        if endpoint.next_timer().is_some_and(|timer| timer <= time) {
            endpoint.on_timer(time);
        }
    }
}

/// The datagram that is being sent.
#[derive(Default)]
struct Outbox {
    payload: Vec<u8>,
    /// What the socket had no room for.
    held: Option<Transmit>,
}

impl Outbox {
    /// Sends until the endpoint has nothing more, or the socket has no room. Returns whether it has
    /// room.
    fn send<E: Endpoint>(
        &mut self,
        endpoint: &mut E,
        now: impl Fn() -> Nanos,
        mut send: impl FnMut(&quinn_udp::Transmit<'_>) -> io::Result<()>,
    ) -> io::Result<bool> {
        loop {
            let transmit = match self.held.take() {
                Some(held) => held,
                None => {
                    self.payload.clear();
                    match endpoint.poll_transmit(now(), &mut self.payload) {
                        Some(transmit) => transmit,
                        None => return Ok(true),
                    }
                }
            };
            let sent = send(&quinn_udp::Transmit {
                destination: transmit.to,
                ecn: to_socket(transmit.ecn),
                contents: &self.payload,
                segment_size: None,
                src_ip: None,
            });
            match sent {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.held = Some(transmit);
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// Buffers for datagrams that arrive.
struct Inbox {
    buffers: Vec<u8>,
    meta: [RecvMeta; BATCH],
}

impl Inbox {
    fn new() -> Self {
        Self { buffers: vec![0; BATCH * BUFFER], meta: [RecvMeta::default(); BATCH] }
    }

    /// Passes what has arrived, at most one batch, to the endpoint.
    fn receive<E: Endpoint>(
        &mut self,
        endpoint: &mut E,
        now: impl Fn() -> Nanos,
        mut receive: impl FnMut(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut slices: Vec<_> = self.buffers.chunks_mut(BUFFER).map(IoSliceMut::new).collect();
        let count = match receive(&mut slices, &mut self.meta) {
            Ok(count) => count,
            // Refused: an ICMP error to an earlier datagram, which a timeout handles.
            Err(e) if is_temporary(e.kind()) => return Ok(()),
            Err(e) => return Err(e),
        };
        let time = now();
        for (meta, buffer) in self.meta[..count].iter().zip(slices) {
            let ecn = of_socket(meta.ecn);
            for payload in buffer[..meta.len].chunks(meta.stride.max(1)) {
                endpoint.on_datagram(time, Received { from: meta.addr, ecn, payload });
            }
        }
        Ok(())
    }
}

fn is_temporary(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(kind, WouldBlock | Interrupted | ConnectionRefused)
}

fn to_socket(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

fn of_socket(ecn: Option<EcnCodepoint>) -> Ecn {
    match ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}
