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
use crate::event::{Event, Mode};
use crate::event_log::EventLog;
use crate::feedback::Feedback;
use crate::longer_path::LongerPathTest;
use crate::marks::{Mark, Marks, Match};
use crate::min_rtt::MinRtt;
use crate::multipath::Multipath;
use crate::pass_through::PassThroughPolicy;
use crate::snapshot::{Counters, Elasticity, Snapshot};
use crate::traffic::Traffic;
use crate::watchdog::Watchdog;
use modes::PassThroughState;

/// Marks kept: two seconds' worth at up to 256 a second, and more than lie in any round trip, which
/// has four to eight of them (see [`Marks`] for what happens beyond).
const MARKS: usize = 512;

/// The inner control loop of one bundle: a state machine without I/O and without a clock.
///
/// The caller reports what left, what came back and the passing of time, applies [`ControlLoop::rate`] to
/// its shaper, and sends what [`ControlLoop::poll_epoch_update`] gives to the receivebox. Instants are on
/// one clock of the caller's and do not go back. After construction nothing is allocated; a bundle
/// takes about 26 KiB, and 12 more where it looks for elastic cross traffic.
///
/// # Modes
/// | mode | is entered | and left |
/// |---|---|---|
/// | [`Mode::Open`] | at first, without an initial rate | with the first round-trip time and rate |
/// | | when boundary packets were sent and no valid feedback came for 0.7 s (on long paths for eight minimum RTTs, so that a second passes only where eight round trips take one) | after three samples in order |
/// | | when 5 % of the last 128 measurements came out of order: packets take several ways | below 2 %, after ten seconds at the earliest, later each time |
/// | [`Mode::PassThrough`] | where [`ControlConfig::cross_traffic`] says to look, when cross traffic answers the pulses that are sent while a queue stands at the bottleneck that the controller did not want | when the bottleneck has no queue, or when that drains as the bundle leaves room |
/// | [`Mode::DelayControl`] | otherwise | |
///
/// # Many bundles
/// Among thousands of bundles a tick finds nothing that it needs in the caches, and fetching that takes
/// longer than what it computes (decision record 0037). So the fields lie in the order of how often they
/// are needed; of the rings few cache lines are needed; and who ticks bundles in turn says which come
/// next, by [`ControlLoop::prefetch_after`].
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ControlLoop {
    // Every packet.
    traffic: Traffic,
    epoch: Epoch,
    // Boundary packets too.
    watchdog: Watchdog,
    marks: Marks,
    // Every tick.
    mode: Mode,
    /// The controller was told where to begin.
    started: bool,
    /// Feedback ceased and has not returned.
    silent: bool,
    /// Samples since the start, or since feedback ceased.
    samples: u32,
    /// Packets take several ways, since then.
    several_since: Option<Nanos>,
    rate: Option<Rate>,
    last_tick: Nanos,
    controller: Box<dyn RateController>,
    config: Settings,
    pass_through: PassThroughState,
    log: EventLog,
    /// Feedback that gave a sample; [`Counters`] has the others.
    accepted: u64,
    baseline: LongerPathTest,
    measure: PathEstimator,
    multipath: Multipath,
    /// A tick needs its begin.
    min_rtt: MinRtt,
    // Where there is something amiss, or something to look for.
    counters: Counters,
    /// `None` where the configuration does not look for elastic cross traffic.
    cross: Option<CrossTraffic>,
}

