use alloc::boxed::Box;

use forebay_units::{Bytes, Nanos, Rate};

use crate::baseline::{BaselineTest, Longer};
use crate::config::{BundleConfig, ConfigError};
use crate::controller::{Measurement, RateController};
use crate::epoch::{Epoch, EpochInput};
use crate::event::{Claim, Event, MinRttReason, Mode, ModeReason, Phase};
use crate::feedback::Feedback;
use crate::log::Log;
use crate::marks::{Mark, Marks, Match};
use crate::measure::{Measure, Verdict};
use crate::minrtt::MinRtt;
use crate::snapshot::{Counters, Snapshot};
use crate::traffic::Traffic;
use crate::watchdog::{Silence, Watchdog};

/// Marks kept: two seconds' worth at up to 256 a second, and more than lie in any round trip, which
/// has four to eight of them (see [`Marks`] for what happens beyond).
const MARKS: usize = 512;
/// Samples that give a first rate.
const FIRST_SAMPLES: u32 = 2;
/// Samples that must match before a bundle that lost its feedback is controlled again.
const RETURN_SAMPLES: u32 = 3;
/// The rate windows span a smoothed round-trip time, and at least two ticks.
const WINDOW_FLOOR: Nanos = Nanos::from_millis(20);

/// The inner control loop of one bundle: a state machine without I/O and without a clock.
///
/// The caller reports what left, what came back and the passing of time, applies [`Bundle::rate`] to
/// its shaper, and sends what [`Bundle::poll_epoch_update`] gives to the receivebox. Instants are on
/// one clock of the caller's and do not go back. After construction nothing is allocated; a bundle
/// takes about 30 KiB.
///
/// # Modes
/// A bundle is [`Mode::Open`] until it knows a round-trip time and a rate (or begins with an initial
/// rate), and whenever boundary packets were sent and no valid feedback came for 0.7 s (on long paths
/// for eight minimum RTTs, so that a second passes only where eight round trips take one).
/// It is under [`Mode::DelayControl`] otherwise, and again after three samples in order.
#[derive(Debug)]
pub struct Bundle {
    config: BundleConfig,
    mode: Mode,
    rate: Option<Rate>,
    controller: Box<dyn RateController>,
    /// The controller was told where to begin.
    started: bool,
    epoch: Epoch,
    marks: Marks,
    measure: Measure,
    min_rtt: MinRtt,
    baseline: BaselineTest,
    traffic: Traffic,
    watchdog: Watchdog,
    /// Samples since the start, or since feedback ceased.
    samples: u32,
    /// Feedback ceased and has not returned.
    silent: bool,
    last_tick: Nanos,
    counters: Counters,
    log: Log,
}

