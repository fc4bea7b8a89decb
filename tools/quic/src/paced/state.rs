//! The engine with the transmits of each connection. Time comes in as an argument.

use std::collections::VecDeque;
use std::task::Waker;

use forebay_queue::egress::{
    Answer, Ask, Departure, Engine, FlowId, Hint, Next, Policy, Settings, Transport,
};
use forebay_queue::{ConfigError, egress};
use forebay_units::{Bytes, Nanos};

use super::message::Message;
use super::{Config, Statistics};

/// Packets between the engine and the socket: those that the thread sends without taking the lock
/// again. The socket's send buffer follows.
const BATCH: u32 = 64;
/// Bytes of these packets; a transmit has at most 64 KiB.
const BATCH_BYTES: Bytes = Bytes(1 << 20);

/// The error of waiting for a connection that may send.
pub(super) struct Writable;

/// A message that leaves, with what the engine must know afterwards.
pub(super) struct Leaving {
    pub(super) flow: FlowId,
    pub(super) message: Message,
    pub(super) departure: Departure,
}

/// What the thread does after a poll, without the lock.
#[derive(Default)]
pub(super) struct Work {
    pub(super) messages: Vec<Leaving>,
    pub(super) wake: Vec<Waker>,
    /// Connections that have ended, whose last message leaves.
    closing: Vec<FlowId>,
}

impl Work {
    /// Returns whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.wake.is_empty()
    }
}

/// The transmits of a connection.
#[derive(Default)]
struct Slot {
    waiting: VecDeque<Message>,
    waker: Option<Waker>,
    /// Whether the connection has ended. What it left behind is still sent.
    ended: bool,
}

/// The engine and the transmits behind it.
pub(super) struct State {
    engine: Engine,
    settings: Settings,
    /// The slots by the engine's number of the flow.
    slots: Vec<Slot>,
    most: usize,
    statistics: Statistics,
    /// Whether the thread sleeps.
    pub(super) sleeps: bool,
    /// Whether the socket was dropped.
    pub(super) closed: bool,
}

