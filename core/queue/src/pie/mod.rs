//! PIE: a queue held at a target delay by dropping at random on arrival (RFC 8033).
//!
//! Every 15 ms a proportional-integral controller updates the drop probability by the difference of
//! the delay from its target and by the change of the delay. Steps are smaller at low
//! probabilities, so that the controller works at low and high loads. PIE decides about a packet
//! when it arrives.
//!
//! Where the RFC leaves a choice or Linux (6.12, `sch_pie`) differs, this implementation follows
//! Linux, so that the two can be compared in one scenario:
//!
//! | | RFC 8033 | Linux 6.12 | here |
//! |---|---|---|---|
//! | delay | from the departure rate, or timestamps | timestamps; that of the last packet out, zero if it left the queue empty | as Linux |
//! | update | 15 ms | 15 ms rounded up to ticks, and the tick that a timer comes later: 20 ms at 250 Hz, 30 ms at 100 Hz; first after 500 ms | 15 ms exactly, from the first packet on |
//! | no drop below | 2 x 1024 bytes waiting | 2 MTU (2 x 1514) | as Linux |
//! | no drop while | the delay of the update before is below target/2 and p < 20 % | the present delay is | as Linux |
//! | delay above 250 ms | - | 2 % more in each update | as Linux |
//! | decay when idle | x 0.98 | x (1 - 1/64), with nothing waiting | as Linux |
//! | burst allowance | counted down at updates | counted down at departures, by the time between them | as Linux |
//! | limits of p | 0 to 1 | 0 to 256: it exceeds 1 under lasting overload | 0 to 1 |
//! | derandomisation | optional, from 0.85 to 8.5 signals due | always | on, settable |
//! | forced signal at 8.5 due | resets the sum | a drop resets the sum; after a mark every packet is marked until a drop | resets the sum |
//! | probability by packet size | optional | `bytemode`, off | off, settable |
//! | ECN | mark up to 10 % | off; mark up to 10 % | as Linux, settable |
//! | random numbers | - | the kernel's | own generator, from the seed |
//!
//! To compare with a kernel, set [`Params::tupdate`] to the kernel's period.
//! `docs/results/qdiscs.md` shows the effect of these differences.

mod control;

use forebay_units::{Bytes, Nanos};

use self::control::Control;
use crate::error::{real_within, within};
use crate::flow_hash::DEFAULT_SEED;
use crate::ring::Ring;
use crate::{Backlog, ConfigError, DropReason, DropSink, Ecn, Limit, Packet, Qdisc, Room};

/// The parameters of PIE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// The target delay; 15 ms by default (RFC 8033 section 4.2).
    pub target: Nanos,
    /// The time between updates of the drop probability; 15 ms by default (RFC 8033 section 4.2).
    pub tupdate: Nanos,
    /// The change of the probability per update and per second of delay above target, in hertz;
    /// 0.125 by default (RFC 8033 section 4.2).
    pub alpha: f64,
    /// The change of the probability per update and per second of delay growth since the update
    /// before, in hertz; 1.25 by default (RFC 8033 section 4.2).
    pub beta: f64,
    /// The time after an idle period for which a burst passes without signals; 150 ms by default
    /// (RFC 8033 section 4.4).
    pub burst_allowance: Nanos,
    /// Marks ECN-capable packets instead of dropping them; off by default, as in Linux's pie.
    pub ecn: bool,
    /// The probability above which ECN-capable packets are dropped instead of marked; 0.1 by
    /// default (RFC 8033 section 5.1).
    pub mark_threshold: f64,
    /// Spaces signals out, so that there are neither clusters nor long gaps; on by default (RFC
    /// 8033 section 5.4).
    pub derandomize: bool,
    /// Scales the probability by the packet's length over the MTU; off by default, as in Linux.
    pub byte_mode: bool,
    /// The length of a full frame, 1514 bytes by default. With less than two of them waiting there
    /// are no signals.
    pub mtu: Bytes,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            target: Nanos::from_millis(15),
            tupdate: Nanos::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            burst_allowance: Nanos::from_millis(150),
            ecn: false,
            mark_threshold: 0.1,
            derandomize: true,
            byte_mode: false,
            mtu: Bytes(1514),
        }
    }
}

