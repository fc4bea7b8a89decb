//! The policies of boxes: what a box does not know of its path when it is set up, its limits do
//! without.

use forebay_config::Limit as LimitValue;
use forebay_queue::{
    ConfigError, DualPi2, Fifo, FqCodel, Limit, Packet, Pie, Qdisc, Sfq, StrictPriority, codel,
    dualpi2, fifo, fq_codel, pie, sfq,
};
use forebay_units::{Bytes, Nanos, Rate};

/// The frame that limits in bytes or time are converted to packets with.
const FRAME: Bytes = Bytes(1514);
/// The rate that a limit in time is converted with where a discipline counts packets only.
const REFERENCE: Rate = Rate::from_mbps(1000);
/// A queue limited in bytes or time never has more packets than this: each takes a buffer.
const MAX_PACKETS: u32 = 16_384;

/// A queueing discipline and its settings; `None` stands for the discipline's own default.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyKind {
    /// First in, first out.
    Fifo {
        /// How much may wait.
        limit: Option<LimitValue>,
    },
    /// Stochastic fairness queueing.
    Sfq {
        /// How much may wait, all flows together.
        limit: Option<LimitValue>,
        /// How often the hash changes.
        perturb: Option<Nanos>,
    },
    /// Flow queueing with CoDel (RFC 8290).
    FqCodel {
        /// How much may wait, all flows together.
        limit: Option<LimitValue>,
        /// CoDel's target.
        target: Option<Nanos>,
        /// CoDel's interval.
        interval: Option<Nanos>,
        /// Whether to mark packets instead of dropping them where the flow allows it.
        ecn: bool,
    },
    /// One queue held at a delay (RFC 8033).
    Pie {
        /// How much may wait.
        limit: Option<LimitValue>,
        /// The delay to hold.
        target: Option<Nanos>,
        /// Whether to mark packets instead of dropping them where the flow allows it.
        ecn: bool,
    },
    /// A shallow queue for L4S traffic beside one for the rest, coupled (RFC 9332).
    DualPi2 {
        /// Which set of parameters.
        profile: Profile,
        /// How much may wait, both queues together.
        limit: Option<LimitValue>,
        /// The classic delay to hold.
        target: Option<Nanos>,
        /// The coupling factor k, from 1 to 1000 (RFC 9332 section 2.5.2.1).
        coupling: Option<f64>,
    },
    /// A more urgent class always goes first.
    Strict,
}

/// The parameters of [`PolicyKind::DualPi2`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// [`dualpi2::Config::rfc9332`].
    #[default]
    Rfc9332,
    /// [`dualpi2::Config::paper`].
    Paper,
}

/// What tells DualPI2 the queue of a packet besides its ECN field, see [`dualpi2::Config`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steer {
    /// The class of those for the L queue.
    pub low_latency_class: Option<u8>,
    /// The class of those for the C queue.
    pub classic_class: Option<u8>,
    /// Whether something else keeps what has no ECN in the L queue within bounds.
    pub queue_protection: bool,
}

