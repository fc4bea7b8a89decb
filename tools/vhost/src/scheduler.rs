//! The scheduled buffer, in which the packets of all virtual machines wait.
//!
//! Both modes use the same qdisc below the same shaper. With `mode = "zd"` a [`Gate`] stands before
//! it. Its flows are the virtual machines: packets lose the identity of their flow on the way from
//! a guest to its host, so the gate pauses the machine (thesis, section 4.3.2). A machine may have
//! several rings. They share its places in the buffer, and the scheduler counts how many each has.

use forebay_discipline::{BuildError, Discipline, Kind};
use forebay_queue::backpressure::{Config, FlowId, FlowPacket, Gate, Hysteresis, Order, Refused};
use forebay_queue::token_bucket::{self, Burst};
use forebay_queue::{
    Backlog, ConfigError, DropReason, DropSink, Drr, Fifo, Limit, Qdisc, StrictPriority,
    TokenBucket, drr, fifo,
};
use forebay_units::{Bytes, Nanos};

use crate::config::{Mode, Schedule, SchedulerConfig, VmConfig};
use crate::offload::MAX_FRAME;
use crate::packet::{Packet, Source};
use crate::session::MAX_PAIRS;

/// Packets that a resumed virtual machine may send while others wait. This is more than zD's two,
/// because each resumption reads a ring in another process's memory.
const TURN: u8 = 8;

type Queue = Box<dyn Qdisc<Packet>>;
type Shaped = TokenBucket<Queue>;

/// Result of offering a packet to the buffer.
#[derive(Debug)]
pub(crate) enum Offered {
    /// The packet waits in the buffer, or was dropped there and passed to the drop sink.
    Accepted,
    /// There is no room; the virtual machine is paused.
    Paused(Packet),
    /// The packet does not fit even into an empty buffer.
    TooLong(Packet),
}

/// The scheduled buffer, with the number of packets that each ring has in it.
pub(crate) struct Scheduler {
    buffer: Buffer,
    in_buffer: Vec<u32>,
}

/// The scheduled buffer, by mode.
enum Buffer {
    /// Packets that do not fit are dropped.
    Drop(Shaped),
    /// Virtual machines without room are paused.
    Zd(Box<Gate<Packet, Shaped>>),
}

/// A drop sink that counts a dropped packet as a departure.
struct Departures<'a> {
    in_buffer: &'a mut [u32],
    drops: &'a mut dyn DropSink<Packet>,
}

impl DropSink<Packet> for Departures<'_> {
    fn dropped(&mut self, packet: Packet, reason: DropReason) {
        self.in_buffer[place(packet.source)] -= 1;
        self.drops.dropped(packet, reason);
    }
}

/// Place of a ring's count.
fn place(ring: Source) -> usize {
    usize::from(ring.vm) * usize::from(MAX_PAIRS) + usize::from(ring.ring)
}

impl FlowPacket for Packet {
    fn flow(&self) -> FlowId {
        FlowId(self.source.vm.into())
    }
}

impl Scheduler {
    /// Creates the buffer of `vms`, which are identified by their index.
    /// The seed of random numbers is for the AQM's decisions and its hashes of flows.
    pub(crate) fn new(
        config: &SchedulerConfig,
        vms: &[VmConfig],
        seed: u64,
    ) -> Result<Self, BuildError> {
        let queue = queue(config, vms, seed)?;
        let (rate, burst) = (config.rate, Burst::Time(config.burst));
        let bucket = token_bucket::Config { rate, burst, late: Nanos::ZERO };
        let shaped = TokenBucket::new(bucket, queue);
        let in_buffer = vec![0; vms.len() * usize::from(MAX_PAIRS)];
        if config.mode == Mode::Drop {
            return Ok(Self { buffer: Buffer::Drop(shaped), in_buffer });
        }
        let gate = Config {
            flows: vms.len() as u32,
            in_buffer: config.in_buffer,
            turn: TURN,
            // Each class has a limit of its own, so virtual machines do not wait for each other's.
            order: Order::Fifo,
            hysteresis: Hysteresis::OneIn(8),
            // This matters only for a limit in bytes.
            largest: Bytes(MAX_FRAME as u64),
        };
        Ok(Self { buffer: Buffer::Zd(Box::new(Gate::new(gate, shaped)?)), in_buffer })
    }

    fn shaped(&self) -> &Shaped {
        match &self.buffer {
            Buffer::Drop(shaped) => shaped,
            Buffer::Zd(gate) => gate.qdisc(),
        }
    }

    /// Number of packets of a ring in the buffer.
    pub(crate) fn in_buffer(&self, ring: Source) -> u32 {
        self.in_buffer[place(ring)]
    }

