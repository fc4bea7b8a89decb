//! The receiving side: accepts connections and reads everything from them.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_system::epoll::{Epoll, Events, Interest};
use socket2::{Domain, Protocol, Socket, Type};

use super::sender::{close, is_passing};
use super::turns::Turns;
use super::{EVENTS, Shared, Step};

/// Connections that may wait to be accepted. The kernel's bound is `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;
/// Bytes that are read at once.
const ROOM: usize = 256 << 10;
/// How often the step is looked at while nothing happens.
const TICK: Duration = Duration::from_millis(20);
/// Reads between two looks at new events.
const READS: usize = 256;
/// The keys of listeners' events are above those of flows.
const LISTENERS: u64 = 1 << 32;

/// The receiving thread's listeners and flows.
pub struct Receiver<'a> {
    shared: &'a Shared,
    listeners: Vec<TcpListener>,
    epoll: Epoll,
    flows: Vec<Option<TcpStream>>,
    /// Whether the other side has closed the connection, for each place in `flows`.
    is_ended: Vec<bool>,
    /// Places in `flows` that are free.
    free: Vec<u32>,
    most: usize,
}

impl<'a> Receiver<'a> {
    /// Listens at `addresses` for `most` connections. Several receivers may have the same ones:
    /// then the kernel spreads connections over them.
    ///
    /// # Errors
    /// If an address cannot be had.
    pub fn listen(addresses: &[SocketAddr], most: usize, shared: &'a Shared) -> io::Result<Self> {
        let listen = |address: &SocketAddr| -> io::Result<TcpListener> {
            let domain = Domain::for_address(*address);
            let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            if address.is_ipv6() {
                socket.set_only_v6(true)?;
            }
            socket.set_reuse_address(true)?;
            socket.set_reuse_port(true)?;
            socket.set_nonblocking(true)?;
            socket.bind(&(*address).into())?;
            socket.listen(BACKLOG)?;
            Ok(socket.into())
        };
        let named = |address: &SocketAddr| {
            listen(address)
                .map_err(|e| io::Error::new(e.kind(), format!("cannot listen at {address}: {e}")))
        };
        let listeners = addresses.iter().map(named).collect::<io::Result<Vec<_>>>()?;
        let epoll = Epoll::new()?;
        for (listener, key) in listeners.iter().zip(LISTENERS..) {
            epoll.add(listener, key, Interest::Data)?;
        }
        let (flows, is_ended, free) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { shared, listeners, epoll, flows, is_ended, free, most })
    }

    /// Accepts and reads until everything is to be closed.
    ///
    /// # Errors
    /// If the kernel refuses to wait or to accept.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::new(EVENTS);
        let mut room = vec![0; ROOM];
        let mut turns = Turns::new(0);
        while self.shared.step() != Step::Close {
            let patience = if turns.is_empty() { TICK } else { Duration::ZERO };
            self.epoll.wait(&mut events, patience)?;
            for (key, is_ended) in events.iter() {
                match key.checked_sub(LISTENERS) {
                    Some(listener) => self.accept(listener as usize, &mut turns)?,
                    None => {
                        self.is_ended[key as usize] |= is_ended;
                        turns.push(key as u32);
                    }
                }
            }
            for _ in 0..READS {
                let Some(flow) = turns.pop() else { break };
                self.read(flow, &mut room, &mut turns);
            }
        }
        close(self.flows.into_iter().flatten());
        Ok(())
    }

    fn accept(&mut self, listener: usize, turns: &mut Turns) -> io::Result<()> {
        loop {
            let stream = match self.listeners[listener].accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // A connection that ended before it was accepted (accept(2)).
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(e) if is_passing(&e) => continue,
                Err(e) => return Err(e),
            };
            if self.flows.len() - self.free.len() >= self.most {
                continue;
            }
            stream.set_nonblocking(true)?;
            let flow = self.free.pop().unwrap_or_else(|| {
                self.flows.push(None);
                self.is_ended.push(false);
                self.flows.len() as u32 - 1
            });
            turns.admit(flow);
            self.epoll.add(&stream, u64::from(flow), Interest::Data)?;
            self.flows[flow as usize] = Some(stream);
            self.shared.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&mut self, flow: u32, room: &mut [u8], turns: &mut Turns) {
        let Some(stream) = &mut self.flows[flow as usize] else { return };
        match stream.read(room) {
            Ok(0) => self.end(flow),
            Ok(n) => {
                self.shared.received.fetch_add(n as u64, Ordering::Relaxed);
                // A short read has emptied the socket: the kernel reports what comes later.
                if n == room.len() || self.is_ended[flow as usize] {
                    turns.push(flow);
                }
            }
            Err(e) if is_passing(&e) => {}
            Err(_) => self.end(flow),
        }
    }

    fn end(&mut self, flow: u32) {
        self.flows[flow as usize] = None;
        self.is_ended[flow as usize] = false;
        self.free.push(flow);
        self.shared.ended.fetch_add(1, Ordering::Relaxed);
    }
}
