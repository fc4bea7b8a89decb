//! DualPI2: a shallow queue for L4S traffic (the L queue) beside one for the rest (the C queue),
//! coupled so that both kinds of senders share the link evenly without anybody counting flows (RFC
//! 9332).
//!
//! The C queue is held at its target by PI2: every `tupdate` a controller moves the base probability
//! p'; classic packets are dropped (or marked) with p'^2. L4S packets are marked with k p', or with
//! what a native AQM makes of their own wait if that is more. The L queue goes first, but not without
//! bound. Once L4S marking is saturated at 100 %, classic drop applies to everything.
//!
//! Two profiles, every parameter of which can be set:
//!
//! | | [`Config::rfc9332`] (RFC 9332 appendix A) | [`Config::paper`] (De Schepper et al., 2017, Table 1) |
//! |---|---|---|
//! | target, update | 15 ms, 15 ms | 15 ms, 16 ms |
//! | alpha, beta | 0.15 Hz, 3 Hz | 5/16 Hz, 50/16 Hz |
//! | coupling k | 2 | 2 |
//! | controller's input | the greater of the two delays | the classic delay; that of the L queue if there is no classic packet |
//! | native L4S AQM | ramp from 0.8 to 1.2 ms | step at 1 ms |
//! | native AQM acts on | queues of two packets or more, the one that leaves included | the same |
//! | choice of packets | deterministic | at random |
//! | scheduler | weighted round robin, 15 : 1 | time-shifted FIFO, 30 ms |
//! | limit | 10 000 packets (250 ms of bytes by [`Config::for_link`]) | 40 000 packets |
//!
//! [`Config::linux`] is the RFC's with what Linux does otherwise: a step at 1 ms, random choice, and a
//! tenth for the C queue.
//!
//! Where RFC 9332 is silent or leaves a choice: p' is clamped to 0 and 1; the two deterministic counts
//! of the L queue, for marks and for drops, are kept apart and never owe more than one signal; with
//! less than two full frames waiting there are no coupled or classic signals, as in Linux; the round
//! robin's account changes only while both queues have packets and starts anew, in favour of L4S, when
//! a packet finds both empty.
//!
//! Packets go to the L queue by their ECN field, ECT(1) or CE, or by [`Packet::class`] if a class is
//! configured for one of the queues: who owns the packets may choose it by address, DSCP, VLAN or
//! anything else (RFC 9332 section 2.3). What is then found in a queue where its ECN field is not expected
//! gets (RFC 9332 section 2.5.1.1):
//!
//! | packet | in the L queue | in the C queue |
//! |---|---|---|
//! | ECT(1) | mark, p_L = max(native, k p') | mark, k p' |
//! | ECT(0) | mark, (p_L / k)^2 | mark, p'^2 |
//! | Not-ECT | drop, (p_L / k)^2; nothing with [`Config::queue_protection`] | drop, p'^2 |

mod aqm;
mod config;
mod histogram;
mod native;
mod overload;
mod scheduler;
mod stats;

use forebay_units::{Bytes, Nanos};

pub use self::config::{Config, Input, Saturation};
pub use self::native::Ramp;
pub use self::overload::{Episode, Overload};
pub use self::scheduler::Schedule;
pub use self::stats::{ByEcn, Counters, Delays, Interval, QueueInterval};

use self::overload::Watch;
use self::scheduler::{Scheduler, Which};
use self::stats::Stats;
use crate::coupled::{Coins, Verdict};
use crate::pi2::{Control, check_coupling};
use crate::ring::Ring;
use crate::{Backlog, ConfigError, DropReason, DropSink, Ecn, Limit, Packet, Qdisc, Room};

/// One of the two queues.
#[derive(Clone, Debug)]
struct Lane<P> {
    queue: Ring<P>,
    coins: Coins,
    stats: Stats,
}

impl<P: Packet> Lane<P> {
    fn new(config: &Config, seed: u64) -> Result<Self, ConfigError> {
        // The limit is for both queues together and checked before a packet gets here.
        let queue = Ring::new(Limit::packets(config.limit))?;
        Ok(Self { queue, coins: Coins::new(config.marking, seed), stats: Stats::new() })
    }
}

/// Two coupled queues for L4S and classic traffic.
#[derive(Clone, Debug)]
pub struct DualPi2<P> {
    config: Config,
    /// p_Cmax.
    max_classic: f64,
    control: Control,
    scheduler: Scheduler,
    overload: Watch,
    low_latency: Lane<P>,
    classic: Lane<P>,
    interval_start: Nanos,
}

