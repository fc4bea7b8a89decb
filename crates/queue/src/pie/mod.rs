//! PIE: a queue held at a target delay by dropping at random on arrival (RFC 8033).
//!
//! Every 15 ms a proportional-integral controller moves the drop probability by how far the delay is
//! from its target and by how much it changed, in steps that shrink with the probability so that low
//! and high loads are controlled alike. Departures are not slowed by it: a packet's fate is decided
//! when it comes.
//!
//! Where the RFC leaves a choice, or Linux (6.12, `sch_pie`) makes another, this follows Linux, so
//! that the two can be compared in one scenario:
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
//! | limits of p | 0 to 1 | 0 to 256: it winds up past 1 under lasting overload | 0 to 1 |
//! | derandomisation | optional, from 0.85 to 8.5 signals due | always | on, settable |
//! | forced signal at 8.5 due | starts the count afresh | does so if it is a drop; after a mark it marks every packet until a drop | starts the count afresh |
//! | probability by packet size | optional | `bytemode`, off | off, settable |
//! | ECN | mark up to 10 % | off; mark up to 10 % | as Linux, settable |
//! | random numbers | - | the kernel's | own generator, from the seed |
//!
//! To compare with a kernel, set [`Params::tupdate`] to the period that it has. What these differences do
//! is in `docs/results/qdiscs.md`.

mod control;

use forebay_units::{Bytes, Nanos};

use self::control::Control;
use crate::error::{real_within, within};
use crate::flow_hash::DEFAULT_SEED;
use crate::ring::Ring;
use crate::{Backlog, ConfigError, DropReason, DropSink, Ecn, Limit, Packet, Qdisc, Room};

/// PIE's parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// The delay to hold; by default 15 ms (RFC 8033 section 4.2).
    pub target: Nanos,
    /// The time between updates of the drop probability; by default 15 ms (RFC 8033 section 4.2).
    pub tupdate: Nanos,
    /// By how much the probability changes in an update for a second above target, in hertz; by
    /// default 0.125 (RFC 8033 section 4.2).
    pub alpha: f64,
    /// By how much the probability changes in an update for a second more than at the update before,
    /// in hertz; by default 1.25 (RFC 8033 section 4.2).
    pub beta: f64,
    /// For how long after an idle time a burst passes without signals; by default 150 ms (RFC 8033
    /// section 4.4).
    pub burst_allowance: Nanos,
    /// Marks ECN-capable packets instead of dropping them; off by default, as in Linux's pie.
    pub ecn: bool,
    /// The probability up to which a mark does; above it ECN-capable packets are dropped too. By
    /// default 0.1 (RFC 8033 section 5.1).
    pub mark_threshold: f64,
    /// Spaces signals out, so that they come neither in a row nor after a long gap; on by default
    /// (RFC 8033 section 5.4).
    pub derandomize: bool,
    /// Scales the probability by the packet's length over the MTU; off by default, as in Linux.
    pub byte_mode: bool,
    /// A full frame, 1514 bytes by default: with less than two of them waiting there are no signals.
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
    /// The largest gain, in hertz: a millisecond moves the probability from zero to one.
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

/// How a [`Pie`] is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// How much may wait; 1000 packets by default, as in Linux.
    pub limit: Limit,
    /// The controller's parameters.
    pub params: Params,
    /// Seeds the dice: the same seed and the same packets give the same drops.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { limit: Limit::default(), params: Params::default(), seed: DEFAULT_SEED }
    }
}

/// A first-in-first-out queue under PIE.
#[derive(Clone, Debug)]
pub struct Pie<P> {
    queue: Ring<P>,
    params: Params,
    control: Control,
}

impl<P: Packet> Pie<P> {
    /// An empty queue.
    ///
    /// # Errors
    /// If the limit lets nothing in, the target or the MTU is zero, the update time is below a
    /// microsecond, a time is above [`Params::MAX_TIME`], a gain is negative or above
    /// [`Params::MAX_GAIN`], or the mark threshold is no probability.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.params.check()?;
        Ok(Self {
            queue: Ring::new(config.limit)?,
            params: config.params,
            control: Control::new(&config.params, config.seed),
        })
    }

    /// The drop probability as of the last packet in or out, from 0 to 1.
    pub fn probability(&self) -> f64 {
        self.control.probability()
    }
}

/// What becomes of a packet that comes.
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
        // Marked already, by a queue before this one: the sender will slow down.
        Ecn::Ce if control.may_mark(params) => Verdict::Enqueue,
        _ => Verdict::Drop,
    }
}

impl<P: Packet> Qdisc<P> for Pie<P> {
    fn enqueue(&mut self, now: Nanos, mut packet: P, drops: &mut dyn DropSink<P>) {
        let backlog = self.queue.backlog();
        self.control.advance(now, &self.params, backlog);
        if !self.queue.fits(&packet) {
            // Lost, unless packets past a limit in time make room for it.
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

    /// Throws the dice that `enqueue` will throw, on a copy.
    fn probe(&self, now: Nanos, packet: &P) -> bool {
        let (mut control, backlog) = (self.control, self.queue.backlog());
        control.advance(now, &self.params, backlog);
        self.queue.fits(packet)
            && !matches!(judge(&mut control, &self.params, backlog, packet), Verdict::Drop)
    }

    fn room(&self, _class: u8) -> Room {
        self.queue.room()
    }

    /// At once while anything waits, so that packets past a limit in time are cleared out too.
    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.queue.front().map(|_| now)
    }
}
