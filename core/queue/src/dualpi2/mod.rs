//! DualPI2: a shallow queue for L4S traffic (the L queue) and one for other traffic (the C queue),
//! with coupled congestion signals (RFC 9332).
//!
//! The coupling lets both kinds of senders share the link evenly without per-flow state. PI2 holds
//! the C queue at its target: every `tupdate` a controller updates the base probability p', and
//! classic packets are dropped (or marked) with p'^2. L4S packets are marked with k p', or with the
//! probability of a native AQM on their own queue delay if that is higher. The L queue has bounded
//! priority. Once L4S marking saturates at 100 %, the classic drop probability applies to all
//! packets.
//!
//! [`Base`] has the AQM that computes p': PI2's controller, or Curvy RED (RFC 9332 appendix B). All
//! that follows from p' is the same with both.
//!
//! There are two profiles, and every parameter can be set:
//!
//! | | [`Config::rfc9332`] (RFC 9332 appendix A) | [`Config::paper`] (De Schepper et al., 2017, Table 1) |
//! |---|---|---|
//! | target, update | 15 ms, 15 ms | 15 ms, 16 ms |
//! | alpha, beta | 0.15 Hz, 3 Hz | 5/16 Hz, 50/16 Hz |
//! | coupling k | 2 | 2 |
//! | controller's input | the greater of the two delays | the classic delay; that of the L queue if there is no classic packet |
//! | native L4S AQM | ramp from 0.8 to 1.2 ms | step at 1 ms |
//! | native AQM acts on | queues of two packets or more, including the departing one | the same |
//! | choice of packets | deterministic | random |
//! | scheduler | weighted round robin, 15 : 1 | time-shifted FIFO, 30 ms |
//! | limit | 10 000 packets (250 ms of bytes by [`Config::for_link`]) | 40 000 packets |
//!
//! [`Config::linux`] is the RFC's profile with the defaults of Linux: a step at 1 ms, random
//! choice, and a tenth of the link for the C queue.
//!
//! Choices where RFC 9332 leaves them open:
//!
//! - The base probability p' is clamped to 0 and 1.
//! - The L queue counts deterministic marks and drops separately, and neither count exceeds one
//!   signal.
//! - With less than two full frames waiting there are no coupled or classic signals, as in Linux.
//! - The credit of the round robin changes only while both queues have packets. It is reset in
//!   favour of L4S when a packet finds both queues empty.
//!
//! The L queue receives packets with ECT(1) or CE. If a class is configured for one of the queues,
//! [`Packet::class`] decides instead, so a classifier can select by address, DSCP or VLAN (RFC 9332
//! section 2.3). A packet in a queue that does not expect its ECN field gets these signals (RFC
//! 9332 section 2.5.1.1):
//!
//! | packet | in the L queue | in the C queue |
//! |---|---|---|
//! | ECT(1) | mark, p_L = max(native, k p') | mark, k p' |
//! | ECT(0) | mark, (p_L / k)^2 | mark, p'^2 |
//! | Not-ECT | drop, (p_L / k)^2; nothing with [`Config::queue_protection`] | drop, p'^2 |
//!
//! With [`Config::bursts`] the C queue also receives the packets of flows that send large bursts
//! again and again, whatever their ECN field.

mod aqm;
mod base;
mod bursts;
mod config;
mod curvy_red;
mod histogram;
mod native;
mod overload;
mod scheduler;
mod stats;

use forebay_units::{Bytes, Nanos};

pub use self::base::Base;
pub use self::bursts::BurstLimit;
pub use self::config::{Config, Input, Saturation};
pub use self::curvy_red::CurvyRed;
pub use self::native::Ramp;
pub use self::overload::{Episode, Overload};
pub use self::scheduler::Schedule;
pub use self::stats::{ByEcn, Counters, Delays, Interval, QueueInterval};

use self::base::Control;
use self::bursts::Bursts;
use self::overload::Monitor;
use self::scheduler::{QueueKind, Scheduler};
use self::stats::Stats;
use crate::coupled::{Coins, Verdict};
use crate::pi2::check_coupling;
use crate::ring::Ring;
use crate::{Backlog, ConfigError, DropReason, DropSink, Ecn, Limit, Packet, Qdisc, Room};

/// One of the two queues with its decisions and statistics.
#[derive(Clone, Debug)]
struct Lane<P> {
    queue: Ring<P>,
    coins: Coins,
    stats: Stats,
}

