//! The scheduled buffer below its shaper, in mode `zd` behind the gate.

use forebay_queue::backpressure::{self, FlowId, FlowPacket, Gate, Order, Refused};
use forebay_queue::{
    Backlog, ConfigError, DropReason, DropSink, Fifo, Limit, Qdisc, Sfq, TokenBucket, fifo, sfq,
    token_bucket,
};
use forebay_units::{Bytes, Nanos};

use crate::config::{Config, Mode, Schedule};
use crate::datagram::Datagram;

type Queue = Box<dyn Qdisc<Datagram> + Send>;
type Shaped = TokenBucket<Queue>;

/// The number for packets of no connection, or of a connection beyond the largest number.
pub(super) const OTHERS: FlowId = FlowId(0);

/// The longest UDP datagram as a frame. The buffer's limit is in packets, so this is just an upper
/// bound.
const MAX_FRAME: Bytes = Bytes(14 + 65_535);

pub(super) enum Scheduler {
    Drop(Shaped),
    Zd(Box<Gate<Datagram, Shaped>>),
}

/// The result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The packet was taken, and this many were dropped: itself, or one of another connection.
    In {
        dropped: u32,
    },
    Paused,
}

impl Scheduler {
    /// Creates the buffer for connections numbered from 1 to `config.flows`.
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let (rate, burst) = (config.rate, config.burst);
        let bucket = token_bucket::Config { rate, burst, late: Nanos::ZERO };
        let shaped = TokenBucket::new(bucket, queue(config)?);
        if config.mode == Mode::Drop {
            return Ok(Self::Drop(shaped));
        }
        let gate = backpressure::Config {
            flows: config.flows.saturating_add(1),
            in_buffer: config.in_buffer,
            turn: config.turn,
            order: match config.schedule {
                Schedule::Fifo => Order::Fifo,
                Schedule::Fair => Order::RoundRobin,
            },
            hysteresis: config.hysteresis,
            largest: MAX_FRAME,
        };
        Ok(Self::Zd(Box::new(Gate::new(gate, shaped)?)))
    }

    fn shaped(&self) -> &Shaped {
        match self {
            Self::Drop(shaped) => shaped,
            Self::Zd(gate) => gate.qdisc(),
        }
    }

    /// Returns whether `flow` may build a packet. If not, the flow is paused.
    pub(super) fn admits(&mut self, now: Nanos, flow: FlowId) -> bool {
        match self {
            Self::Zd(gate) if flow != OTHERS => !gate.pause_flow(now, flow, 0),
            _ => true,
        }
    }

    /// Enqueues a packet that was admitted.
    pub(super) fn put(&mut self, now: Nanos, packet: Datagram) -> Put {
        let flow = packet.flow();
        let mut dropped = 0u32;
        let mut drops = |_: Datagram, _: DropReason| dropped += 1;
        match self {
            Self::Drop(shaped) => shaped.enqueue(now, packet, &mut drops),
            // These packets have no task to wake, so they are never paused.
            Self::Zd(gate) if flow == OTHERS && !gate.probe(flow, 0).is_go() => dropped += 1,
            Self::Zd(gate) => match gate.offer(now, packet, &mut drops) {
                Ok(()) => {}
                Err(Refused::Paused(_)) if flow != OTHERS => return Put::Paused,
                Err(Refused::Paused(_) | Refused::Never(_)) => {
                    gate.remove(flow);
                    dropped += 1;
                }
            },
        }
        Put::In { dropped }
    }

    pub(super) fn dequeue(&mut self, now: Nanos) -> Option<Datagram> {
        // Neither queue drops a packet that it has taken.
        let mut none = |_: Datagram, _: DropReason| {};
        let drops: &mut dyn DropSink<Datagram> = &mut none;
        match self {
            Self::Drop(shaped) => shaped.dequeue(now, drops),
            Self::Zd(gate) => gate.dequeue(now, drops),
        }
    }

    pub(super) fn resume(&mut self, now: Nanos) -> Option<FlowId> {
        match self {
            Self::Drop(_) => None,
            Self::Zd(gate) => gate.resume_flow(now),
        }
    }

    /// Records that `flow` was resumed and sends nothing.
    pub(super) fn idle(&mut self, flow: FlowId) {
        if let Self::Zd(gate) = self {
            gate.idle(flow);
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, flow: FlowId) {
        if let Self::Zd(gate) = self {
            gate.remove(flow);
        }
    }

    pub(super) fn is_paused(&self, flow: FlowId) -> bool {
        match self {
            Self::Drop(_) => false,
            Self::Zd(gate) => gate.is_paused(flow),
        }
    }

    /// Returns the number of packets of `flow` in the buffer, which is not counted in mode `drop`.
    pub(super) fn in_buffer(&self, flow: FlowId) -> u32 {
        match self {
            Self::Drop(_) => 0,
            Self::Zd(gate) => gate.in_buffer(flow),
        }
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.shaped().backlog()
    }

    pub(super) fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.shaped().next_event(now)
    }
}

fn queue(config: &Config) -> Result<Queue, ConfigError> {
    let packets = config.packets;
    Ok(match config.schedule {
        Schedule::Fifo => Box::new(Fifo::new(fifo::Config { limit: Limit::packets(packets) })?),
        Schedule::Fair => Box::new(Sfq::new(sfq::Config {
            limit: packets,
            // At most this many flows can wait.
            flows: packets.clamp(1, sfq::Config::MAX_FLOWS),
            depth: packets,
            // Half of the buckets are empty, so few connections share one.
            divisor: packets.saturating_mul(2).clamp(1024, 1 << 20).next_power_of_two(),
            // The numbers are our own, so they cannot be made to collide.
            perturb: None,
            ..sfq::Config::default()
        })?),
    })
}