impl Bundle {
    /// A bundle with the controller that `config` names.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn new(config: BundleConfig, now: Nanos) -> Result<Self, ConfigError> {
        Self::with_controller(config, config.controller.build(&config), now)
    }

    /// A bundle controlled by `controller`, whatever `config` names.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn with_controller(
        config: BundleConfig,
        controller: Box<dyn RateController>,
        now: Nanos,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mode = if config.initial_rate.is_some() { Mode::DelayControl } else { Mode::Open };
        Ok(Self {
            config,
            mode,
            rate: config.initial_rate,
            controller,
            started: false,
            epoch: Epoch::new(config.epoch, now),
            marks: Marks::new(MARKS),
            measure: Measure::new(),
            min_rtt: MinRtt::new(),
            baseline: BaselineTest::default(),
            traffic: Traffic::new(now),
            watchdog: Watchdog::default(),
            samples: 0,
            silent: false,
            last_tick: now,
            counters: Counters::default(),
            log: Log::new(),
        })
    }

    /// A packet of the bundle left the queue for the wire. A packet without a fingerprint is counted
    /// and never marked.
    pub fn on_sent(&mut self, now: Nanos, len: Bytes, fingerprint: Option<u32>) {
        self.traffic.on_sent(len);
        let Some(fingerprint) = fingerprint.filter(|&f| self.epoch.is_boundary(f, 1)) else {
            return;
        };
        self.watchdog.on_boundary(now);
        if self.epoch.is_boundary(fingerprint, self.marks.thinning()) {
            let packets = self.traffic.packets() as u32;
            let mark = Mark {
                time: now,
                bytes: self.traffic.sent(),
                packets,
                limited_since: self.traffic.limited_since(),
            };
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
            }
            Match::InOrder(mark, ticket) => {
                let in_flight = self.traffic.sent().saturating_sub(mark.bytes);
                match self.measure.on_feedback(now, &mark, feedback, in_flight) {
                    Verdict::Impossible(claim) => self.on_impossible(now, claim),
                    Verdict::Restarted { rtt } => {
                        self.counters.restarts += 1;
                        self.log.push(Event::ReceiveboxRestarted);
                        self.marks.answered(ticket);
                        self.on_sample(now, rtt);
                    }
                    Verdict::Sample { rtt } => {
                        self.marks.answered(ticket);
                        self.on_sample(now, rtt);
                    }
                }
            }
        }
    }

    /// The receivebox acknowledged an epoch size.
    pub fn on_epoch_ack(&mut self, now: Nanos, epoch: u32) {
        self.epoch.on_receivebox_size(now, epoch, self.measure.smoothed());
    }

    /// A tick: every [`BundleConfig::tick`]. `backlog` is what waits in the bundle's own queue.
    pub fn on_tick(&mut self, now: Nanos, backlog: Bytes) {
        if now <= self.last_tick {
            return;
        }
        self.last_tick = now;
        self.traffic.on_tick(now, backlog, self.rate);
        self.marks.expire(now);
        self.size_epoch(now);
        if let Some(silence) = self.watchdog.check(now, self.min_rtt.get()) {
            self.on_silence(now, silence);
        } else if let Some(m) = self.measurement(now, backlog) {
            self.control(&m);
        }
    }

    /// The rate to shape the bundle to; `None` when open: no limit.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
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
    /// or [`Bundle::on_epoch_ack`] shows that it arrived.
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
        let rates = self.measure.rates(self.window());
        Snapshot {
            mode: self.mode,
            phase: (self.mode == Mode::DelayControl).then(|| self.controller.phase()),
            rate: self.rate,
            rtt: self.measure.rtt(),
            min_rtt: self.min_rtt.get(),
            standing_rtt: self.measure.standing(),
            send_rate: rates.map(|r| r.send),
            receive_rate: rates.map(|r| r.receive),
            loss: rates.map(|r| r.loss),
            epoch: self.epoch.size(),
            marks_outstanding: self.marks.outstanding(),
            counters: Counters {
                marks_expired: self.marks.expired(),
                marks_refused: self.marks.refused(),
                events_lost: self.log.lost(),
                ..self.counters
            },
        }
    }

    fn on_sample(&mut self, now: Nanos, rtt: Nanos) {
        self.counters.accepted += 1;
        self.samples = self.samples.saturating_add(1);
        self.watchdog.on_feedback(now, self.marks.awaited());
        let smoothed = self.measure.smoothed().unwrap_or(rtt);
        let before = self.min_rtt.get();
        self.min_rtt.on_sample(now, rtt, smoothed, self.tolerance());
        let min = self.min_rtt.get().unwrap_or(rtt);
        let expired = before.is_some_and(|b| min > b);
        let reason = if expired { MinRttReason::Expired } else { MinRttReason::Smaller };
        self.log.min_rtt(min, reason);
        self.measure.set_queued(rtt.saturating_sub(min) > self.config.forebay.noise);
    }

    /// How close to the minimum RTT a sample is as good as it: noise, and the time that a packet
    /// takes at the bottleneck, which a short one does not.
    fn tolerance(&self) -> Nanos {
        let packet = self
            .measure
            .rates(self.window())
            .map_or(Nanos::ZERO, |r| r.receive.time_for(self.traffic.mean_packet()));
        let eighth = self.min_rtt.get().unwrap_or_default() / 8;
        self.config.forebay.noise.saturating_add(packet.min(eighth))
    }

    fn window(&self) -> Nanos {
        self.measure.smoothed().unwrap_or_default().max(WINDOW_FLOOR)
    }

    fn on_impossible(&mut self, now: Nanos, claim: Claim) {
        self.counters.impossible += 1;
        self.log.impossible(now, claim);
    }

    fn size_epoch(&mut self, now: Nanos) {
        let change = self.epoch.on_tick(
            now,
            &EpochInput {
                min_rtt: self.min_rtt.get(),
                send_rate: self.traffic.rate(),
                packet: self.traffic.mean_packet(),
                packets: self.traffic.packets(),
            },
        );
        if let Some(c) = change {
            let (from, to, wanted, least) = (c.from, c.to, c.wanted, c.least);
            self.log.push(Event::EpochChanged { from, to, wanted, least });
        }
    }

    fn on_silence(&mut self, now: Nanos, silence: Silence) {
        self.samples = 0;
        if self.silent {
            return;
        }
        self.silent = true;
        // Nothing measured before says what the path will be like after.
        self.measure.clear();
        self.baseline.clear();
        self.epoch.announce_again(now, self.measure.smoothed());
        if self.mode != Mode::Open {
            let Silence { lasted, unanswered } = silence;
            self.change_mode(Mode::Open, ModeReason::NoFeedback { silence: lasted, unanswered });
        }
        self.rate = None;
        self.log.unlimited();
    }

    fn control(&mut self, m: &Measurement) {
        if self.mode == Mode::Open && !self.may_close(m) {
            return;
        }
        if !self.started {
            self.started = true;
            self.start_controller(m);
        }
        let threshold = self.controller.cuts_beyond(m.receive_rate, m.packet);
        let mut m = *m;
        if let Some(Longer { min_rtt, rate }) = self.baseline.on_tick(&m, threshold) {
            self.min_rtt.reset(m.now, min_rtt);
            self.log.min_rtt(min_rtt, MinRttReason::PathLonger);
            m = Measurement { min_rtt, min_rtt_age: Nanos::ZERO, busy_rate: None, ..m };
            self.controller.resume(rate, &m);
        }
        let rate = self.controller.on_tick(&m);
        let phase = self.controller.phase();
        if phase == Phase::Drain {
            self.traffic.on_held_back(m.now);
        }
        self.rate = Some(rate);
        self.log.rate(rate, phase);
    }

    /// Whether an open bundle knows enough to be controlled; then it is.
    fn may_close(&mut self, m: &Measurement) -> bool {
        let needed = if self.silent { RETURN_SAMPLES } else { FIRST_SAMPLES };
        if self.samples < needed {
            return false;
        }
        let receive_rate = m.receive_rate;
        let reason = if self.silent {
            ModeReason::FeedbackReturned { samples: self.samples, receive_rate }
        } else {
            ModeReason::Measured { rtt: m.smoothed_rtt, receive_rate }
        };
        self.change_mode(Mode::DelayControl, reason);
        self.silent = false;
        self.started = false;
        true
    }

    /// A queue tells that what is received is what the path serves; without one it may serve more.
    fn start_controller(&mut self, m: &Measurement) {
        match m.busy_rate {
            Some(rate) if m.queueing_delay() > self.controller.target_delay(rate, m.packet) => {
                self.controller.resume(rate, m);
            }
            _ => self.controller.start(m.receive_rate, m),
        }
    }

    fn change_mode(&mut self, to: Mode, reason: ModeReason) {
        self.log.push(Event::ModeChanged { from: self.mode, to, reason });
        self.mode = to;
    }

    fn measurement(&mut self, now: Nanos, backlog: Bytes) -> Option<Measurement> {
        let min_rtt = self.min_rtt.get()?;
        let smoothed_rtt = self.measure.smoothed()?;
        let rates = self.measure.rates(self.window())?;
        let (sample_at, mark) = self.measure.latest()?;
        let (just_sent, peak_sent) = self.traffic.within(now, min_rtt, smoothed_rtt);
        let since = |t: Nanos| now.saturating_sub(t);
        Some(Measurement {
            now,
            min_rtt,
            min_rtt_age: self.min_rtt.age(now),
            rtt: self.measure.rtt()?,
            standing_rtt: self.measure.standing()?,
            smoothed_rtt,
            rtt_spread: self.measure.spread(),
            send_rate: rates.send,
            receive_rate: rates.receive,
            busy_rate: self.measure.busy_rate(self.window() * 2),
            train_rate: self.measure.train_rate(smoothed_rtt + smoothed_rtt / 2),
            loss: rates.loss,
            samples: self.counters.accepted,
            sample_age: since(sample_at),
            sample_interval: self.measure.interval(smoothed_rtt * 2).unwrap_or(smoothed_rtt),
            awaited_for: self.marks.oldest_awaited().map_or(Nanos::ZERO, since),
            unacknowledged: self.traffic.sent().saturating_sub(mark),
            just_sent,
            peak_sent,
            backlog,
            limited_for: self.traffic.limited_for(now),
            // An epoch of nothing but bare headers is no measure of a packet.
            packet: self.traffic.mean_packet().max(Bytes(64)),
        })
    }
}
