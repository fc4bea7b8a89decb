mod guard;
mod measurement;
mod modes;
mod prefetch;

use alloc::boxed::Box;

use forebay_units::{Bytes, Nanos, Rate};

use crate::config::{ConfigError, ControlConfig, Detection};
use crate::controller::RateController;
use crate::cross::CrossTraffic;
use crate::epoch::Epoch;
use crate::estimator::{FeedbackOutcome, PathEstimator};
use crate::event::{Event, MinRttReason, Mode};
use crate::event_log::EventLog;
use crate::feedback::Feedback;
use crate::longer_path::LongerPathTest;
use crate::marks::{Mark, Marks, Match};
use crate::min_rtt::MinRtt;
use crate::multipath::{Answered, Multipath};
use crate::pass_through::PassThroughPolicy;
use crate::snapshot::{Counters, Elasticity, Snapshot};
use crate::traffic::Traffic;
use crate::transfers::FlowPosition;
use crate::watchdog::Watchdog;
use guard::Guard;
use modes::PassThroughState;

/// Capacity of the ring of marks. A round trip of the empty path has four to eight marks, and fewer
/// packets are marked while many await feedback. [`Marks`] says what happens when it is full.
const MARKS: usize = 512;

/// Time without a tick after which the sendbox was suspended, or its clock was set: the age of a
/// mark is then no round-trip time.
const SUSPENDED: Nanos = Nanos::from_secs(1);

/// The longest credible round-trip time of an empty path that another loop measured.
const MAX_RTT: Nanos = Nanos::from_secs(60);

/// The inner control loop of one bundle, a state machine without I/O and without a clock.
///
/// The caller reports packets sent, feedback received and the passing of time. It applies
/// [`ControlLoop::rate`] to its shaper and sends the result of [`ControlLoop::poll_epoch_update`]
/// to the receivebox. All times come from one monotonic clock of the caller.
///
/// The loop allocates only during construction: about 34 KiB, and 12 KiB for detection of elastic
/// cross traffic or 4 KiB for a guard.
///
/// # Modes
/// | mode | entered | left |
/// |---|---|---|
/// | [`Mode::Open`] | at the start, if no initial rate is configured | when the first round-trip time and rate are known |
/// | | when boundary packets were sent and no useful feedback came for 0.7 s, or for eight minimum RTTs where that is longer | after three samples in order |
/// | | when 5 % of the last 128 measurements are out of order, packets wait 10 ms on average, and some of idle flows wait long too, so packets take several paths | when that no longer holds, after ten seconds at the earliest and later each time |
/// | [`Mode::PassThrough`] | if [`ControlConfig::cross_traffic`] is set to detect, when cross traffic responds to the bundle's pulses while the bottleneck's queue stands above the controller's target | when the bottleneck has no queue, or when its queue drains during a drain probe |
/// | | with a guard, when others take the bandwidth that the bundle leaves | likewise |
/// | [`Mode::DelayControl`] | otherwise | |
///
/// # Many bundles
/// With thousands of bundles a tick finds none of its data in the CPU caches, and fetching the data
/// takes longer than the computation (decision record 0037). The fields are therefore ordered by
/// how often they are used, and a caller that ticks many bundles in turn announces the next ones
/// with [`ControlLoop::prefetch_after`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ControlLoop {
    // Used for every packet.
    traffic: Traffic,
    epoch: Epoch,
    // Used for boundary packets too.
    watchdog: Watchdog,
    marks: Marks,
    // Used at every tick.
    mode: Mode,
    /// Whether the controller has been given its starting rate.
    started: bool,
    /// Whether feedback has stopped and not returned.
    silent: bool,
    /// Number of samples since the start, or since feedback stopped.
    samples: u32,
    /// When packets were found to take several paths; `None` while they take one.
    multipath_since: Option<Nanos>,
    rate: Option<Rate>,
    last_tick: Nanos,
    controller: Box<dyn RateController>,
    config: Settings,
    pass_through: PassThroughState,
    log: EventLog,
    /// Number of feedback messages that gave a sample. [`Counters`] has the other counts.
    accepted: u64,
    longer_path: LongerPathTest,
    estimator: PathEstimator,
    multipath: Multipath,
    /// A tick uses only the first fields of this one.
    min_rtt: MinRtt,
    // Used only on errors or by detection.
    counters: Counters,
    unmatched_in_a_row: u64,
    guard: Option<Box<Guard>>,
    /// `None` if the configuration ignores elastic cross traffic.
    cross: Option<CrossTraffic>,
    /// The rate at which the controller goes on, if the loop was resumed.
    resumed: Option<Rate>,
    /// Whether the minimum RTT was known before the first sample.
    path_known: bool,
}

