//! FQ-CoDel: fair queueing with CoDel in every queue (RFC 8290).
//!
//! Flows are hashed to queues, which take turns by bytes. A queue that has just become busy is
//! served before those that stay busy, so a flow that sends less than its share hardly waits. CoDel
//! keeps the other queues short.
//!
//! Compared with Linux (6.12, `sch_fq_codel`), rule by rule; for CoDel itself see [`codel`]:
//!
//! | | Linux 6.12 | here |
//! |---|---|---|
//! | defaults: 10 240 packets, 1024 queues, quantum 1514, batch 64, 32 MiB, ECN on | | the same |
//! | turns: credit of a quantum, new queues first, an emptied new one behind the old | | the same |
//! | past a limit | up to 64 packets, at most half of the bytes, from the head of the queue with the most bytes | the same, from one within an eighth of the most; among queues below 2048 bytes from the next in turn |
//! | if that is not enough (one packet larger than many) | the limit is exceeded until the next packet | continues to drop |
//! | such drops | add to CoDel's count for the queue | the same |
//! | memory | of the buffers, some 2300 bytes for a full frame | lengths on the wire, so the limit applies later; neither applies before 10 240 full frames |
//! | CoDel's MTU is compared with | the backlog of all queues | the same |
//! | hash | of addresses and ports, with the kernel's key | the packet's flow hash, mixed with [`Config::seed`] |

mod flow;

use alloc::boxed::Box;
use alloc::vec;

use forebay_units::{Bytes, Nanos};

use self::flow::{Flow, HIGHEST_RANK, View};
use crate::chain::Slab;
use crate::codel;
use crate::error::within;
use crate::flow_hash::{DEFAULT_SEED, FlowHash};
use crate::ranks::Ranks;
use crate::ring::Timed;
use crate::round::{MAX_QUANTUM, MIN_QUANTUM, Round, cost, next_turn};
use crate::{Backlog, ConfigError, DropReason, DropSink, Limit, Packet, Qdisc, Room};
use forebay_prefetch::prefetch_at;

/// The configuration of an [`FqCodel`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The limit in packets of all queues together; 10 240 by default (RFC 8290 section 5.2.3).
    pub limit: u32,
    /// The limit in bytes of all queues together; 32 MiB by default, as in Linux. It counts lengths
    /// on the wire, not the memory of buffers.
    pub memory_limit: Bytes,
    /// The number of queues that flows are hashed to; 1024 by default (RFC 8290 section 5.2.5).
    pub flows: u32,
    /// Bytes that a flow may send in its turn; a full Ethernet frame of 1514 bytes by default (RFC
    /// 8290 section 5.2.4).
    pub quantum: Bytes,
    /// The most packets dropped from the head of the longest queue when a limit is reached, but at
    /// most half of that queue; 64 by default (RFC 8290 section 4.1).
    pub drop_batch: u32,
    /// The parameters of CoDel; the defaults of [`codel::Params`] with ECN on (RFC 8290 section
    /// 5.2.6). The MTU is compared with the backlog of all queues, as in Linux.
    pub codel: codel::Params,
    /// The seed of the hash. Draw it at random if untrusted senders could choose flows that
    /// collide.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 10_240,
            memory_limit: Bytes(32 << 20),
            flows: 1024,
            quantum: Bytes(1514),
            drop_batch: 64,
            codel: codel::Params { ecn: true, ..codel::Params::default() },
            seed: DEFAULT_SEED,
        }
    }
}

impl Config {
    /// The largest number of queues.
    pub const MAX_FLOWS: u32 = 1 << 24;
    /// The largest memory limit, a little under 2 GiB.
    pub const MAX_MEMORY: Bytes = Bytes(i32::MAX as u64);

    fn check(&self) -> Result<(), ConfigError> {
        within("limit", u64::from(self.limit), 1, u64::from(Limit::MAX_PACKETS))?;
        within("memory_limit", self.memory_limit.0, 1, Self::MAX_MEMORY.0)?;
        within("flows", u64::from(self.flows), 1, u64::from(Self::MAX_FLOWS))?;
        within("quantum", self.quantum.0, MIN_QUANTUM, MAX_QUANTUM)?;
        within("drop_batch", u64::from(self.drop_batch), 1, u64::from(Limit::MAX_PACKETS))?;
        self.codel.check()
    }
}

/// A fair queue over flows, with CoDel on each.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    config: Config,
    quantum: i32,
    hash: FlowHash,
    flows: Box<[Flow]>,
    packets: Slab<Timed<P>>,
    ranks: Ranks,
    /// The queues in their first turn since they became busy.
    new: Round,
    /// The other queues in the round. A queue that became empty leaves when its turn comes.
    old: Round,
    backlog: Backlog,
}

