//! Stochastic fairness queueing: a fair share of the link for every flow.
//!
//! A hash maps flows to buckets, so two flows may share a bucket. The hash changes periodically, so
//! that the same flows do not collide for long (McKenney, "Stochastic fairness queueing", INFOCOM
//! 1990). Flows take turns by bytes (deficit round robin). A full queue drops a packet of the flow
//! with the most packets. The behaviour is that of Linux's `sch_sfq`, without its limit of 127
//! packets.
//!
//! Compared with Linux (6.12, `sch_sfq`), rule by rule:
//!
//! | | Linux 6.12 | here |
//! |---|---|---|
//! | defaults | 127 packets, 127 per flow, 128 flows, no perturbation | 1250, 1250, 1024, 10 s; Linux's by [`Config::linux`] |
//! | divisor 1024, quantum 1514, drops at the tail | | the same |
//! | a flow's packets | at most 127, whatever is configured | as configured |
//! | past the limit | the newest packet (or oldest, `headdrop`) of the longest flow, the latest to reach that length; with one packet each, the flow next in turn | the same |
//! | a flow's own limit | the new packet is dropped, or with `headdrop` the flow's oldest | the same, but the last packet of a flow always stays |
//! | a new flow | behind the others, with a full quantum | the same |
//! | credit | in units of 8 bytes, rounded up | in bytes |
//! | perturbation | by a timer; waiting packets are distributed again | at the first dequeue after it is due; the same |
//! | RED inside a flow | optional | none |

mod flows;

use forebay_units::{Bytes, Nanos};

use self::flows::Flows;
use crate::chain::{Chain, Slab};
use crate::error::within;
use crate::flow_hash::{DEFAULT_SEED, FlowHash};
use crate::round::{MAX_QUANTUM, MIN_QUANTUM, cost};
use crate::{Backlog, ConfigError, DropReason, DropSink, Limit, Packet, Qdisc, Room};

/// The configuration of an [`Sfq`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The limit in packets of all flows together. The default of 1250 is that of the Bundler
    /// evaluation's sendbox (15 Mbit), 157 ms of full packets at 96 Mbit/s. Linux's default of 127
    /// is 16 ms.
    pub limit: u32,
    /// The number of flows that may have packets at a time; packets of further flows are dropped.
    /// The default of 1024 is the number of buckets, so that this never happens (Linux: 128).
    pub flows: u32,
    /// The limit in packets of one flow. The default of 1250 is the limit of all flows: a full
    /// queue drops from the longest flow, so no lower limit is needed.
    pub depth: u32,
    /// The number of buckets of the hash table, a power of two; 1024 by default, as in Linux.
    pub divisor: u32,
    /// Bytes that a flow may send in its turn; a full Ethernet frame of 1514 bytes by default, as
    /// in Linux.
    pub quantum: Bytes,
    /// The period at which the hash changes; 10 s by default, as the manual page of `tc-sfq`
    /// advises.
    ///
    /// A change distributes every waiting packet again, which takes about 50 microseconds for a
    /// thousand packets. For queues of very many packets choose a long period or `None`.
    pub perturb: Option<Nanos>,
    /// Drops the oldest instead of the newest packet of a flow; a flow with a single packet always
    /// loses the newest. Off by default, as in Linux.
    pub head_drop: bool,
    /// The seed of the hash. Draw it at random if untrusted senders could choose flows that
    /// collide.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 1250,
            flows: 1024,
            depth: 1250,
            divisor: 1024,
            quantum: Bytes(1514),
            perturb: Some(Nanos::from_secs(10)),
            head_drop: false,
            seed: DEFAULT_SEED,
        }
    }
}

impl Config {
    /// The largest number of buckets, and of flows at a time.
    pub const MAX_FLOWS: u32 = 1 << 24;

    /// Returns the configuration of Linux's `tc qdisc add ... sfq limit N`, for comparison: at most
    /// 127 packets per flow and 128 flows, no perturbation. Linux's default `limit` is 127.
    #[must_use]
    pub fn linux(limit: u32) -> Self {
        const DEPTH: u32 = 127;
        const FLOWS: u32 = 128;
        let limit = limit.min(DEPTH * FLOWS);
        let flows = limit.min(FLOWS);
        Self { limit, flows, depth: DEPTH, perturb: None, ..Self::default() }
    }

    fn check(&self) -> Result<(), ConfigError> {
        within("limit", u64::from(self.limit), 1, u64::from(Limit::MAX_PACKETS))?;
        within("flows", u64::from(self.flows), 1, u64::from(Self::MAX_FLOWS))?;
        within("depth", u64::from(self.depth), 1, u64::from(Limit::MAX_PACKETS))?;
        within("divisor", u64::from(self.divisor), 1, u64::from(Self::MAX_FLOWS))?;
        within("quantum", self.quantum.0, MIN_QUANTUM, MAX_QUANTUM)?;
        if let Some(period) = self.perturb {
            within("perturb", period.0, 1, u64::MAX)?;
        }
        if !self.divisor.is_power_of_two() {
            let value = u64::from(self.divisor);
            return Err(ConfigError::NotPowerOfTwo { setting: "divisor", value });
        }
        Ok(())
    }
}