/// What a control loop takes over from one that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resumed {
    /// The rate of delay control; `None` if it was in another mode.
    pub rate: Option<Rate>,
    /// The round-trip time of the empty path.
    pub min_rtt: Option<Nanos>,
    /// The epoch size in packets.
    pub epoch: Option<u32>,
}

/// What an earlier process, which has ended, knew of the path. The path may be another one by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The round-trip time of the empty path.
    pub min_rtt: Nanos,
    /// The time since a sample was as good as that.
    pub min_rtt_age: Nanos,
    /// The rate of delay control; `None` if it was in another mode, or is too old.
    pub rate: Option<Rate>,
}

/// The part of the configuration that is used after construction.
#[derive(Clone, Copy, Debug)]
struct Settings {
    min_rate: Rate,
    max_rate: Rate,
    tick: Nanos,
    /// Delay that counts as measurement noise and not as a queue.
    noise: Nanos,
    multipath: Detection,
}

impl Settings {
    fn new(config: &ControlConfig) -> Self {
        let ControlConfig { min_rate, max_rate, tick, multipath, forebay, .. } = *config;
        Self { min_rate, max_rate, tick, noise: forebay.noise, multipath }
    }
}

impl ControlLoop {
    /// Creates the loop of a bundle with the controller that `config` names.
    ///
    /// # Errors
    /// Returns the first field of `config` that is out of range.
    pub fn new(config: ControlConfig, now: Nanos) -> Result<Self, ConfigError> {
        Self::with_controller(config, config.controller.build(&config.in_force()), now)
    }

    /// Creates the loop of a bundle with `controller`, regardless of the one that `config` names.
    ///
    /// # Errors
    /// Returns the first field of `config` that is out of range.
    pub fn with_controller(
        config: ControlConfig,
        controller: Box<dyn RateController>,
        now: Nanos,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let config = config.in_force();
        let mode = if config.initial_rate.is_some() { Mode::DelayControl } else { Mode::Open };
        Ok(Self {
            traffic: Traffic::new(now),
            epoch: Epoch::new(config.epoch, now),
            watchdog: Watchdog::default(),
            marks: Marks::new(MARKS),
            multipath: Multipath::new(),
            estimator: PathEstimator::new(),
            mode,
            started: false,
            silent: false,
            samples: 0,
            multipath_since: None,
            rate: config.initial_rate,
            last_tick: now,
            controller,
            config: Settings::new(&config),
            longer_path: LongerPathTest::default(),
            pass_through: PassThroughState::default(),
            log: EventLog::new(),
            accepted: 0,
            min_rtt: MinRtt::new(),
            counters: Counters::default(),
            unmatched_in_a_row: 0,
            guard: config.is_guarded().then(|| Box::new(Guard::new())),
            cross: (config.is_guarded() || config.cross_traffic == Detection::Detect)
                .then(|| CrossTraffic::new(config.cross_traffic == Detection::Detect)),
            resumed: None,
            path_known: false,
        })
    }

    /// Goes on where another loop of the bundle ended: at its rate in delay control, with its
    /// minimum round-trip time and epoch size. What is out of range is left out.
    pub fn resume(&mut self, now: Nanos, from: Resumed) {
        let Resumed { rate, min_rtt, epoch } = from;
        if let Some(min_rtt) = min_rtt.filter(|rtt| *rtt > Nanos::ZERO && *rtt < MAX_RTT) {
            self.min_rtt.reset(now, min_rtt);
            self.go_on(rate);
        }
        if let Some(epoch) = epoch {
            self.epoch.resume(epoch);
        }
    }

    /// Starts with what an earlier process knew of the path. What is out of range is left out.
    ///
    /// Unlike after [`ControlLoop::resume`], nobody kept the path meanwhile. So a minimum that no
    /// sample confirms is forgotten after the window of the minimum RTT, whatever the traffic.
    pub fn remember(&mut self, now: Nanos, from: Remembered) {
        let Remembered { min_rtt, min_rtt_age, rate } = from;
        if min_rtt > Nanos::ZERO && min_rtt < MAX_RTT {
            self.min_rtt.remember(now, min_rtt, min_rtt_age);
            self.log.min_rtt(min_rtt, MinRttReason::Remembered);
            self.go_on(rate);
        }
    }