impl<P: Packet> FqCodel<P> {
    /// Creates an empty qdisc and allocates its flow table.
    ///
    /// # Errors
    /// Fails if a table or limit is zero or too large, the quantum is below 256 bytes or above a
    /// megabyte, or CoDel's parameters are refused (see [`codel::Codel::new`]).
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            quantum: cost(config.quantum),
            hash: FlowHash::new(config.seed, config.flows),
            flows: vec![Flow::IDLE; config.flows as usize].into(),
            packets: Slab::new(),
            ranks: Ranks::new(HIGHEST_RANK),
            new: Round::new(config.flows),
            old: Round::new(config.flows),
            backlog: Backlog::default(),
            config,
        })
    }

    /// Returns the drop reason of the limit that is exceeded, if any.
    fn excess(&self) -> Option<DropReason> {
        if self.backlog.packets > u64::from(self.config.limit) {
            Some(DropReason::PacketLimit)
        } else if self.backlog.bytes > self.config.memory_limit {
            Some(DropReason::ByteLimit)
        } else {
            None
        }
    }

    /// Drops up to half of the longest queue from its head.
    ///
    /// A batch finds the longest queue once for many packets of a flood, and the sender learns of
    /// the loss early.
    fn drop_batch(&mut self, reason: DropReason, drops: &mut dyn DropSink<P>) {
        let Some(index) = self.ranks.highest().or_else(|| self.first_busy()) else { return };
        let flow = &mut self.flows[index as usize];
        let half = flow.bytes / 2;
        let mut dropped = 0;
        while dropped < self.config.drop_batch {
            let Some(head) = flow.pop(&mut self.packets, &mut self.backlog) else { break };
            drops.dropped(head.packet, reason);
            dropped += 1;
            if flow.bytes <= half {
                break;
            }
        }
        flow.overflowed(dropped);
        let rank = flow.rank();
        self.ranks.set(&mut self.flows, index, rank);
    }

    /// Returns the next queue in turn that has packets, old queues first.
    ///
    /// It is used when no queue is long enough to be ranked. Empty queues leave the round, as in
    /// `dequeue`.
    fn first_busy(&mut self) -> Option<u32> {
        loop {
            let round = if self.old.front().is_some() { &mut self.old } else { &mut self.new };
            let index = round.front()?;
            let flow = &mut self.flows[index as usize];
            if !flow.packets.is_empty() {
                return Some(index);
            }
            flow.in_round = false;
            round.pop_front();
        }
    }

    /// Prefetches what the turns after the next will access.
    fn prefetch_ahead(&self) {
        let round = if self.new.front().is_some() { &self.new } else { &self.old };
        let ahead = round.ahead();
        if let Some(index) = ahead.flow {
            prefetch_at(&self.flows, index);
        }
        if let Some(index) = ahead.packet_of {
            let flow = &self.flows[index as usize];
            self.packets.prefetch_head(flow.packets);
            Ranks::prefetch(&self.flows, flow.link);
        }
    }
}

impl<P: Packet> Qdisc<P> for FqCodel<P> {
    /// Enqueues as RFC 8290 section 4.1 describes.
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        let len = packet.len();
        if len > self.config.memory_limit {
            drops.dropped(packet, DropReason::ByteLimit);
            return;
        }
        let index = self.hash.bucket(packet.flow_hash());
        let flow = &mut self.flows[index as usize];
        self.packets.push_back(&mut flow.packets, Timed { packet, enqueued: now });
        flow.bytes += len.0 as u32;
        self.backlog.packets += 1;
        self.backlog.bytes += len;
        let (rank, idle) = (flow.rank(), !flow.in_round);
        self.ranks.set(&mut self.flows, index, rank);
        if idle {
            let flow = &mut self.flows[index as usize];
            flow.in_round = true;
            flow.credit = self.quantum;
            self.new.push_back(index);
        }
        while let Some(reason) = self.excess() {
            self.drop_batch(reason, drops);
        }
    }

    /// Dequeues as RFC 8290 section 4.2 describes.
    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        loop {
            let from_new = self.new.front().is_some();
            let round = if from_new { &mut self.new } else { &mut self.old };
            let index = round.front()?;
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                round.pop_front();
                self.old.push_back(index);
                self.prefetch_ahead();
                continue;
            }
            let (sent, rank) = flow.dequeue(
                now,
                &self.config.codel,
                View { packets: &mut self.packets, backlog: &mut self.backlog },
                drops,
            );
            if let Some(packet) = &sent {
                flow.credit = flow.credit.saturating_sub(cost(packet.len()));
            }
            self.ranks.set(&mut self.flows, index, rank);
            if sent.is_some() {
                return sent;
            }
            round.pop_front();
            // An empty new queue moves behind the old ones. Otherwise it could starve them by
            // becoming empty and new again (RFC 8290 section 4.2).
            if from_new && self.old.front().is_some() {
                self.old.push_back(index);
            } else {
                self.flows[index as usize].in_round = false;
            }
            self.prefetch_ahead();
        }
    }

    /// Returns the next packet. In the worst case this walks over all queues in the round.
    fn peek(&self) -> Option<&P> {
        let rounds = self.new.iter().chain(self.old.iter());
        let flows = rounds.map(|index| &self.flows[index as usize]);
        let busy = flows.filter(|flow| !flow.packets.is_empty());
        let turn = next_turn(busy.map(|flow| (flow.packets, flow.credit, self.quantum)))?;
        self.packets.front(turn).map(|head| &head.packet)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn probe(&self, _now: Nanos, packet: &P) -> bool {
        self.backlog.packets < u64::from(self.config.limit)
            && packet.len() <= self.config.memory_limit.saturating_sub(self.backlog.bytes)
    }

    fn room(&self, _class: u8) -> Room {
        let packets = u64::from(self.config.limit).saturating_sub(self.backlog.packets);
        Room { packets, bytes: self.config.memory_limit.saturating_sub(self.backlog.bytes) }
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (self.backlog.packets > 0).then_some(now)
    }

    fn prefetch(&self, packet: &P) {
        // Reads the flow instead of prefetching it, see `sfq::Flows::prefetch`.
        let flow = &self.flows[self.hash.bucket(packet.flow_hash()) as usize];
        self.packets.prefetch_tail(flow.packets);
        Ranks::prefetch(&self.flows, flow.link);
    }
}
