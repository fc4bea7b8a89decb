//! The scheduled buffer: what all virtual machines' packets wait in, and who is told when it is full.
//!
//! In both modes it is the same qdisc below the same shaper. With `mode = "zd"` a [`Gate`] stands
//! before it, whose flows are the virtual machines: packets lose their flows' identity on the way
//! from a guest to its host, so what is paused is the ring (thesis, section 4.3.2).

use forebay_queue::backpressure::{Config, FlowId, FlowPacket, Gate, Hysteresis, Order, Refused};
use forebay_queue::token_bucket::{self, Burst};
use forebay_queue::{
    Backlog, ConfigError, DropReason, DropSink, Drr, Fifo, Limit, Qdisc, StrictPriority,
    TokenBucket, drr, fifo,
};
use forebay_units::{Bytes, Nanos};

use crate::config::{Mode, Schedule, SchedulerConfig, VmConfig};
use crate::offload::MAX_FRAME;
use crate::packet::Packet;

/// Packets that a virtual machine may send in its turn while others wait. More than zD's two, since a
/// resume costs a look at a ring in another process's memory.
const TURN: u8 = 8;

type Queue = Box<dyn Qdisc<Packet>>;
type Shaped = TokenBucket<Queue>;

/// What became of a packet that was offered.
#[derive(Debug)]
pub(crate) enum Offered {
    /// It waits in the buffer, or was dropped there, which the sink heard.
    In,
    /// There is no room: the virtual machine is paused.
    Paused(Packet),
    /// It fits not even into an empty buffer.
    Never(Packet),
}

/// The scheduled buffer of a mode.
pub(crate) enum Scheduler {
    Drop(Shaped),
    Zd(Box<Gate<Packet, Shaped>>),
}

impl FlowPacket for Packet {
    fn flow(&self) -> FlowId {
        FlowId(self.vm.into())
    }
}

impl Scheduler {
    /// Of `vms`, by their index.
    pub(crate) fn new(config: &SchedulerConfig, vms: &[VmConfig]) -> Result<Self, ConfigError> {
        let queue = queue(config, vms)?;
        let bucket = token_bucket::Config { rate: config.rate, burst: Burst::Time(config.burst) };
        let shaped = TokenBucket::new(bucket, queue);
        if config.mode == Mode::Drop {
            return Ok(Self::Drop(shaped));
        }
        let gate = Config {
            flows: vms.len() as u32,
            in_buffer: config.in_buffer,
            turn: TURN,
            // Classes have limits of their own, so within one nobody waits for another.
            order: Order::Fifo,
            hysteresis: Hysteresis::OneIn(8),
            // Only where a limit is in bytes does it matter how long a packet may be.
            largest: Bytes(MAX_FRAME as u64),
        };
        Ok(Self::Zd(Box::new(Gate::new(gate, shaped)?)))
    }

    fn shaped(&self) -> &Shaped {
        match self {
            Self::Drop(shaped) => shaped,
            Self::Zd(gate) => gate.qdisc(),
        }
    }

    /// Whether a packet of `vm` may be taken out of its ring now. If not, the virtual machine is paused
    /// until [`Self::resume`] names it.
    pub(crate) fn admits(&mut self, now: Nanos, vm: u8) -> bool {
        match self {
            Self::Drop(_) => true,
            Self::Zd(gate) => !gate.pause_flow(now, FlowId(vm.into()), vm),
        }
    }

    /// Enqueues a packet.
    pub(crate) fn offer(
        &mut self,
        now: Nanos,
        packet: Packet,
        drops: &mut dyn DropSink<Packet>,
    ) -> Offered {
        match self {
            Self::Drop(shaped) => {
                shaped.enqueue(now, packet, drops);
                Offered::In
            }
            Self::Zd(gate) => match gate.offer(now, packet, drops) {
                Ok(()) => Offered::In,
                Err(Refused::Paused(packet)) => Offered::Paused(packet),
                Err(Refused::Never(packet)) => Offered::Never(packet),
            },
        }
    }

    /// The next packet to send, if one may leave now.
    pub(crate) fn dequeue(&mut self, now: Nanos) -> Option<Packet> {
        // None of these queues drops a packet that it has taken.
        let mut none = |_: Packet, _: DropReason| {};
        match self {
            Self::Drop(shaped) => shaped.dequeue(now, &mut none),
            Self::Zd(gate) => gate.dequeue(now, &mut none),
        }
    }

    /// A virtual machine that is paused no longer; its ring is to be looked at.
    pub(crate) fn resume(&mut self, now: Nanos) -> Option<u8> {
        match self {
            Self::Drop(_) => None,
            Self::Zd(gate) => gate.resume_flow(now).map(|flow| flow.0 as u8),
        }
    }

    /// `vm` has nothing to send: its turn goes to another.
    pub(crate) fn idle(&mut self, vm: u8) {
        if let Self::Zd(gate) = self {
            gate.idle(FlowId(vm.into()));
        }
    }

    /// What waits.
    pub(crate) fn backlog(&self) -> Backlog {
        self.shaped().backlog()
    }

    /// When there is next a packet to send.
    pub(crate) fn next_event(&self, now: Nanos) -> Option<Nanos> {
        match self {
            Self::Drop(shaped) => shaped.next_event(now),
            Self::Zd(gate) => gate.next_event(now),
        }
    }
}

/// The qdisc below the shaper.
fn queue(config: &SchedulerConfig, vms: &[VmConfig]) -> Result<Queue, ConfigError> {
    let own = |limit| Fifo::new(fifo::Config { limit });
    let total = vms.iter().map(|vm| u64::from(vm.weight)).sum::<u64>().max(1);
    let child = |vm: &VmConfig| -> Result<Queue, ConfigError> {
        let queue = own(share(config.limit, u64::from(vm.weight), total))?;
        let burst = Burst::Time(config.burst);
        let bucket = token_bucket::Config { rate: vm.rate, burst };
        Ok(if vm.rate.is_some() {
            Box::new(TokenBucket::new(bucket, queue))
        } else {
            Box::new(queue)
        })
    };
    Ok(match config.schedule {
        Schedule::Fifo => Box::new(own(config.limit)?),
        Schedule::Strict => {
            Box::new(StrictPriority::new(vms.iter().map(child).collect::<Result<_, _>>()?)?)
        }
        Schedule::Fair => {
            let children = vms.iter().map(|vm| Ok((vm.weight, child(vm)?)));
            let children = children.collect::<Result<Vec<_>, ConfigError>>()?;
            Box::new(Drr::new(drr::Config::default(), children)?)
        }
    })
}

/// What part of `limit` is for `weight` of `total`: room for two packets at least.
fn share(limit: Limit, weight: u64, total: u64) -> Limit {
    let part = |whole: u64, least: u64| (whole.saturating_mul(weight) / total).max(least);
    Limit {
        packets: part(limit.packets.into(), 2) as u32,
        bytes: limit.bytes.map(|b| Bytes(part(b.0, 2 * MAX_FRAME as u64))),
        time: None,
    }
}

#[cfg(test)]
mod tests;