    /// Goes on at the rate of an earlier loop of the bundle, whose minimum RTT is known.
    fn go_on(&mut self, rate: Option<Rate>) {
        self.path_known = true;
        if rate.is_some() {
            let rate = rate.map(|r| r.clamp(self.config.min_rate, self.config.max_rate));
            (self.mode, self.rate, self.resumed) = (Mode::DelayControl, rate, rate);
        }
    }

    /// Records that a packet of the bundle left the queue for the wire.
    ///
    /// A packet without a fingerprint is counted but never marked. `flow` is its flow, where the
    /// caller knows it.
    pub fn on_sent(
        &mut self,
        now: Nanos,
        len: Bytes,
        fingerprint: Option<u32>,
        flow: Option<FlowPosition>,
    ) {
        self.traffic.on_sent(len);
        if let Some(fingerprint) = fingerprint {
            let (sent, packets) = (self.traffic.sent(), self.traffic.packets());
            self.mark(now, fingerprint, sent, packets, flow);
        }
    }

    /// Records that a boundary packet left for the wire at `time`, with the totals of bytes and
    /// packets sent by then.
    ///
    /// Callers that do not see every packet use this instead of [`ControlLoop::on_sent`], and call
    /// [`ControlLoop::on_total`] before each tick.
    pub fn on_boundary(
        &mut self,
        time: Nanos,
        fingerprint: u32,
        sent: Bytes,
        packets: u64,
        flow: Option<FlowPosition>,
    ) {
        self.on_total(sent, packets);
        self.mark(time, fingerprint, sent, packets, flow);
    }

    /// Records the totals of bytes and packets sent since the start.
    ///
    /// A total below the known one is ignored.
    pub fn on_total(&mut self, sent: Bytes, packets: u64) {
        self.traffic.on_total(sent, packets);
    }

    /// Forgets the marks if there was no tick for too long.
    fn check_clock(&mut self, now: Nanos) {
        if now.saturating_sub(self.last_tick) >= SUSPENDED {
            self.marks.clear();
        }
    }

    /// Stores a packet that was sent, if it is a boundary packet.
    fn mark(
        &mut self,
        time: Nanos,
        fingerprint: u32,
        bytes: Bytes,
        packets: u64,
        flow: Option<FlowPosition>,
    ) {
        if !self.epoch.is_boundary(fingerprint, 1) {
            return;
        }
        self.watchdog.on_boundary(time);
        if self.epoch.is_boundary(fingerprint, self.marks.thinning()) {
            let limited_since = self.traffic.limited_since();
            let mark = Mark { time, bytes, packets: packets as u32, limited_since, flow };
            self.marks.record(fingerprint, mark);
        }
    }

    /// Returns the number of packets that have left.
    pub fn packets_sent(&self) -> u64 {
        self.traffic.packets()
    }

    /// Returns the bytes that have left.
    pub fn bytes_sent(&self) -> Bytes {
        self.traffic.sent()
    }

    /// Returns the latest round-trip time.
    pub fn rtt(&self) -> Option<Nanos> {
        self.estimator.rtt()
    }

    /// Returns the number of feedback messages since the last one that matched a mark.
    pub fn unmatched_in_a_row(&self) -> u64 {
        self.unmatched_in_a_row
    }

    /// Takes in a feedback message that has been authenticated, and checks its content.
    pub fn on_feedback(&mut self, now: Nanos, feedback: &Feedback) {
        self.check_clock(now);
        self.epoch.on_receivebox_size(now, feedback.epoch, self.estimator.smoothed());
        let found = self.marks.find_match(feedback.fingerprint);
        self.unmatched_in_a_row =
            if matches!(found, Match::Unmatched) { self.unmatched_in_a_row + 1 } else { 0 };
        match found {
            Match::Unmatched => self.counters.unmatched += 1,
            Match::Ambiguous => self.counters.ambiguous += 1,
            Match::OutOfOrder(mark, ticket) => {
                self.marks.answered(ticket);
                self.counters.out_of_order += 1;
                let counts = self.epoch.is_sparse_boundary(feedback.fingerprint);
                let packet = Answered { flow: mark.flow, rtt: now.saturating_sub(mark.time) };
                self.multipath.on_late_mark(feedback.sequence, packet, counts);
            }
            Match::InOrder(mark, ticket) => {
                let counts = self.epoch.is_sparse_boundary(feedback.fingerprint);
                let packet = Answered { flow: mark.flow, rtt: now.saturating_sub(mark.time) };
                self.multipath.on_in_order(feedback.sequence, packet, counts);
                match self.estimator.on_feedback(now, &mark, feedback) {
                    FeedbackOutcome::Impossible(claim) => self.on_impossible(now, claim),
                    FeedbackOutcome::Restarted { rtt } => {
                        self.counters.restarts += 1;
                        self.log.restarted(now);
                        self.forget_guard();
                        self.forget_cross_traffic();
                        self.marks.answered(ticket);
                        self.watchdog.on_restart(now, self.marks.awaited());
                        self.on_sample(now, rtt, &mark, feedback);
                    }
                    FeedbackOutcome::Sample { rtt } => {
                        self.marks.answered(ticket);
                        if self.estimator.is_usable() {
                            self.watchdog.on_feedback(now, self.marks.awaited());
                        } else {
                            self.watchdog.on_useless();
                        }
                        self.on_sample(now, rtt, &mark, feedback);
                    }
                }
            }
        }
    }