impl<P: Packet> DualPi2<P> {
    /// Empty queues.
    ///
    /// # Errors
    /// If a limit lets nothing in, the target or the MTU is zero, the update time is below a
    /// microsecond, a time is above [`crate::pi2::Params::MAX_TIME`] (those of the L queue's own AQM,
    /// of the scheduler and of overload too), a gain is negative or above
    /// [`crate::pi2::Params::MAX_GAIN`], the coupling factor is below 1 or above 1000, the classic
    /// maximum is no probability, or a weight is zero or above a thousand.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let max_classic = check_coupling(config.coupling, config.max_classic)?;
        let most = match config.on_saturation {
            Saturation::Drop => 1.0,
            Saturation::Delay => 1.0 / config.coupling,
        };
        Ok(Self {
            max_classic,
            control: Control::new(config.params, most),
            scheduler: Scheduler::new(config.schedule, config.mtu),
            overload: Watch::new(config.overload_hold),
            low_latency: Lane::new(&config, config.seed)?,
            classic: Lane::new(&config, config.seed.rotate_left(32))?,
            interval_start: Nanos::ZERO,
            config,
        })
    }

    /// The base probability p' as of the last packet in or out, from 0 to 1.
    pub fn probability(&self) -> f64 {
        self.control.base()
    }

    /// What waits in the L queue.
    pub fn low_latency_backlog(&self) -> Backlog {
        self.low_latency.queue.backlog()
    }

    /// What waits in the C queue.
    pub fn classic_backlog(&self) -> Backlog {
        self.classic.queue.backlog()
    }

    /// The L queue's counters since the beginning.
    pub fn low_latency_counters(&self) -> Counters {
        self.low_latency.stats.counters()
    }

    /// The C queue's counters since the beginning.
    pub fn classic_counters(&self) -> Counters {
        self.classic.stats.counters()
    }

    /// Overload so far (RFC 9332 section 2.5.2.3), as of the last update of p'.
    pub fn overload(&self) -> Overload {
        self.overload.report()
    }

    /// What happened since the last call, or since the clock's origin; the next interval begins at
    /// `now` (RFC 9332 section 2.5.2.2).
    pub fn end_interval(&mut self, now: Nanos) -> Interval {
        let start = core::mem::replace(&mut self.interval_start, now);
        let low_latency = self.low_latency.stats.end_interval();
        let classic = self.classic.stats.end_interval();
        Interval { start, end: now, low_latency, classic }
    }

    fn which(&self, packet: &P) -> Which {
        let class = Some(packet.class());
        let scalable = matches!(packet.ecn(), Ecn::Ect1 | Ecn::Ce);
        if class == self.config.low_latency_class {
            Which::LowLatency
        } else if class == self.config.classic_class || !scalable {
            Which::Classic
        } else {
            Which::LowLatency
        }
    }

    fn lane(&mut self, which: Which) -> &mut Lane<P> {
        match which {
            Which::LowLatency => &mut self.low_latency,
            Which::Classic => &mut self.classic,
        }
    }

    /// Why a packet of `len` does not fit. A full frame's room is asked of short packets too, so that
    /// long ones are not at a disadvantage (RFC 9332 Figure 3, line 2).
    fn refuses(&self, backlog: Backlog, len: Bytes) -> Option<DropReason> {
        if backlog.packets >= u64::from(self.config.limit) {
            return Some(DropReason::PacketLimit);
        }
        let room = self.config.bytes?.saturating_sub(backlog.bytes);
        (len.max(self.config.mtu) > room).then_some(DropReason::ByteLimit)
    }

    /// The queue that goes next, and whether the other one has packets too.
    #[inline]
    fn next_lane(&self) -> Option<(Which, bool)> {
        let low_latency = self.low_latency.queue.head_enqueued();
        let classic = self.classic.queue.head_enqueued();
        let which = self.scheduler.next(low_latency, classic)?;
        Some((which, low_latency.is_some() && classic.is_some()))
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
        let which = self.which(&packet);
        let lane = self.lane(which);
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
            let (which, contended) = self.next_lane()?;
            let exempt = self.backlog().bytes.0 < 2 * self.config.mtu.0;
            let signals = match which {
                Which::LowLatency => self.low_latency_signals(now, exempt),
                Which::Classic => self.classic_signals(exempt),
            };
            let protected = self.config.queue_protection && which == Which::LowLatency;
            let lane = self.lane(which);
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
                self.scheduler.sent(which, len);
            }
            return Some(packet);
        }
    }

    fn peek(&self) -> Option<&P> {
        match self.next_lane()?.0 {
            Which::LowLatency => self.low_latency.queue.front(),
            Which::Classic => self.classic.queue.front(),
        }
    }

    fn backlog(&self) -> Backlog {
        let (l, c) = (self.low_latency.queue.backlog(), self.classic.queue.backlog());
        Backlog { packets: l.packets + c.packets, bytes: l.bytes + c.bytes }
    }

    fn probe(&self, _now: Nanos, packet: &P) -> bool {
        self.refuses(self.backlog(), packet.len()).is_none()
    }

    /// One for both queues, as the limit is.
    fn room(&self, _class: u8) -> Room {
        let backlog = self.backlog();
        let left = |bytes: Bytes| bytes.saturating_sub(backlog.bytes);
        let packets = u64::from(self.config.limit).saturating_sub(backlog.packets);
        Room { packets, bytes: self.config.bytes.map_or(Room::UNLIMITED.bytes, left) }
    }

    /// At once while anything waits. A packet longer than two full frames may be dropped as the last
    /// one, and nothing goes then.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (self.backlog().packets > 0).then_some(now)
    }
}