impl<P: Packet> Lane<P> {
    fn new(config: &Config, seed: u64) -> Result<Self, ConfigError> {
        // The limit applies to both queues together and is checked before.
        let queue = Ring::new(Limit::packets(config.limit))?;
        Ok(Self { queue, coins: Coins::new(config.marking, seed), stats: Stats::new() })
    }
}

/// Two coupled queues for L4S and classic traffic.
#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    config: Config,
    /// The classic probability at which overload begins, p_Cmax.
    max_classic: f64,
    control: Control,
    scheduler: Scheduler,
    overload: Monitor,
    bursts: Option<Bursts>,
    low_latency: Lane<P>,
    classic: Lane<P>,
    interval_start: Nanos,
}

impl<P: Packet> DualPi2<P> {
    /// Creates empty queues.
    ///
    /// # Errors
    /// Fails if
    /// - a limit admits no packet, or the target or the MTU is zero,
    /// - the update time is below a microsecond,
    /// - a time is above [`crate::pi2::Params::MAX_TIME`] (also of the native AQM, the scheduler,
    ///   overload and bursts),
    /// - the rate or the largest burst of a [`BurstLimit`] is zero,
    /// - a gain is negative or above [`crate::pi2::Params::MAX_GAIN`],
    /// - the weight of [`CurvyRed`] is below [`CurvyRed::MIN_WEIGHT`] or above one, or its range is
    ///   zero,
    /// - the coupling factor is below 1 or above 1000,
    /// - the classic maximum is not a probability, or
    /// - a weight is zero or above 1000.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let max_classic = check_coupling(config.coupling, config.max_classic)?;
        let most = match config.on_saturation {
            Saturation::Drop => 1.0,
            Saturation::Delay => 1.0 / config.coupling,
        };
        Ok(Self {
            max_classic,
            control: Control::new(config.base, most),
            scheduler: Scheduler::new(config.schedule, config.mtu),
            overload: Monitor::new(config.overload_hold),
            bursts: config.bursts.map(|limit| Bursts::new(limit, config.seed)),
            low_latency: Lane::new(&config, config.seed)?,
            classic: Lane::new(&config, config.seed.rotate_left(32))?,
            interval_start: Nanos::ZERO,
            config,
        })
    }

    /// Returns the base probability p' as of the last enqueue or dequeue, from 0 to 1.
    pub fn probability(&self) -> f64 {
        self.control.base()
    }

    /// Returns the backlog of the L queue.
    pub fn low_latency_backlog(&self) -> Backlog {
        self.low_latency.queue.backlog()
    }

    /// Returns the backlog of the C queue.
    pub fn classic_backlog(&self) -> Backlog {
        self.classic.queue.backlog()
    }

    /// Returns the counters of the L queue since its creation.
    pub fn low_latency_counters(&self) -> Counters {
        self.low_latency.stats.counters()
    }

    /// Returns the counters of the C queue since its creation.
    pub fn classic_counters(&self) -> Counters {
        self.classic.stats.counters()
    }

    /// Returns the overload so far (RFC 9332 section 2.5.2.3), as of the last update of p'.
    pub fn overload(&self) -> Overload {
        self.overload.report()
    }

    /// Returns the statistics since the last call, or since the clock's origin, and begins the next
    /// interval at `now` (RFC 9332 section 2.5.2.2).
    pub fn end_interval(&mut self, now: Nanos) -> Interval {
        let start = core::mem::replace(&mut self.interval_start, now);
        let low_latency = self.low_latency.stats.end_interval();
        let classic = self.classic.stats.end_interval();
        Interval { start, end: now, low_latency, classic }
    }

    fn queue_for(&self, packet: &P) -> QueueKind {
        let class = Some(packet.class());
        let scalable = matches!(packet.ecn(), Ecn::Ect1 | Ecn::Ce);
        if class == self.config.low_latency_class {
            QueueKind::LowLatency
        } else if class == self.config.classic_class || !scalable {
            QueueKind::Classic
        } else {
            QueueKind::LowLatency
        }
    }

    /// Returns whether a packet for the L queue is of a flow with too large bursts. Those that a
    /// configured class selects are never redirected.
    #[inline]
    fn is_redirected(&mut self, now: Nanos, packet: &P) -> bool {
        let selected = Some(packet.class()) == self.config.low_latency_class;
        let Some(bursts) = self.bursts.as_mut().filter(|_| !selected) else { return false };
        bursts.arrives(now, packet.flow_hash(), packet.len())
    }

    fn lane(&mut self, queue: QueueKind) -> &mut Lane<P> {
        match queue {
            QueueKind::LowLatency => &mut self.low_latency,
            QueueKind::Classic => &mut self.classic,
        }
    }

    /// Returns why a packet of `len` does not fit, or `None` if it does.
    ///
    /// Short packets need the room of a full frame as well, so that long ones have no disadvantage
    /// (RFC 9332 Figure 3, line 2).
    fn refuses(&self, backlog: Backlog, len: Bytes) -> Option<DropReason> {
        if backlog.packets >= u64::from(self.config.limit) {
            return Some(DropReason::PacketLimit);
        }
        let room = self.config.bytes?.saturating_sub(backlog.bytes);
        (len.max(self.config.mtu) > room).then_some(DropReason::ByteLimit)
    }

    /// Returns the queue that is served next, and whether the other one also has packets.
    #[inline]
    fn next_lane(&self) -> Option<(QueueKind, bool)> {
        let low_latency = self.low_latency.queue.head_enqueued();
        let classic = self.classic.queue.head_enqueued();
        let kind = self.scheduler.next(low_latency, classic)?;
        Some((kind, low_latency.is_some() && classic.is_some()))
    }
}

