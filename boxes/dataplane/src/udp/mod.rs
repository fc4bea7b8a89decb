//! A sender of UDP datagrams for very many paced flows: one socket, one thread, and an
//! [egress engine](forebay_queue::egress).
//!
//! The engine decides which flow sends next, and how much. [`UdpSender`] asks the flow's [`Source`]
//! for these packets and passes them to the kernel. Packets of one turn become one message, which
//! the kernel cuts into datagrams (`UDP_SEGMENT`, Linux 4.18). Messages of many flows go with one
//! system call (`sendmmsg`).
//!
//! The host's queue behind the engine is the socket's send buffer, so an interface that is slower
//! than the flows makes them wait: no packet is dropped for lack of room.

mod address;
mod batch;
mod segments;

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use forebay_queue::ConfigError;
use forebay_queue::egress::{
    Answer, Ask, Config, Departure, Engine, FlowId, Hint, Next, Policy, Polled, Ranking, Settings,
    Transport,
};
use forebay_system::clock;
use forebay_system::wait::Waiter;
use forebay_units::{Bytes, Nanos};

use crate::error::Error;
use address::Address;
use batch::{Batch, Flushed};
pub use segments::{MAX_MESSAGE, MAX_SEGMENTS, Segments};

/// The data of the flows.
pub trait Source {
    /// Writes the next packets of `ask.flow` to `segments`. A flow that writes none is idle until
    /// it is woken, whatever this returns.
    fn fill(&mut self, ask: &Ask<'_>, segments: &mut Segments<'_>) -> Next;
}

/// What a [`UdpSender`] has sent since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpStats {
    /// Packets that the kernel has accepted.
    pub packets: u64,
    /// Bytes of these packets without headers.
    pub bytes: Bytes,
    /// Messages that these packets were sent in.
    pub messages: u64,
    /// System calls that sent messages.
    pub calls: u64,
    /// Packets that the kernel refused: there is no route, or they exceed the MTU.
    pub refused: u64,
}

/// A sender of the datagrams of many flows over one socket.
#[derive(Debug)]
pub struct UdpSender<R = Policy> {
    engine: Engine<R>,
    socket: UdpSocket,
    waiter: Waiter,
    /// The destination of each flow, by its number.
    addresses: Vec<Address>,
    batch: Batch,
    blocked: bool,
    stats: UdpStats,
}

impl<R: Ranking> UdpSender<R> {
    /// Makes a sender of `socket`, which should not be connected.
    ///
    /// The send buffer of `socket` is the host's queue. `config.packets` and `config.bytes` bound
    /// the packets that the kernel has not accepted yet. Their buffer holds at most twice these
    /// bytes and one message.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(socket: UdpSocket, config: Config, ranking: R) -> Result<Self, ConfigError> {
        let engine = Engine::new(config, ranking)?;
        let waiter = Waiter::new([socket.as_raw_fd()]);
        Ok(Self {
            engine,
            waiter,
            addresses: vec![Address::default(); config.flows as usize],
            batch: Batch::new(&config, batch::can_segment(&socket)),
            socket,
            blocked: false,
            stats: UdpStats::default(),
        })
    }

    /// Sends each packet as a message of its own, as on kernels without `UDP_SEGMENT`.
    pub fn without_segmentation(&mut self) {
        self.batch.segmentation = false;
    }

    /// Opens a flow to `to`, or returns `None` if there are [`Config::flows`] already.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn open(
        &mut self,
        to: SocketAddr,
        settings: Settings,
    ) -> Result<Option<FlowId>, ConfigError> {
        let flow = self.engine.open(settings)?;
        if let Some(flow) = flow {
            self.addresses[flow.index() as usize] = to.into();
        }
        Ok(flow)
    }

    /// Closes a flow, and returns whether it was open. Packets that its source has written are
    /// still sent.
    pub fn close(&mut self, flow: FlowId) -> bool {
        self.engine.close(flow)
    }

    /// Reports flows that have something to send. Returns how many of them are open.
    pub fn wake_all(&mut self, now: Nanos, wakes: &[(FlowId, Hint)]) -> u32 {
        self.engine.wake_all(now, wakes)
    }

    /// Gives flows their turn, up to [`Config::turns`] of them, and sends what they write.
    ///
    /// [`Polled::next`] is when to call this again; [`UdpSender::wait_until`] waits for it. Without
    /// a time, nothing happens until a flow is woken or, if [`UdpSender::is_blocked`], there is
    /// room in the socket.
    ///
    /// # Errors
    /// If the socket fails. Packets that the kernel refuses are counted instead.
    pub fn poll(&mut self, now: Nanos, source: &mut impl Source) -> Result<Polled, Error> {
        if self.blocked {
            self.flush()?;
        }
        let mut turns = Turns { source, batch: &mut self.batch, addresses: &self.addresses };
        let mut polled = self.engine.poll(now, &mut turns);
        if polled.packets > 0 && !self.blocked {
            self.flush()?;
            if !self.blocked {
                // The departures made room.
                polled.next = Some(now);
            }
        }
        Ok(polled)
    }

    /// Blocks until `deadline`, or until there is room in the socket if [`UdpSender::is_blocked`].
    pub fn wait_until(&mut self, deadline: Nanos) {
        self.waiter.set(0, false, self.blocked);
        self.waiter.wait_until(deadline);
    }

    /// Returns whether packets wait for room in the socket.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns what has been sent so far.
    pub fn stats(&self) -> UdpStats {
        self.stats
    }

    /// Returns the engine, for its load and the number of its flows.
    pub fn engine(&self) -> &Engine<R> {
        &self.engine
    }

    /// Sends messages until none is left or the socket has no room, and reports departures.
    fn flush(&mut self) -> Result<(), Error> {
        let Self { engine, batch, stats, .. } = self;
        loop {
            match batch.send(self.socket.as_raw_fd(), stats)? {
                Flushed::Empty => {
                    self.blocked = false;
                    return Ok(());
                }
                Flushed::NoRoom => {
                    self.blocked = true;
                    return Ok(());
                }
                Flushed::Some => {
                    let now = clock::now();
                    batch.drain(|flow, departure: Departure| {
                        engine.departed(now, flow, departure);
                    });
                }
            }
        }
    }
}

impl<R> AsRawFd for UdpSender<R> {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Connects the engine to the source of packets and the batch that they are written to.
struct Turns<'a, S> {
    source: &'a mut S,
    batch: &'a mut Batch,
    addresses: &'a [Address],
}

impl<S: Source> Transport for Turns<'_, S> {
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        let to = self.addresses[ask.flow.index() as usize];
        let mut segments = self.batch.segments(ask.bytes);
        let next = self.source.fill(&ask, &mut segments);
        let written = segments.finish();
        self.batch.add(&ask, to, written);
        Answer { bytes: Bytes(written.bytes as u64), packets: written.packets, next }
    }
}
