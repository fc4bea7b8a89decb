//! What to send when, and what the answers mean for it.

mod stream;

use forebay_queue::Ecn;
use forebay_units::{Bytes, Nanos, Rate};

use crate::message::Echo;
use crate::report::Report;
use crate::samples::{Counts, Phase, Sample, Samples, arrival_rate};
use stream::Stream;

/// The headers of IPv4 and UDP, which count towards a rate.
pub(crate) const HEADERS: u64 = 28;
/// The payload of a packet that makes load: below the MTU of any tunnel in use.
pub(crate) const LOAD: u64 = 1_200;
/// The payload of a packet that only observes.
const SMALL: u64 = 72;
/// How many packets of each codepoint are sent first.
const EACH: usize = 30;
/// The time between these.
const SPACING: Nanos = Nanos::from_millis(4);
/// The rate of the first step of the ramp; each later one has twice the rate of the one before.
const FIRST_RATE: Rate = Rate::from_mbps(1);
/// The shortest step of the ramp.
const STEP: Nanos = Nanos::from_millis(200);
/// The fewest packets of a step.
const STEP_PACKETS: u64 = 20;
/// This much more delay than without load ends the ramp.
const QUEUE: Nanos = Nanos::from_millis(20);
/// This much loss ends the ramp, since some bottlenecks have no queue.
const LOSS: f64 = 0.05;
/// Fewer lost packets show nothing.
const LOST: usize = 5;
/// The path is full where less than this share of a step's rate arrives.
const FULL: f64 = 0.85;
/// The rate of the light phase as a share of the path's.
const LIGHT: f64 = 0.2;
/// The rate of the load as a multiple of the path's.
const OVERLOAD: f64 = 1.2;
/// The rate of the small packets beside a load as a share of the path's.
const BESIDE: f64 = 0.05;
/// The shortest time between these.
const BESIDE_SPACING: Nanos = Nanos::from_millis(2);
/// The pause after a load, in which the queue empties.
const PAUSE: Nanos = Nanos::from_millis(300);
/// Without any answer for this long the other end counts as unreachable.
const UNREACHABLE: Nanos = Nanos::from_secs(3);
/// Answers are awaited for at most this multiple of the longest round trip.
const TIMEOUT_RTTS: f64 = 1.5;

/// The settings of a check.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The highest rate of the ramp.
    pub max_rate: Rate,
    /// A random number: the session, and the order of the first packets.
    pub seed: u64,
}

/// The flow to which a datagram belongs. Each has a source port of its own, so that fair queueing
/// does not put them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Packets that are not sent as ECT(1).
    Classic,
    /// Packets that are.
    L4s,
}

/// A datagram to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its number in the check.
    pub sequence: u32,
    /// The flow that it belongs to.
    pub flow: Flow,
    /// The codepoint to send it with.
    pub ecn: Ecn,
    /// The length of the payload in bytes.
    pub len: usize,
}

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The streams send until `until`.
    Sending {
        phase: Phase,
        until: Nanos,
    },
    /// Answers to `phase` are awaited.
    Awaiting {
        phase: Phase,
        until: Nanos,
    },
    Done,
}

/// The near end of a check, a state machine without I/O and without a clock.
#[derive(Debug)]
pub struct Prober {
    options: Options,
    state: State,
    streams: Vec<Stream>,
    samples: Samples,
    /// What is left of the first packets, the next one last.
    first: Vec<Ecn>,
    longest_rtt: Nanos,
    /// The path's rate, once it is known.
    rate: Option<Rate>,
    /// The delay without load that nine of ten packets stay below.
    calm: Nanos,
}