impl State {
    /// Creates a state without connections.
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let Config { rate, flows, waiting, granularity, credit, .. } = *config;
        if waiting == 0 {
            let (setting, value, min, max) = ("waiting", 0, 1, u64::from(u8::MAX));
            return Err(ConfigError::OutOfRange { setting, value, min, max });
        }
        let usual = egress::Config::default();
        let engine = egress::Config {
            flows,
            packets: BATCH,
            bytes: BATCH_BYTES,
            turns: BATCH,
            granularity,
            credit,
            ..usual
        };
        let settings = Settings { rate: Some(rate), ..Settings::default() };
        let mut engine = Engine::new(engine, Policy::Paced)?;
        // A rate that is out of range is found here, and not at the first connection.
        if let Some(flow) = engine.open(settings)? {
            engine.close(flow);
        }
        Ok(Self {
            engine,
            settings,
            slots: Vec::new(),
            most: usize::from(waiting),
            statistics: Statistics::default(),
            sleeps: false,
            closed: false,
        })
    }

    /// Opens a connection, or returns `None` if there are too many.
    pub(super) fn open(&mut self) -> Option<FlowId> {
        let flow = self.engine.open(self.settings).ok().flatten();
        match flow {
            None => self.statistics.unpaced += 1,
            Some(flow) => {
                let index = flow.index() as usize;
                if self.slots.len() <= index {
                    self.slots.resize_with(index + 1, Slot::default);
                }
            }
        }
        flow
    }

    /// Ends a connection. What it left behind is still sent. Returns its waker.
    pub(super) fn close(&mut self, flow: FlowId) -> Option<Waker> {
        let slot = &mut self.slots[flow.index() as usize];
        if slot.waiting.is_empty() {
            self.engine.close(flow);
        } else {
            slot.ended = true;
        }
        slot.waker.take()
    }

    /// Stores `waker` to be woken when one more transmit of the connection may wait, if none may
    /// now. Returns the waker that was stored before. Drop it after the lock is released.
    pub(super) fn wait(&mut self, flow: FlowId, waker: &Waker) -> Result<Option<Waker>, Writable> {
        let slot = &mut self.slots[flow.index() as usize];
        if slot.waiting.len() < self.most {
            return Err(Writable);
        }
        match &slot.waker {
            Some(known) if known.will_wake(waker) => Ok(None),
            _ => Ok(slot.waker.replace(waker.clone())),
        }
    }

    /// Takes a transmit of a connection. Returns whether the connection had none before, so that
    /// the thread does not know of it.
    ///
    /// A connection sends only what [`State::wait`] has allowed, so that the bound holds.
    pub(super) fn put(&mut self, now: Nanos, flow: FlowId, message: Message) -> bool {
        let slot = &mut self.slots[flow.index() as usize];
        let was_idle = slot.waiting.is_empty();
        self.statistics.taken += u64::from(message.packets());
        slot.waiting.push_back(message);
        if was_idle {
            self.engine.wake(now, flow, Hint::default());
        }
        was_idle
    }

    /// Gives connections their turn. Returns when to poll again; without a time, when one has
    /// something to send.
    pub(super) fn poll(&mut self, now: Nanos, work: &mut Work) -> Option<Nanos> {
        let mut turns = Turns { slots: &mut self.slots, work, enough: self.most / 2 };
        self.engine.poll(now, &mut turns).next
    }

    /// Reports that the messages have left, or were refused. Returns the wakers of connections that
    /// have ended meanwhile; drop them after the lock is released.
    pub(super) fn departed(&mut self, now: Nanos, work: &mut Work, refused: &[bool]) {
        for (leaving, refused) in work.messages.drain(..).zip(refused) {
            let Departure { packets, bytes, .. } = leaving.departure;
            if *refused {
                self.statistics.refused += u64::from(packets);
            } else {
                self.statistics.sent += u64::from(packets);
                self.statistics.sent_bytes += bytes.0;
            }
            self.engine.departed(now, leaving.flow, leaving.departure);
        }
        for flow in work.closing.drain(..) {
            self.engine.close(flow);
        }
    }

    /// Returns the number of datagrams that wait or are on their way to the socket.
    pub(super) fn backlog(&self) -> u64 {
        let Statistics { taken, sent, refused, .. } = self.statistics;
        taken - sent - refused
    }

    /// Counts a sleep of the thread.
    pub(super) fn sleep(&mut self) {
        self.sleeps = true;
        self.statistics.sleeps += 1;
    }

    /// Returns the counters.
    pub(super) fn statistics(&self) -> Statistics {
        Statistics { flows: self.engine.open_flows(), ..self.statistics }
    }
}

/// Connects the engine to the transmits.
struct Turns<'a> {
    slots: &'a mut [Slot],
    work: &'a mut Work,
    /// With at most so many that wait, a connection is woken.
    enough: usize,
}

impl Transport for Turns<'_> {
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        let flow = ask.flow;
        let slot = &mut self.slots[flow.index() as usize];
        let Some(message) = slot.waiting.pop_front() else {
            return Answer { bytes: Bytes(0), packets: 0, next: Next::Idle };
        };
        // One at a time, although the turn may have room for more: quinn and `segments` have
        // determined what leaves together.
        let (bytes, packets) = (Bytes(message.len() as u64), message.packets());
        let departure = Departure { packets, bytes, asked: ask.now };
        self.work.messages.push(Leaving { flow, message, departure });
        if slot.waiting.len() <= self.enough {
            self.work.wake.extend(slot.waker.take());
        }
        let next = if slot.waiting.is_empty() { Next::Idle } else { Next::Ready(Hint::default()) };
        if next == Next::Idle && std::mem::take(&mut slot.ended) {
            self.work.closing.push(flow);
        }
        Answer { bytes, packets, next }
    }
}