    /// Whether a packet of `vm` may be taken out of its rings now. If not, the virtual machine is
    /// paused until [`Self::resume`] returns it.
    pub(crate) fn admits(&mut self, now: Nanos, vm: u8) -> bool {
        match &mut self.buffer {
            Buffer::Drop(_) => true,
            Buffer::Zd(gate) => !gate.pause_flow(now, FlowId(vm.into()), vm),
        }
    }

    /// Enqueues a packet.
    pub(crate) fn offer(
        &mut self,
        now: Nanos,
        packet: Packet,
        drops: &mut dyn DropSink<Packet>,
    ) -> Offered {
        let Self { buffer, in_buffer } = self;
        let place = place(packet.source);
        in_buffer[place] += 1;
        let refused = match buffer {
            Buffer::Drop(shaped) => {
                shaped.enqueue(now, packet, &mut Departures { in_buffer, drops });
                return Offered::Accepted;
            }
            Buffer::Zd(gate) => gate.offer(now, packet, &mut Departures { in_buffer, drops }),
        };
        let Err(refused) = refused else { return Offered::Accepted };
        in_buffer[place] -= 1;
        match refused {
            Refused::Paused(packet) => Offered::Paused(packet),
            Refused::Never(packet) => Offered::TooLong(packet),
        }
    }

    /// Removes the next packet, if one may leave now. An AQM may drop packets before it.
    pub(crate) fn dequeue(
        &mut self,
        now: Nanos,
        drops: &mut dyn DropSink<Packet>,
    ) -> Option<Packet> {
        let Self { buffer, in_buffer } = self;
        let mut departures = Departures { in_buffer, drops };
        let packet = match buffer {
            Buffer::Drop(shaped) => shaped.dequeue(now, &mut departures),
            Buffer::Zd(gate) => gate.dequeue(now, &mut departures),
        }?;
        in_buffer[place(packet.source)] -= 1;
        Some(packet)
    }

    /// Resumes a paused virtual machine and returns it; its rings must then be read.
    pub(crate) fn resume(&mut self, now: Nanos) -> Option<u8> {
        match &mut self.buffer {
            Buffer::Drop(_) => None,
            Buffer::Zd(gate) => gate.resume_flow(now).map(|flow| flow.0 as u8),
        }
    }

    /// Reports that `vm` has nothing to send, so that another takes its turn.
    pub(crate) fn idle(&mut self, vm: u8) {
        if let Buffer::Zd(gate) = &mut self.buffer {
            gate.idle(FlowId(vm.into()));
        }
    }

    /// Packets and bytes that wait in the buffer.
    pub(crate) fn backlog(&self) -> Backlog {
        self.shaped().backlog()
    }

    /// Time at which the next packet may leave.
    pub(crate) fn next_event(&self, now: Nanos) -> Option<Nanos> {
        match &self.buffer {
            Buffer::Drop(shaped) => shaped.next_event(now),
            Buffer::Zd(gate) => gate.next_event(now),
        }
    }
}

/// Builds the qdisc below the shaper.
fn queue(config: &SchedulerConfig, vms: &[VmConfig], seed: u64) -> Result<Queue, BuildError> {
    let own = |limit| Fifo::new(fifo::Config { limit });
    let total = vms.iter().map(|vm| u64::from(vm.weight)).sum::<u64>().max(1);
    let child = |vm: &VmConfig| -> Result<Queue, ConfigError> {
        let queue = own(share(config.limit, u64::from(vm.weight), total))?;
        let burst = Burst::Time(config.burst);
        let bucket = token_bucket::Config { rate: vm.rate, burst, late: Nanos::ZERO };
        Ok(if vm.rate.is_some() {
            Box::new(TokenBucket::new(bucket, queue))
        } else {
            Box::new(queue)
        })
    };
    Ok(match config.schedule {
        Schedule::Fifo => Box::new(own(config.limit)?),
        Schedule::Strict => {
            let children = vms.iter().map(child).collect::<Result<_, ConfigError>>()?;
            Box::new(StrictPriority::new(children)?)
        }
        Schedule::Fair => {
            let children = vms.iter().map(|vm| Ok((vm.weight, child(vm)?)));
            let children = children.collect::<Result<Vec<_>, ConfigError>>()?;
            Box::new(Drr::new(drr::Config::default(), children)?)
        }
        Schedule::DualPi2(settings) => Discipline { kind: Kind::DualPi2, settings }.build(seed)?,
    })
}

/// The part of `limit` for `weight` of `total`, with room for at least two packets.
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
