//! FQ-CoDel: fair queueing with CoDel in every queue (RFC 8290).
//!
//! Flows are hashed to queues, which take turns by bytes. A queue that has just become busy is
//! served before those that stay busy, so a flow that sends less than its share hardly waits; CoDel
//! keeps the queues of the others short.
//!
//! Compared with Linux (6.12, `sch_fq_codel`), rule by rule; for CoDel itself see [`codel`]:
//!
//! | | Linux 6.12 | here |
//! |---|---|---|
//! | defaults: 10 240 packets, 1024 queues, quantum 1514, batch 64, 32 MiB, ECN on | | the same |
//! | turns: credit of a quantum, new queues first, an emptied new one behind the old | | the same |
//! | past a limit | up to 64 packets, at most half of the bytes, from the head of the queue with the most bytes | the same, from one within an eighth of the most; among queues below 2048 bytes from the next in turn |
//! | if that does not suffice (one packet larger than many) | the limit is exceeded until the next packet | goes on dropping |
//! | such drops | add to CoDel's count for the queue | the same |
//! | memory | of the buffers, some 2300 bytes for a full frame | lengths on the wire; binds later, and neither before 10 240 full frames |
//! | CoDel's MTU is compared with | what waits in all queues | the same |
//! | hash | of addresses and ports, with the kernel's own key | the packet's flow hash, mixed with [`Config::seed`] |

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

/// How an [`FqCodel`] is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Packets that may wait in all; by default 10 240 (RFC 8290 section 5.2.3).
    pub limit: u32,
    /// Bytes that may wait in all; by default 32 MB, as in Linux. Lengths on the wire are counted,
    /// not the memory that buffers take.
    pub memory_limit: Bytes,
    /// Queues that flows are hashed to; by default 1024 (RFC 8290 section 5.2.5).
    pub flows: u32,
    /// Bytes a flow may send in its turn; by default a full Ethernet frame, 1514 (RFC 8290 section
    /// 5.2.4).
    pub quantum: Bytes,
    /// When a limit is reached, up to this many packets, but not more than half of what waits
    /// there, are dropped from the head of the longest queue; by default 64 (RFC 8290 section 4.1).
    pub drop_batch: u32,
    /// CoDel's parameters; the defaults of [`codel::Params`], but ECN on (RFC 8290 section 5.2.6).
    /// Its MTU is compared with what waits in all queues, as in Linux.
    pub codel: codel::Params,
    /// Seeds the hash. Draw it at random where strangers could make their flows collide.
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
    /// The most queues.
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

/// Fair queueing over flows, each under CoDel.
#[derive(Clone, Debug)]
pub struct FqCodel<P> {
    config: Config,
    quantum: i32,
    hash: FlowHash,
    flows: Box<[Flow]>,
    packets: Slab<Timed<P>>,
    ranks: Ranks,
    /// Queues in their first turn since they became busy.
    new: Round,
    /// The other queues that take turns. Those that became empty leave when their turn comes.
    old: Round,
    backlog: Backlog,
}

impl<P: Packet> FqCodel<P> {
    /// An empty queue, its flow table allocated.
    ///
    /// # Errors
    /// If a table or limit is empty or too large, the quantum is below 256 bytes or above a
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

    /// The limit that is exceeded, if any.
    fn excess(&self) -> Option<DropReason> {
        if self.backlog.packets > u64::from(self.config.limit) {
            Some(DropReason::PacketLimit)
        } else if self.backlog.bytes > self.config.memory_limit {
            Some(DropReason::ByteLimit)
        } else {
            None
        }
    }

    /// Drops up to half of the longest queue from its head, in one go: a flood then pays the price
    /// of finding it once for many packets, and its sender hears of the loss at once.
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

    /// The queue that is next in turn and has packets, old ones first; used when no queue is long
    /// enough to be ranked. Queues found empty leave as they would in `dequeue`.
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

    /// Asks for what the turns after the next will touch.
    fn look_ahead(&self) {
        let round = if self.new.front().is_some() { &self.new } else { &self.old };
        let (flow, packet) = round.ahead();
        if let Some(index) = flow {
            prefetch_at(&self.flows, index);
        }
        if let Some(index) = packet {
            let flow = &self.flows[index as usize];
            self.packets.prefetch_head(flow.packets);
            Ranks::prefetch(&self.flows, flow.link);
        }
    }
}

impl<P: Packet> Qdisc<P> for FqCodel<P> {
    /// RFC 8290 section 4.1.
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

    /// RFC 8290 section 4.2.
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
                self.look_ahead();
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
            // An empty new queue waits behind the old ones for its next turn as a new one, or it
            // could starve them by emptying and coming back (RFC 8290 section 4.2).
            if from_new && self.old.front().is_some() {
                self.old.push_back(index);
            } else {
                self.flows[index as usize].in_round = false;
            }
            self.look_ahead();
        }
    }

    /// Walks past the queues that have used up their turn or are empty, all of them in the worst
    /// case.
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
        // Read and not asked for, see `sfq::Flows::prefetch`.
        let flow = &self.flows[self.hash.bucket(packet.flow_hash()) as usize];
        self.packets.prefetch_tail(flow.packets);
        Ranks::prefetch(&self.flows, flow.link);
    }
}
