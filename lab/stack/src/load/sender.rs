//! The sending side: opens connections and keeps each as full as it may be.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use forebay_guest::sockopt;
use forebay_system::epoll::{Epoll, Events, Interest};
use socket2::{Domain, Protocol, Socket, Type};

use super::turns::Turns;
use super::{CHUNK, EVENTS, Shared, Step};
use crate::Interrupt;
use crate::probe::sockets::Sample;

/// Connections that are under way at the same time: fewer than fit the queue of a listener.
const UNDER_WAY: usize = 512;
/// The time in which one connection at least must be opened; it is enough for three lost SYNs.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the step is looked at while nothing happens.
const TICK: Duration = Duration::from_millis(20);
/// Writes between two looks at new events.
const WRITES: usize = 256;

/// What the connections of a sender are like.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of connections.
    pub flows: u32,
    /// The number of the first of them, which decides their source addresses.
    pub first: u32,
    /// The listeners: flows go to them in turn, each from a source of its family.
    pub servers: Vec<SocketAddr>,
    /// The addresses that connections come from, in turn; without any the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// The congestion control's name.
    pub congestion: String,
    /// The most bytes per second of each connection (`SO_MAX_PACING_RATE`).
    pub pacing: Option<u64>,
    /// The most bytes of each that are not yet sent (`TCP_NOTSENT_LOWAT`).
    pub unsent: u32,
}

/// What a sending thread is asked to do beside sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Begin a sample of flows; so many threads do.
    Begin {
        /// The number of sending threads.
        threads: usize,
    },
    /// Read the sample.
    Read,
}

/// The sending thread's flows.
pub struct Sender<'a> {
    options: Options,
    shared: &'a Shared,
    epoll: Epoll,
    events: Events,
    flows: Vec<TcpStream>,
}

impl<'a> Sender<'a> {
    /// Opens all connections. Returns early, with those that are open, on an interrupt.
    ///
    /// # Errors
    /// If the kernel refuses a connection, or none is opened for a while.
    pub fn connect(
        options: Options,
        shared: &'a Shared,
        interrupt: &Interrupt,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let flows = Vec::with_capacity(options.flows as usize);
        let mut sender = Self { options, shared, epoll, events: Events::new(EVENTS), flows };
        let mut open = 0;
        let mut is_open = vec![false; sender.options.flows as usize];
        let mut progress = Instant::now();
        while open < sender.options.flows as usize && !interrupt.is_raised() {
            while sender.flows.len() < is_open.len() && sender.flows.len() - open < UNDER_WAY {
                let flow = sender.flows.len() as u32;
                let stream = sender.open(flow)?;
                sender.epoll.add(&stream, u64::from(flow), Interest::Room)?;
                sender.flows.push(stream);
            }
            sender.epoll.wait(&mut sender.events, TICK)?;
            for flow in sender.events.keys() {
                let Some(seen @ false) = is_open.get_mut(flow as usize) else { continue };
                if let Some(error) = sender.flows[flow as usize].take_error()? {
                    let server = sender.options.server(flow as u32);
                    let what = format!("connection {open} to {server}: {error}");
                    return Err(io::Error::new(error.kind(), what));
                }
                *seen = true;
                open += 1;
                sender.shared.connected.fetch_add(1, Ordering::Relaxed);
                progress = Instant::now();
            }
            if progress.elapsed() > OPEN_TIMEOUT {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no connection was opened for 10 s, after {open}"),
                ));
            }
        }
        Ok(sender)
    }

    /// Waits for the start, sends until the step is over, and closes everything. Meanwhile it reads
    /// its sample as it is asked to; the sample is returned.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn run(mut self, asked: &Receiver<Ask>) -> io::Result<Option<Sample>> {
        while self.shared.step() == Step::Connect {
            std::thread::sleep(TICK);
        }
        let data = vec![0; CHUNK];
        let mut turns = Turns::new(self.flows.len());
        let mut is_lost = vec![false; self.flows.len()];
        (0..self.flows.len() as u32).for_each(|flow| turns.push(flow));
        let mut sample: Option<Sample> = None;
        while self.shared.step() == Step::Send {
            match (asked.try_recv(), &mut sample) {
                (Ok(Ask::Begin { threads }), _) => {
                    sample = Some(Sample::begin(&self.flows, threads));
                }
                (Ok(Ask::Read), Some(sample)) => sample.read(&self.flows),
                _ => {}
            }
            let patience = if turns.is_empty() { TICK } else { Duration::ZERO };
            self.epoll.wait(&mut self.events, patience)?;
            self.events.keys().for_each(|flow| turns.push(flow as u32));
            for _ in 0..WRITES {
                let Some(flow) = turns.pop() else { break };
                if is_lost[flow as usize] {
                    continue;
                }
                match self.flows[flow as usize].write(&data) {
                    // There may be more room. After a short write the kernel reports new room.
                    Ok(n) => {
                        self.shared.sent.fetch_add(n as u64, Ordering::Relaxed);
                        if n == CHUNK {
                            turns.push(flow);
                        }
                    }
                    Err(e) if is_passing(&e) => {}
                    Err(e) => {
                        is_lost[flow as usize] = true;
                        self.shared.lose(&e);
                    }
                }
            }
        }
        self.shared.silent.fetch_add(1, Ordering::Release);
        while self.shared.step() == Step::Drain {
            std::thread::sleep(TICK);
        }
        close(self.flows);
        Ok(sample)
    }

    /// Begins to open a connection.
    fn open(&self, flow: u32) -> io::Result<TcpStream> {
        let server = self.options.server(flow);
        let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        let name = &self.options.congestion;
        socket.set_tcp_congestion(name.as_bytes()).map_err(|e| {
            let what = format!("congestion control {name}: {e} (is the module tcp_{name} there?)");
            io::Error::new(e.kind(), what)
        })?;
        if let Some(rate) = self.options.pacing {
            sockopt::set(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)?;
        }
        let unsent = self.options.unsent;
        sockopt::set(&socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, unsent)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = self.options.source(flow, server) {
            // The port is chosen when the destination is known, so that the whole range is there
            // for each pair of addresses.
            let option = libc::IP_BIND_ADDRESS_NO_PORT;
            sockopt::set(&socket, libc::IPPROTO_IP, option, 1_i32)?;
            let from = SocketAddr::new(source, 0);
            socket.bind(&from.into()).map_err(|e| {
                io::Error::new(e.kind(), format!("binding the source address {source}: {e}"))
            })?;
        }
        match socket.connect(&server.into()) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(e) if e.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
                return Err(io::Error::new(
                    e.kind(),
                    format!("no port is left after {flow} connections: use more source addresses"),
                ));
            }
            Err(e) => return Err(io::Error::new(e.kind(), format!("connecting to {server}: {e}"))),
        }
        Ok(socket.into())
    }
}