impl<P: Packet> Qdisc<P> for DualPi2<P> {
    fn enqueue(&mut self, now: Nanos, packet: P, drops: &mut dyn DropSink<P>) {
        self.advance(now);
        let backlog = self.backlog();
        let refused = self.refuses(backlog, packet.len());
        if backlog.packets == 0 {
            self.scheduler.reset();
        }
        let mut kind = self.queue_for(&packet);
        if kind == QueueKind::LowLatency && self.is_redirected(now, &packet) {
            kind = QueueKind::Classic;
        }
        let lane = self.lane(kind);
        lane.stats.arrived(packet.ecn());
        match refused {
            Some(reason) => drops.dropped(packet, reason),
            None => {
                lane.stats.presented(packet.ecn());
                lane.queue.append(now, packet);
            }
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        self.advance(now);
        loop {
            let (kind, contended) = self.next_lane()?;
            self.observe_departure(now, kind);
            let exempt = self.backlog().bytes.0 < 2 * self.config.mtu.0;
            let signals = match kind {
                QueueKind::LowLatency => self.low_latency_signals(now, exempt),
                QueueKind::Classic => self.classic_signals(exempt),
            };
            let protected = self.config.queue_protection && kind == QueueKind::LowLatency;
            let lane = self.lane(kind);
            let head = lane.queue.pop()?;
            let (sojourn, mut packet) = (head.sojourn(now), head.packet);
            let (ecn, len) = (packet.ecn(), packet.len());
            let verdict = if protected && ecn == Ecn::NotEct {
                Verdict::Pass
            } else {
                lane.coins.judge(ecn, &signals)
            };
            match verdict {
                Verdict::Pass => {}
                Verdict::Mark => {
                    packet.set_ce();
                    lane.stats.marked(ecn);
                }
                Verdict::Drop(reason) => {
                    lane.stats.dropped(ecn);
                    drops.dropped(packet, reason);
                    continue;
                }
            }
            lane.stats.forwarded(ecn, len, sojourn);
            if contended {
                self.scheduler.sent(kind, len);
            }
            return Some(packet);
        }
    }

    fn peek(&self) -> Option<&P> {
        match self.next_lane()?.0 {
            QueueKind::LowLatency => self.low_latency.queue.front(),
            QueueKind::Classic => self.classic.queue.front(),
        }
    }

    fn backlog(&self) -> Backlog {
        let (l, c) = (self.low_latency.queue.backlog(), self.classic.queue.backlog());
        Backlog { packets: l.packets + c.packets, bytes: l.bytes + c.bytes }
    }

    fn probe(&self, _now: Nanos, packet: &P) -> bool {
        self.refuses(self.backlog(), packet.len()).is_none()
    }

    /// Returns the room for both queues, which share one limit.
    fn room(&self, _class: u8) -> Room {
        let backlog = self.backlog();
        let left = |bytes: Bytes| bytes.saturating_sub(backlog.bytes);
        let packets = u64::from(self.config.limit).saturating_sub(backlog.packets);
        Room { packets, bytes: self.config.bytes.map_or(Room::UNLIMITED.bytes, left) }
    }

    /// Returns `now` while packets wait. The last packet may still be dropped if it is longer than
    /// two full frames; `dequeue` returns `None` then.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (self.backlog().packets > 0).then_some(now)
    }
}