/// What is asked of the configuration again and again; the rest is used at the start, or handed to who
/// needs it.
#[derive(Clone, Copy, Debug)]
struct Settings {
    min_rate: Rate,
    max_rate: Rate,
    tick: Nanos,
    /// Delay that is measurement noise and no queue.
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
    /// A bundle with the controller that `config` names.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn new(config: ControlConfig, now: Nanos) -> Result<Self, ConfigError> {
        Self::with_controller(config, config.controller.build(&config), now)
    }

    /// A bundle controlled by `controller`, whatever `config` names.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn with_controller(
        config: ControlConfig,
        controller: Box<dyn RateController>,
        now: Nanos,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mode = if config.initial_rate.is_some() { Mode::DelayControl } else { Mode::Open };
        Ok(Self {
            traffic: Traffic::new(now),
            epoch: Epoch::new(config.epoch, now),
            watchdog: Watchdog::default(),
            marks: Marks::new(MARKS),
            multipath: Multipath::new(),
            measure: PathEstimator::new(),
            mode,
            started: false,
            silent: false,
            samples: 0,
            several_since: None,
            rate: config.initial_rate,
            last_tick: now,
            controller,
            config: Settings::new(&config),
            baseline: LongerPathTest::default(),
            pass_through: PassThroughState::default(),
            log: EventLog::new(),
            accepted: 0,
            min_rtt: MinRtt::new(),
            counters: Counters::default(),
            cross: (config.cross_traffic == Detection::Detect).then(CrossTraffic::new),
        })
    }

    /// A packet of the bundle left the queue for the wire. A packet without a fingerprint is counted
    /// and never marked.
    pub fn on_sent(&mut self, now: Nanos, len: Bytes, fingerprint: Option<u32>) {
        self.traffic.on_sent(len);
        if let Some(fingerprint) = fingerprint {
            self.mark(now, fingerprint, self.traffic.sent(), self.traffic.packets());
        }
    }

    /// A boundary packet left for the wire at `time`, and with it `sent` and `packets` had left in
    /// all. For a caller that does not see every packet, in place of [`ControlLoop::on_sent`]; it also
    /// says [`ControlLoop::on_total`] before each tick.
    pub fn on_boundary(&mut self, time: Nanos, fingerprint: u32, sent: Bytes, packets: u64) {
        self.on_total(sent, packets);
        self.mark(time, fingerprint, sent, packets);
    }

    /// So much has left for the wire in all, since the start. Totals never fall; one that does is
    /// passed over.
    pub fn on_total(&mut self, sent: Bytes, packets: u64) {
        self.traffic.on_total(sent, packets);
    }

    /// Remembers a packet that left, if it is a boundary.
    fn mark(&mut self, time: Nanos, fingerprint: u32, bytes: Bytes, packets: u64) {
        if !self.epoch.is_boundary(fingerprint, 1) {
            return;
        }
        self.watchdog.on_boundary(time);
        if self.epoch.is_boundary(fingerprint, self.marks.thinning()) {
            let limited_since = self.traffic.limited_since();
            let mark = Mark { time, bytes, packets: packets as u32, limited_since };
            self.marks.record(fingerprint, mark);
        }
    }

    /// Feedback came. It must have been authenticated; that it makes sense is checked here.
    pub fn on_feedback(&mut self, now: Nanos, feedback: &Feedback) {
        self.epoch.on_receivebox_size(now, feedback.epoch, self.measure.smoothed());
        match self.marks.find_match(feedback.fingerprint) {
            Match::Unmatched => self.counters.unmatched += 1,
            Match::Ambiguous => self.counters.ambiguous += 1,
            Match::OutOfOrder(ticket) => {
                self.marks.answered(ticket);
                self.counters.out_of_order += 1;
                self.multipath.on_late_mark(feedback.sequence);
            }
            Match::InOrder(mark, ticket) => {
                self.multipath.on_in_order(feedback.sequence);
                let in_flight = self.traffic.sent().saturating_sub(mark.bytes);
                match self.measure.on_feedback(now, &mark, feedback, in_flight) {
                    FeedbackOutcome::Impossible(claim) => self.on_impossible(now, claim),
                    FeedbackOutcome::Restarted { rtt } => {
                        self.counters.restarts += 1;
                        self.log.push(Event::ReceiveboxRestarted);
                        self.forget_cross_traffic();
                        self.marks.answered(ticket);
                        self.on_sample(now, rtt, &mark, feedback);
                    }
                    FeedbackOutcome::Sample { rtt } => {
                        self.marks.answered(ticket);
                        self.on_sample(now, rtt, &mark, feedback);
                    }
                }
            }
        }
    }

    /// The receivebox acknowledged an epoch size.
    pub fn on_epoch_ack(&mut self, now: Nanos, epoch: u32) {
        self.epoch.on_receivebox_size(now, epoch, self.measure.smoothed());
    }

    /// A tick: every [`ControlConfig::tick`]. `backlog` is what waits in the bundle's own queue.
    pub fn on_tick(&mut self, now: Nanos, backlog: Bytes) {
        if now <= self.last_tick {
            return;
        }
        let elapsed = now.saturating_sub(self.last_tick);
        self.last_tick = now;
        self.traffic.on_tick(now, backlog, self.rate);
        self.marks.expire(now);
        self.size_epoch(now);
        if let Some(silence) = self.watchdog.check(now, self.min_rtt.get()) {
            self.on_silence(silence);
        } else if let Some(m) = self.measurement(now, backlog) {
            self.control(&m, elapsed);
        }
    }

    /// The rate to shape the bundle to; `None` for no limit: when open, and where flows that compete for
    /// themselves do so freely.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Whether packets shall leave in the order in which they came, and not as the bundle's policy says:
    /// its flows compete for themselves, and what is held back now and then, to look whether they still
    /// must, shall go on as it came.
    pub fn keeps_order(&self) -> bool {
        self.mode == Mode::PassThrough
            && self.controller.pass_through_policy() == PassThroughPolicy::Unlimited
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The epoch size N in packets: boundary packets are those whose fingerprint is a multiple of it.
    pub fn epoch(&self) -> u32 {
        self.epoch.size()
    }

    /// The epoch size to send to the receivebox now. Given again, less and less often, until feedback
    /// or [`ControlLoop::on_epoch_ack`] shows that it arrived.
    pub fn poll_epoch_update(&mut self, now: Nanos) -> Option<u32> {
        self.epoch.poll(now)
    }

    /// The next thing that the bundle decided or noticed. At most 32 wait; then the oldest are lost,
    /// and counted.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.log.pop()
    }

    /// What the loop knows and does.
    pub fn snapshot(&self) -> Snapshot {
        let rates = self.measure.rates();
        let cross = self.cross.as_ref();
        Snapshot {
            mode: self.mode,
            phase: self.phase(),
            rate: self.rate,
            rtt: self.measure.rtt(),
            min_rtt: self.min_rtt.get(),
            standing_rtt: self.measure.standing(),
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