impl Params {
    /// The longest target, update time and burst allowance: a minute.
    pub const MAX_TIME: Nanos = Nanos::from_secs(60);
    /// The largest gain in hertz, at which a millisecond moves the probability from zero to one.
    pub const MAX_GAIN: f64 = 1000.0;

    fn check(&self) -> Result<(), ConfigError> {
        within("target", self.target.0, 1, Self::MAX_TIME.0)?;
        within("tupdate", self.tupdate.0, 1_000, Self::MAX_TIME.0)?;
        within("burst_allowance", self.burst_allowance.0, 0, Self::MAX_TIME.0)?;
        within("mtu", self.mtu.0, 1, u64::from(u32::MAX))?;
        real_within("alpha", self.alpha, 0.0, Self::MAX_GAIN)?;
        real_within("beta", self.beta, 0.0, Self::MAX_GAIN)?;
        real_within("mark_threshold", self.mark_threshold, 0.0, 1.0)
    }
}

/// The configuration of a [`Pie`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The limit of the queue; 1000 packets by default, as in Linux.
    pub limit: Limit,
    /// The controller's parameters.
    pub params: Params,
    /// The seed of the random numbers. The same seed and packets give the same drops.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: Limit::default(), params: Params::default(), seed: DEFAULT_SEED }
    }
}

/// A first-in-first-out queue controlled by PIE.
#[derive(Clone, Debug)]
pub struct Pie<P> {
    queue: Ring<P>,
    params: Params,
    control: Control,
}

impl<P: Packet> Pie<P> {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Fails if the limit admits no packet, the target or the MTU is zero, the update time is below
    /// a microsecond, a time is above [`Params::MAX_TIME`], a gain is negative or above
    /// [`Params::MAX_GAIN`], or the mark threshold is not a probability.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.params.check()?;
        Ok(Self {
            queue: Ring::new(config.limit)?,
            params: config.params,
            control: Control::new(&config.params, config.seed),
        })
    }

    /// Returns the drop probability as of the last enqueue or dequeue, from 0 to 1.
    pub fn probability(&self) -> f64 {
        self.control.probability()
    }
}

/// The decision about an arriving packet.
enum Verdict {
    Enqueue,
    Mark,
    Drop,
}

fn judge<P: Packet>(control: &mut Control, params: &Params, backlog: Backlog, p: &P) -> Verdict {
    if !control.signals(params, backlog, p.len()) {
        return Verdict::Enqueue;
    }
    match p.ecn() {
        Ecn::Ect0 | Ecn::Ect1 if control.may_mark(params) => Verdict::Mark,
        // An earlier queue has already marked the packet, so the sender will slow down.
        Ecn::Ce if control.may_mark(params) => Verdict::Enqueue,
        _ => Verdict::Drop,
    }
}

impl<P: Packet> Qdisc<P> for Pie<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, drops: &mut dyn DropSink<P>) {
        let backlog = self.queue.backlog();
        self.control.advance(now, &self.params, backlog);
        if !self.queue.fits(&packet) {
            // Drops the packet, unless packets past the time limit make room for it.
            self.control.overflowed();
            self.queue.push(now, packet, drops);
            return;
        }
        match judge(&mut self.control, &self.params, backlog, &packet) {
            Verdict::Drop => return drops.dropped(packet, DropReason::Pie),
            Verdict::Mark => packet.set_ce(),
            Verdict::Enqueue => {}
        }
        self.queue.push(now, packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<P>) -> Option<P> {
        self.control.advance(now, &self.params, self.queue.backlog());
        self.queue.expire(now, drops);
        let head = self.queue.pop()?;
        self.control.departed(now, head.sojourn(now), self.queue.backlog());
        Some(head.packet)
    }

    fn peek(&self) -> Option<&P> {
        self.queue.front()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Makes the decision that `enqueue` would make, on a copy of the state.
    fn probe(&self, now: Nanos, packet: &P) -> bool {
        let (mut control, backlog) = (self.control, self.queue.backlog());
        control.advance(now, &self.params, backlog);
        self.queue.fits(packet)
            && !matches!(judge(&mut control, &self.params, backlog, packet), Verdict::Drop)
    }

    fn room(&self, _class: u8) -> Room {
        self.queue.room()
    }

    /// Returns `now` while packets wait, so that packets past a time limit are dropped as well.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.queue.front().map(|_| now)
    }
}