impl Prober {
    /// Begins a check at `now`.
    pub fn new(options: Options, now: Nanos) -> Self {
        let mut first: Vec<Ecn> = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].repeat(EACH);
        shuffle(&mut first, options.seed);
        let until = now.saturating_add(SPACING * first.len() as u64);
        Self {
            options,
            state: State::Sending { phase: Phase::Codepoints, until },
            streams: vec![Stream::new(now, Ecn::NotEct, SMALL, SPACING)],
            samples: Samples::default(),
            first,
            longest_rtt: Nanos::ZERO,
            rate: None,
            calm: Nanos::ZERO,
        }
    }

    /// Returns the session, which all datagrams carry.
    pub fn session(&self) -> u64 {
        self.options.seed
    }

    /// Returns the next datagram that is due, `None` if none is.
    pub fn poll(&mut self, now: Nanos) -> Option<Datagram> {
        self.advance(now);
        let State::Sending { phase, .. } = self.state else { return None };
        if self.samples.is_full() {
            return None;
        }
        let stream = self.streams.iter_mut().filter(|s| s.next <= now).min_by_key(|s| s.next)?;
        stream.advance();
        let (mut ecn, len) = (stream.ecn, stream.len);
        if phase == Phase::Codepoints {
            ecn = self.first.pop()?;
        }
        let sequence = self.samples.len() as u32;
        let sample = Sample { phase, ecn, len: Bytes(len + HEADERS), sent: now, arrived: None };
        self.samples.push(sample);
        let flow = if ecn == Ecn::Ect1 { Flow::L4s } else { Flow::Classic };
        Some(Datagram { sequence, flow, ecn, len: len as usize })
    }

    /// Returns when to call [`Prober::poll`] next; `None` when the check is over.
    pub fn next(&self) -> Option<Nanos> {
        match self.state {
            State::Sending { until, .. } => {
                let due = self.streams.iter().map(|s| s.next).min();
                Some(due.map_or(until, |due| due.min(until)))
            }
            State::Awaiting { until, .. } => Some(until),
            State::Done => None,
        }
    }

    /// Takes in an answer. Those of other sessions and those that came before are ignored.
    pub fn on_echo(&mut self, now: Nanos, echo: &Echo) {
        if echo.session != self.options.seed {
            return;
        }
        if let Some(rtt) = self.samples.arrived(now, echo.sequence, echo.received_at, echo.ecn) {
            self.longest_rtt = self.longest_rtt.max(rtt);
        }
    }

    /// Returns how far the check is, from 0 to 1.
    pub fn progress(&self) -> f64 {
        let done = match self.state {
            State::Done => 1.0,
            State::Sending { phase, .. } | State::Awaiting { phase, .. } => match phase {
                Phase::Codepoints => 0.05,
                Phase::Ramp(step) => 0.1 + 0.05 * f64::from(step),
                Phase::Light => 0.55,
                Phase::Classic => 0.7,
                Phase::L4s => 0.85,
            },
        };
        f64::min(done, 1.0)
    }

    /// Returns what the check found, once [`Prober::next`] is `None`.
    pub fn report(&self) -> Report {
        Report::new(&self.samples, self.rate, self.options.max_rate)
    }

    /// Ends what is over and begins what comes next.
    fn advance(&mut self, now: Nanos) {
        match self.state {
            State::Sending { phase, until } => {
                let overloaded = matches!(phase, Phase::Ramp(_)) && self.is_overloaded(phase);
                if now >= until || overloaded || self.samples.is_full() {
                    let wait = self.patience(phase);
                    self.state = State::Awaiting { phase, until: now.saturating_add(wait) };
                    self.streams.clear();
                }
            }
            State::Awaiting { phase, until } if now >= until => self.follow(phase, now),
            State::Awaiting { .. } | State::Done => {}
        }
    }

    /// Returns how long the answers to `phase` are awaited.
    fn patience(&self, phase: Phase) -> Nanos {
        let answers = Nanos::from_secs_f64(self.longest_rtt.as_secs_f64() * TIMEOUT_RTTS);
        match phase {
            Phase::Codepoints if self.longest_rtt == Nanos::ZERO => UNREACHABLE,
            Phase::Codepoints | Phase::Ramp(_) => answers.max(Nanos::from_millis(50)),
            Phase::Light | Phase::Classic | Phase::L4s => answers.max(PAUSE),
        }
    }

    /// Begins what comes after `phase`.
    fn follow(&mut self, phase: Phase, now: Nanos) {
        match phase {
            Phase::Codepoints => {
                let nothing = Counts::of(self.samples.of(phase)).arrived == 0;
                self.calm = self.samples.delay(self.samples.of(phase), 0.9).unwrap_or_default();
                if nothing {
                    self.state = State::Done;
                } else {
                    self.ramp(0, now);
                }
            }
            Phase::Ramp(step) => {
                let step_rate = step_rate(step);
                let arrived = arrival_rate(self.last_half(phase));
                let slow = arrived.is_some_and(|rate| rate < step_rate.scaled(FULL));
                if self.is_overloaded(phase) || slow {
                    self.rate = arrived.map(|rate| rate.min(step_rate));
                    // The queue of the ramp is still there.
                    self.load(Phase::Light, now.saturating_add(PAUSE));
                } else if step_rate >= self.options.max_rate {
                    self.state = State::Done;
                } else {
                    self.ramp(step + 1, now);
                }
            }
            Phase::Light => self.load(Phase::Classic, now),
            Phase::Classic => self.load(Phase::L4s, now),
            Phase::L4s => self.state = State::Done,
        }
    }

    fn ramp(&mut self, step: u8, now: Nanos) {
        let spacing = step_rate(step).time_for(Bytes(LOAD + HEADERS));
        let until = now.saturating_add(STEP.max(spacing * STEP_PACKETS));
        self.streams = vec![Stream::new(now, Ecn::NotEct, LOAD, spacing)];
        self.state = State::Sending { phase: Phase::Ramp(step), until };
    }

    /// Begins the light phase or a load at `at`.
    fn load(&mut self, phase: Phase, at: Nanos) {
        let Some(rate) = self.rate else {
            self.state = State::Done;
            return;
        };
        let (ecn, beside, share, seconds) = match phase {
            Phase::Classic => (Ecn::NotEct, Ecn::Ect1, OVERLOAD, 1.5),
            Phase::L4s => (Ecn::Ect1, Ecn::NotEct, OVERLOAD, 1.0),
            _ => (Ecn::Ect1, Ecn::NotEct, LIGHT, 1.0),
        };
        let spacing = |len, share: f64| rate.scaled(share).time_for(Bytes(len + HEADERS));
        let small = spacing(SMALL, BESIDE).max(BESIDE_SPACING);
        self.streams = vec![
            Stream::new(at, ecn, LOAD, spacing(LOAD, share)),
            Stream::new(at, beside, SMALL, small),
        ];
        let until = at.saturating_add(Nanos::from_secs_f64(seconds));
        self.state = State::Sending { phase, until };
    }

    /// Returns whether a step shows a queue or loss already.
    fn is_overloaded(&self, phase: Phase) -> bool {
        // The newest answers show the longest queue.
        let mut answered = self.samples.of(phase).rev().filter(|s| s.arrived.is_some());
        let newest = self.samples.delay(answered.by_ref().take(3), 0.0);
        if newest.is_some_and(|delay| delay > self.calm.saturating_add(QUEUE)) {
            return true;
        }
        // Packets before the last three that arrived will not arrive any more.
        let fate = self.samples.of(phase).rev().skip_while(|s| s.arrived.is_none()).skip(3);
        let counts = Counts::of(fate);
        counts.sent - counts.arrived >= LOST && counts.delivered() < 1.0 - LOSS
    }

    /// Returns the later half of the arrivals of a step: by then the path was full.
    fn last_half(&self, phase: Phase) -> impl Iterator<Item = &Sample> {
        let arrived = Counts::of(self.samples.of(phase)).arrived;
        self.samples.of(phase).filter(|s| s.arrived.is_some()).skip(arrived / 2)
    }
}

/// Returns the rate of a step of the ramp.
fn step_rate(step: u8) -> Rate {
    FIRST_RATE.scaled(f64::from(2_u32.saturating_pow(u32::from(step))))
}

/// Puts `list` into an order that depends on `seed` (Fisher and Yates, with a linear congruential
/// generator of Knuth's constants).
fn shuffle(list: &mut [Ecn], seed: u64) {
    let mut state = seed;
    for left in (1..list.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(left, ((state >> 33) % (left as u64 + 1)) as usize);
    }
}
