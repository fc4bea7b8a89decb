mod measured;
mod modes;

use alloc::boxed::Box;

use forebay_units::{Bytes, Nanos, Rate};

use crate::baseline::BaselineTest;
use crate::config::{BundleConfig, ConfigError, Detection};
use crate::controller::RateController;
use crate::cross::CrossTraffic;
use crate::epoch::Epoch;
use crate::event::{Event, Mode};
use crate::feedback::Feedback;
use crate::log::Log;
use crate::marks::{Mark, Marks, Match};
use crate::measure::{Measure, Verdict};
use crate::minrtt::MinRtt;
use crate::multipath::Multipath;
use crate::snapshot::{Counters, Elasticity, Snapshot};
use crate::traffic::Traffic;
use crate::watchdog::Watchdog;
use modes::Passing;

/// Marks kept: two seconds' worth at up to 256 a second, and more than lie in any round trip, which
/// has four to eight of them (see [`Marks`] for what happens beyond).
const MARKS: usize = 512;

/// The inner control loop of one bundle: a state machine without I/O and without a clock.
///
/// The caller reports what left, what came back and the passing of time, applies [`Bundle::rate`] to
/// its shaper, and sends what [`Bundle::poll_epoch_update`] gives to the receivebox. Instants are on
/// one clock of the caller's and do not go back. After construction nothing is allocated; a bundle
/// takes about 37 KiB, and 12 more where it looks for elastic cross traffic.
///
/// # Modes
/// | mode | is entered | and left |
/// |---|---|---|
/// | [`Mode::Open`] | at first, without an initial rate | with the first round-trip time and rate |
/// | | when boundary packets were sent and no valid feedback came for 0.7 s (on long paths for eight minimum RTTs, so that a second passes only where eight round trips take one) | after three samples in order |
/// | | when 5 % of the last 128 measurements came out of order: packets take several ways | below 2 %, after ten seconds at the earliest, later each time |
/// | [`Mode::PassThrough`] | where [`BundleConfig::cross_traffic`] says to look, when cross traffic answers the pulses that are sent while a queue stands at the bottleneck that the controller did not want | when it no longer does, after eight seconds at the earliest, later each time |
/// | [`Mode::DelayControl`] | otherwise | |
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
    /// `None` where the configuration does not look for elastic cross traffic.
    cross: Option<CrossTraffic>,
    multipath: Multipath,
    passing: Passing,
    traffic: Traffic,
    watchdog: Watchdog,
    /// Samples since the start, or since feedback ceased.
    samples: u32,
    /// Feedback ceased and has not returned.
    silent: bool,
    /// Packets take several ways, since then.
    several_since: Option<Nanos>,
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
            cross: (config.cross_traffic == Detection::Detect).then(CrossTraffic::new),
            multipath: Multipath::new(),
            passing: Passing::default(),
            traffic: Traffic::new(now),
            watchdog: Watchdog::default(),
            samples: 0,
            silent: false,
            several_since: None,
            last_tick: now,
            counters: Counters::default(),
            log: Log::new(),
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
    /// all. For a caller that does not see every packet, in place of [`Bundle::on_sent`]; it also
    /// says [`Bundle::on_total`] before each tick.
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
                    Verdict::Impossible(claim) => self.on_impossible(now, claim),
                    Verdict::Restarted { rtt } => {
                        self.counters.restarts += 1;
                        self.log.push(Event::ReceiveboxRestarted);
                        self.forget_cross_traffic();
                        self.marks.answered(ticket);
                        self.on_sample(now, rtt, &mark, feedback);
                    }
                    Verdict::Sample { rtt } => {
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

    /// A tick: every [`BundleConfig::tick`]. `backlog` is what waits in the bundle's own queue.
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
                .and_then(CrossTraffic::answer)
                .map(|a| Elasticity { response: a.response, contrast: a.contrast }),
            out_of_order: self.multipath.share(),
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
}