impl PolicyKind {
    /// Builds the discipline; `seed` is for its hashes and its coin.
    ///
    /// # Errors
    /// If a setting is out of the discipline's range; and for strict priority, which is built of the
    /// disciplines of its classes.
    pub fn build<P: Packet + 'static>(&self, seed: u64) -> Result<Box<dyn Qdisc<P>>, ConfigError> {
        Ok(match self {
            Self::Fifo { limit } => {
                Box::new(Fifo::new(fifo::Config { limit: fifo_limit(*limit) })?)
            }
            Self::Sfq { limit, perturb } => {
                let defaults = sfq_config(*limit);
                let perturb = perturb.or(defaults.perturb);
                Box::new(Sfq::new(sfq::Config { perturb, seed, ..defaults })?)
            }
            Self::FqCodel { limit, target, interval, ecn } => {
                let defaults = fq_codel::Config::default();
                let codel = codel::Params {
                    target: target.unwrap_or(defaults.codel.target),
                    interval: interval.unwrap_or(defaults.codel.interval),
                    ecn: *ecn,
                    ..defaults.codel
                };
                let limit = fq_codel_limit(*limit);
                Box::new(FqCodel::new(fq_codel::Config { limit, codel, seed, ..defaults })?)
            }
            Self::Pie { limit, target, ecn } => {
                let defaults = pie::Params::default();
                let target = target.unwrap_or(defaults.target);
                let params = pie::Params { target, ecn: *ecn, ..defaults };
                Box::new(Pie::new(pie::Config { limit: fifo_limit(*limit), params, seed })?)
            }
            Self::DualPi2 { .. } => Box::new(DualPi2::new(self.dualpi2(seed).unwrap_or_default())?),
            Self::Strict => Box::new(StrictPriority::new(Vec::<Box<dyn Qdisc<P>>>::new())?),
        })
    }

    /// The two queues themselves, for those who read their statistics or have classifiers of their own;
    /// `None` of any other policy.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_dualpi2<P: Packet>(
        &self,
        seed: u64,
        steer: Steer,
    ) -> Option<Result<DualPi2<P>, ConfigError>> {
        let config = dualpi2::Config {
            low_latency_class: steer.low_latency_class,
            classic_class: steer.classic_class,
            queue_protection: steer.queue_protection,
            ..self.dualpi2(seed)?
        };
        Some(DualPi2::new(config))
    }

    /// DualPI2's settings; `None` of any other policy.
    fn dualpi2(&self, seed: u64) -> Option<dualpi2::Config> {
        let Self::DualPi2 { profile, limit, target, coupling } = *self else { return None };
        let defaults = match profile {
            Profile::Rfc9332 => dualpi2::Config::rfc9332(),
            Profile::Paper => dualpi2::Config::paper(),
        };
        let mut config = dualpi2::Config { seed, ..defaults };
        match limit {
            Some(LimitValue::Bytes(bytes)) => {
                config.limit = MAX_PACKETS;
                config.bytes = Some(bytes);
            }
            Some(limit) => config.limit = in_packets(limit),
            None => {}
        }
        config.params.target = target.unwrap_or(config.params.target);
        config.coupling = coupling.unwrap_or(config.coupling);
        Some(config)
    }

    /// The same where the rate is known, which limits else do without: a time becomes the bytes of that
    /// time wherever packets are counted, and DualPI2 has 250 ms unless it is told otherwise (RFC 9332
    /// Figure 2, line 5).
    #[must_use]
    pub fn at(&self, rate: Rate) -> Self {
        let mut made = self.clone();
        let limit = match &mut made {
            Self::DualPi2 { limit, .. } => {
                limit.get_or_insert(LimitValue::Time(Nanos::from_millis(250)));
                limit
            }
            Self::Sfq { limit, .. } | Self::FqCodel { limit, .. } => limit,
            Self::Fifo { .. } | Self::Pie { .. } | Self::Strict => return made,
        };
        if let Some(LimitValue::Time(time)) = *limit {
            // Not below a few full frames, however slow.
            let bytes = rate.bytes_in(time).max(Bytes(4 * FRAME.0));
            *limit = Some(LimitValue::Bytes(bytes));
        }
        made
    }

    /// How many packets it can hold; none for strict priority, whose classes hold them.
    pub fn capacity(&self) -> u64 {
        let packets = match self {
            Self::Fifo { limit } | Self::Pie { limit, .. } => fifo_limit(*limit).packets,
            Self::Sfq { limit, .. } => sfq_config(*limit).limit,
            Self::FqCodel { limit, .. } => fq_codel_limit(*limit),
            Self::DualPi2 { .. } => self.dualpi2(0).map_or(0, |config| config.limit),
            Self::Strict => 0,
        };
        u64::from(packets)
    }
}

fn fifo_limit(limit: Option<LimitValue>) -> Limit {
    let bounded = |l: Limit| l.and(Limit::packets(MAX_PACKETS));
    match limit {
        // As much as SFQ's default, so that the policies can be compared.
        None => Limit::packets(sfq::Config::default().limit),
        Some(LimitValue::Packets(n)) => Limit::packets(n as u32),
        Some(LimitValue::Bytes(b)) => bounded(Limit::bytes(b)),
        Some(LimitValue::Time(t)) => bounded(Limit::time(t)),
        Some(LimitValue::Bdp(_)) => Limit::packets(MAX_PACKETS),
    }
}

fn sfq_config(limit: Option<LimitValue>) -> sfq::Config {
    let defaults = sfq::Config::default();
    let limit = limit.map_or(defaults.limit, in_packets);
    sfq::Config { limit, depth: limit, ..defaults }
}

fn fq_codel_limit(limit: Option<LimitValue>) -> u32 {
    limit.map_or(fq_codel::Config::default().limit, in_packets)
}

/// A limit where a discipline counts packets only: at least one.
pub fn in_packets(limit: LimitValue) -> u32 {
    let packets = match limit {
        LimitValue::Packets(n) => return n as u32,
        LimitValue::Bytes(b) => b.0.div_ceil(FRAME.0),
        LimitValue::Time(t) => REFERENCE.bytes_in(t).0.div_ceil(FRAME.0),
        LimitValue::Bdp(_) => u64::from(MAX_PACKETS),
    };
    packets.clamp(1, u64::from(MAX_PACKETS)) as u32
}