impl Options {
    /// The listener of a flow.
    fn server(&self, flow: u32) -> SocketAddr {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let index = (self.first + flow) as usize % self.servers.len().max(1);
        self.servers.get(index).copied().unwrap_or(any)
    }

    /// The source of a flow: the addresses of the server's family in turn.
    fn source(&self, flow: u32, server: SocketAddr) -> Option<IpAddr> {
        let fitting = || self.sources.iter().filter(|ip| ip.is_ipv4() == server.is_ipv4());
        let turn = (self.first + flow) as usize / self.servers.len().max(1);
        fitting().nth(turn % fitting().count().max(1)).copied()
    }
}

/// The address of a listener on all addresses of a family.
pub fn unspecified(is_v4: bool, port: u16) -> SocketAddr {
    if is_v4 { (Ipv4Addr::UNSPECIFIED, port).into() } else { (Ipv6Addr::UNSPECIFIED, port).into() }
}

/// Closes connections by a reset, which leaves no socket behind that waits.
pub(super) fn close(flows: impl IntoIterator<Item = TcpStream>) {
    for flow in flows {
        // An error means that it is closed already.
        let _ = socket2::SockRef::from(&flow).set_linger(Some(Duration::ZERO));
    }
}

/// Whether a read or write failed for now and may be repeated.
pub(super) fn is_passing(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_servers_and_sources_in_turn() {
        let v4 = |n| IpAddr::from([10, 78, 1, n]);
        let v6: IpAddr = "fd78::1".parse().unwrap();
        let servers = vec!["10.78.0.1:9".parse().unwrap(), "[fd78::9]:9".parse().unwrap()];
        let options = Options {
            flows: 8,
            first: 2,
            servers,
            sources: vec![v4(1), v6, v4(2)],
            congestion: "cubic".to_owned(),
            pacing: None,
            unsent: 4096,
        };
        let source = |flow| options.source(flow, options.server(flow)).unwrap();
        // Flow 0 here is flow 2 of all: the second one of the first server.
        assert_eq!([source(0), source(2), source(4)], [v4(2), v4(1), v4(2)]);
        assert_eq!([source(1), source(3)], [v6, v6]);
        let none = Options { sources: vec![v4(1)], ..options.clone() };
        assert_eq!(none.source(1, none.server(1)), None, "no source of this family");
    }
}