    /// Records that the receivebox acknowledged an epoch size.
    pub fn on_epoch_ack(&mut self, now: Nanos, epoch: u32) {
        self.epoch.on_receivebox_size(now, epoch, self.estimator.smoothed());
    }

    /// Runs one tick of the loop, due every [`ControlConfig::tick`].
    ///
    /// `backlog` is the number of bytes in the bundle's own queue.
    pub fn on_tick(&mut self, now: Nanos, backlog: Bytes) {
        if now <= self.last_tick {
            return;
        }
        self.check_clock(now);
        let elapsed = now.saturating_sub(self.last_tick);
        self.last_tick = now;
        self.traffic.on_tick(now, backlog, self.rate);
        self.marks.expire(now);
        self.size_epoch(now);
        if let Some(silence) = self.watchdog.check(now, self.awaited_rtt()) {
            self.on_silence(silence);
        } else if let Some(m) = self.measurement(now, backlog) {
            self.control(&m, elapsed);
        }
    }

    /// Returns the rate to shape the bundle to, or `None` for no limit.
    ///
    /// There is no limit in open mode, nor in pass-through with [`PassThroughPolicy::Unlimited`].
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Returns whether packets must leave in the order of their arrival instead of by the bundle's
    /// policy.
    ///
    /// This holds in pass-through without a limit: what a drain probe holds back is then sent in
    /// the order in which it came.
    pub fn keeps_order(&self) -> bool {
        self.mode == Mode::PassThrough
            && self.controller.pass_through_policy() == PassThroughPolicy::Unlimited
    }

    /// Returns the present mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the epoch size N in packets. A boundary packet's fingerprint is a multiple of N.
    pub fn epoch(&self) -> u32 {
        self.epoch.size()
    }

    /// Returns the epoch size if it must be sent to the receivebox now.
    ///
    /// The size is repeated at growing intervals until feedback or [`ControlLoop::on_epoch_ack`]
    /// shows that it arrived.
    pub fn poll_epoch_update(&mut self, now: Nanos) -> Option<u32> {
        self.epoch.poll(now)
    }

    /// Returns the oldest event that was not polled yet.
    ///
    /// At most 32 events are kept. When more come, the oldest are dropped and counted.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.log.pop()
    }

    /// Returns the present state of the loop, for status and logs.
    pub fn snapshot(&self) -> Snapshot {
        let rates = self.estimator.rates();
        let cross = self.cross.as_ref();
        Snapshot {
            mode: self.mode,
            phase: self.phase(),
            rate: self.rate,
            rtt: self.estimator.rtt(),
            min_rtt: self.min_rtt.get(),
            min_rtt_age: self.min_rtt.get().map(|_| self.min_rtt.age(self.last_tick)),
            standing_rtt: self.estimator.standing(),
            send_rate: rates.map(|r| r.send),
            receive_rate: rates.map(|r| r.receive),
            loss: rates.map(|r| r.loss),
            bottleneck_rate: cross.map(CrossTraffic::bottleneck).filter(|r| *r > Rate::ZERO),
            pulsing: self.amplitude() > Rate::ZERO,
            elasticity: cross
                .and_then(CrossTraffic::pulse_response)
                .map(|a| Elasticity { response: a.response, contrast: a.contrast }),
            out_of_order: self.multipath.share(),
            epoch: self.epoch.size(),
            marks_outstanding: self.marks.outstanding(),
            counters: Counters {
                accepted: self.accepted,
                marks_expired: self.marks.expired(),
                marks_refused: self.marks.refused(),
                events_lost: self.log.lost(),
                ..self.counters
            },
        }
    }
}