/// A stochastic fairness queue over flows.
#[derive(Clone, Debug, Hash)]
pub struct Sfq<P> {
    limit: u64,
    depth: u32,
    quantum: i32,
    head_drop: bool,
    perturb: Option<Nanos>,
    next_perturb: Nanos,
    hash: FlowHash,
    flows: Flows,
    max_open: usize,
    packets: Slab<P>,
    backlog: Backlog,
}

impl<P: Packet> Sfq<P> {
    /// Creates an empty qdisc and allocates its flow tables.
    ///
    /// # Errors
    /// Fails if a table or limit is zero or too large, the divisor is not a power of two, or the
    /// quantum is below 256 bytes or above a megabyte.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let depth = config.depth.min(config.limit);
        Ok(Self {
            limit: u64::from(config.limit),
            depth,
            quantum: cost(config.quantum),
            head_drop: config.head_drop,
            perturb: config.perturb,
            next_perturb: config.perturb.unwrap_or(Nanos::MAX),
            hash: FlowHash::new(config.seed, config.divisor),
            flows: Flows::new(config.divisor, config.flows.min(config.divisor), depth),
            max_open: config.flows as usize,
            packets: Slab::new(),
            backlog: Backlog::default(),
        })
    }

    /// Appends `packet` to its flow, or drops it at the limits of flows. The caller checks the
    /// limit of the whole queue.
    fn place(&mut self, packet: P, drops: &mut dyn DropSink<P>) {
        let flow = self.hash.bucket(packet.flow_hash());
        let len = self.flows.len(flow);
        if len == 0 && self.flows.open() >= self.max_open {
            drops.dropped(packet, DropReason::FlowTableFull);
            return;
        }
        if len >= self.depth {
            let full = self.backlog.packets >= self.limit;
            let reason = if full { DropReason::PacketLimit } else { DropReason::FlowLimit };
            // The last packet stays; otherwise the flow would have to leave the round and rejoin
            // it.
            if !self.head_drop || len == 1 {
                drops.dropped(packet, reason);
                return;
            }
            self.drop_one(flow, reason, drops);
        }
        self.backlog.packets += 1;
        self.backlog.bytes += packet.len();
        self.flows.push(flow, packet, &mut self.packets, self.quantum);
    }

    /// Drops one packet of `flow`.
    fn drop_one(&mut self, flow: u32, reason: DropReason, drops: &mut dyn DropSink<P>) {
        if let Some(packet) = self.flows.pop(flow, &mut self.packets, self.head_drop) {
            self.left(packet.len());
            drops.dropped(packet, reason);
        }
    }

    fn left(&mut self, len: Bytes) {
        self.backlog.packets -= 1;
        self.backlog.bytes -= len;
    }

    /// Changes the hash and distributes all packets again.
    ///
    /// The packets of a flow are in order in one chain before and after, so they keep their order.
    /// Flows that now share a bucket may exceed its limit, and packets are dropped then.
    fn perturb(&mut self, drops: &mut dyn DropSink<P>) {
        self.hash.reseed();
        let mut all = Chain::EMPTY;
        while let Some(mut chain) = self.flows.pop_first_flow() {
            self.packets.append(&mut all, &mut chain);
        }
        self.backlog = Backlog::default();
        while let Some(packet) = self.packets.pop_front(&mut all) {
            self.place(packet, drops);
        }
    }
}

impl<P: Packet> Qdisc<P> for Sfq<P> {
    fn enqueue(&mut self, _now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        self.place(packet, drops);
        if self.backlog.packets <= self.limit {
            return;
        }
        if let Some(longest) = self.flows.longest() {
            self.drop_one(longest, DropReason::PacketLimit, drops);
        } else if let Some(first) = self.flows.first() {
            // No flow has more than one packet: drops that of the flow next in turn.
            self.drop_one(first, DropReason::PacketLimit, drops);
            self.flows.close_first(&self.packets);
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        // Here and not in `enqueue`, so that what `probe` promised holds.
        if let Some(period) = self.perturb.filter(|_| now >= self.next_perturb) {
            self.next_perturb = now.saturating_add(period);
            self.perturb(drops);
        }
        let flow = self.flows.next_turn(self.quantum, &self.packets)?;
        let packet = self.flows.pop(flow, &mut self.packets, true)?;
        self.flows.charge(flow, cost(packet.len()));
        if self.flows.len(flow) == 0 {
            self.flows.close_first(&self.packets);
        }
        self.left(packet.len());
        Some(packet)
    }

    /// Returns the next packet. In the worst case this walks over all flows in the round.
    fn peek(&self) -> Option<&P> {
        self.packets.front(self.flows.peek_turn(self.quantum)?)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn probe(&self, _now: Nanos, packet: &P) -> bool {
        let len = self.flows.len(self.hash.bucket(packet.flow_hash()));
        let room = len > 0 || self.flows.open() < self.max_open;
        room && len < self.depth && self.backlog.packets < self.limit
    }

    fn room(&self, _class: u8) -> Room {
        Room { packets: self.limit.saturating_sub(self.backlog.packets), ..Room::UNLIMITED }
    }

    fn prefetch(&self, packet: &P) {
        self.flows.prefetch(self.hash.bucket(packet.flow_hash()), &self.packets);
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (self.backlog.packets > 0).then_some(now)
    }
}
