//! A bundle at its sendbox: the control loop, and the channel to the receivebox.

mod decisions;
mod delivered;
mod rtt_range;

use std::mem;
use std::net::{Ipv6Addr, SocketAddr};

use forebay_config::RemoteAddress;
use forebay_control::{self as control, FlowPosition};
use forebay_records::{Event, KnownPath, SendHandover, SendStatus};
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::feedback::{
    self, BundleId, FEEDBACK_LEN, Received, SendboxChannel, SendboxCounts, Session,
};
use forebay_wire::{EpochSize, FingerprintKey};

use super::link_headers::LinkHeaders;
use super::waits::Waits;
use crate::Error;
use crate::channel::{BOTH_KEYS, Channel, Datagram, Endpoint, Move, packet_length};
use crate::classes;
use crate::config::{BundleConfig, Policy};
use crate::diagnosis::{Diagnosis, End, Hint};
use crate::handover::{self, Handed};
use crate::memory::{self, PathMemory};
use crate::random;
use crate::reload::Parts;
use crate::resolver::CONTACT_TIMEOUT;
use crate::slots::Slots;
use crate::status::seconds;
use decisions::Decisions;
use delivered::Delivered;
use rtt_range::RttRange;

/// The time after which an update is sent again while no feedback arrives that answers a packet. A
/// restarted receivebox sends nothing before it knows the session.
const REMIND_AFTER: Nanos = Nanos::from_millis(200);
/// The time after which an update is sent again while feedback arrives, so that the receivebox
/// knows that it is heard.
const KEEP_ALIVE: Nanos = Nanos::from_secs(2);

/// What became of a message.
pub(super) enum Heard {
    /// It is not for this bundle, or was refused.
    Refused,
    /// It was accepted, and the receivebox may have moved.
    Accepted(Option<Move>),
}

/// The counters of a bundle's queue since the start; `None` where they are not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueTotals {
    pub(super) dropped: Option<u64>,
    pub(super) marked: Option<u64>,
    /// The waits of its packets; `None` before the first and over the kernel's queues.
    pub(super) waits: Option<Waits>,
}

/// A bundle with its control loop and its channel to the receivebox.
pub(super) struct ControlledBundle {
    config: BundleConfig,
    fingerprint_key: FingerprintKey,
    control: control::ControlLoop,
    /// The totals of bytes and packets when the control loop started.
    base: (Bytes, u64),
    /// The packets that left before this process and its control loop, as the receivebox knows.
    earlier: u64,
    /// The latest totals.
    total: (Bytes, u64),
    /// The id of its messages.
    id: BundleId,
    feedback: SendboxChannel,
    /// The place of the receivebox.
    endpoint: Endpoint,
    /// The last move of the receivebox, if the log of events does not have it yet.
    unlogged: Option<Event>,
    /// The channel of another key, which the receivebox may not have yet.
    next: Option<Next>,
    headers: LinkHeaders,
    delivered: Delivered,
    /// The time of the last update.
    updated_at: Nanos,
    /// The time of the last feedback that answered a packet.
    answered_at: Nanos,
    diagnosis: Diagnosis,
    /// The bytes that waited at the last tick.
    backlog: Bytes,
    /// The time of the last change of mode, or of the start, and its reason.
    mode_since: Nanos,
    reason: Option<control::ModeReason>,
    decisions: Decisions,
    rtt_range: RttRange,
    /// The number of messages that were not authentic, replayed or malformed.
    refused: u64,
}

/// A channel that takes the place of the present one when the receivebox answers in it, or in time.
struct Next {
    id: BundleId,
    feedback: SendboxChannel,
    fingerprint_key: FingerprintKey,
    until: Nanos,
}

impl ControlledBundle {
    /// Makes a bundle whose shaper counts `header` bytes of each packet beside its IP packet.
    pub(super) fn new(config: BundleConfig, header: Bytes, now: Nanos) -> Result<Self, Error> {
        Ok(Self {
            control: control_loop(&config, now)?,
            base: (Bytes::ZERO, 0),
            earlier: 0,
            total: (Bytes::ZERO, 0),
            headers: LinkHeaders::new(header),
            delivered: Delivered::default(),
            id: BundleId(config.id),
            feedback: channel(&config),
            endpoint: Endpoint::new(config.receivebox.found()),
            unlogged: None,
            next: None,
            fingerprint_key: config.key.fingerprint_key(),
            updated_at: Nanos::ZERO,
            answered_at: Nanos::ZERO,
            diagnosis: Diagnosis::new(End::Sendbox, config.receivebox.found(), now),
            backlog: Bytes::ZERO,
            mode_since: now,
            reason: None,
            decisions: Decisions::new(),
            rtt_range: RttRange::default(),
            refused: 0,
            config,
        })
    }

    /// Makes a bundle that goes on with what another process `handed` over, or else starts with
    /// what it left in `memory`.
    pub(super) fn resumed(
        config: BundleConfig,
        header: Bytes,
        now: Nanos,
        handed: &mut Handed,
        memory: &PathMemory,
    ) -> Result<Self, Error> {
        let mut bundle = Self::new(config, header, now)?;
        let config = &bundle.config;
        if let Some(taken) = handed.take_send(&config.name, bundle.id, &config.key) {
            taken.resume(&mut bundle.control, now);
            if taken.configured == config.receivebox.to_string() {
                bundle.endpoint = Endpoint::resumed(config.receivebox.found(), taken.address);
                bundle.diagnosis = Diagnosis::new(End::Sendbox, bundle.endpoint.current(), now);
            }
            if let Some(channel) = taken.channel {
                (bundle.feedback, bundle.earlier) = (channel, taken.packets);
            }
        } else if let Some(remembered) = memory.recall(bundle.id, &config.receivebox.to_string()) {
            let control::Remembered { min_rtt, min_rtt_age, rate } = remembered;
            let rate = rate.map(|rate| format!(", {rate}")).unwrap_or_default();
            tracing::info!(
                "bundle {}: remembered: minimum RTT {min_rtt}, {:.0} s old{rate}",
                config.name,
                min_rtt_age.as_secs_f64()
            );
            bundle.control.remember(now, remembered);
        }
        Ok(bundle)
    }

    /// Returns what another process goes on with, which has the new key alone.
    pub(super) fn handover(&self, number: usize) -> SendHandover {
        let (id, channel) = match &self.next {
            Some(next) => (next.id, &next.feedback),
            None => (self.id, &self.feedback),
        };
        let bundle =
            handover::of_send(number, self.name(), id, channel, &self.control, self.packets_told());
        let configured = self.config.receivebox.to_string();
        SendHandover { configured, address: self.endpoint.current(), ..bundle }
    }

    /// Returns what is known of its path; `None` before that is measured.
    pub(super) fn known_path(&self) -> Option<KnownPath> {
        let receivebox = self.config.receivebox.to_string();
        memory::known_path(BundleId(self.config.id), receivebox, &self.control)
    }

    /// Returns the number of packets that left, as the receivebox is told.
    fn packets_told(&self) -> u64 {
        self.earlier.saturating_add(self.control.packets_sent())
    }

    /// Takes another configuration, in which `parts` differ. Queue and totals stay.
    ///
    /// # Errors
    /// If the control loop does not take its settings; then nothing changes.
    pub(super) fn change(
        &mut self,
        config: BundleConfig,
        parts: Parts,
        now: Nanos,
    ) -> Result<(), Error> {
        if parts.control {
            self.control = control_loop(&config, now)?;
            self.base = self.total;
            (self.mode_since, self.reason) = (now, None);
        }
        if parts.key {
            self.next = Some(Next {
                id: BundleId(config.id),
                feedback: channel(&config),
                fingerprint_key: config.key.fingerprint_key(),
                until: now + BOTH_KEYS,
            });
        }
        if parts.address {
            self.endpoint = self.endpoint.changed(now, config.receivebox.found());
            self.diagnosis = Diagnosis::new(End::Sendbox, self.endpoint.current(), now);
        }
        if parts != Parts::default() {
            // The receivebox is told at once.
            self.updated_at = Nanos::ZERO;
        }
        self.config = config;
        Ok(())
    }

    /// Uses the next key alone from now on.
    fn take_next_key(&mut self) {
        let Some(Next { id, feedback, fingerprint_key, .. }) = self.next.take() else { return };
        (self.id, self.feedback, self.fingerprint_key) = (id, feedback, fingerprint_key);
        tracing::info!("bundle {}: the new key is in use", self.name());
    }

    /// Checks that the control loop takes the settings of `config`.
    pub(super) fn check(config: &BundleConfig) -> Result<(), Error> {
        settings(config).validate().map_err(|source| failure(config, source))
    }

    /// Returns the round-trip time; zero before it is measured.
    pub(super) fn round_trip(&self) -> Nanos {
        self.control.rtt().unwrap_or(Nanos::ZERO)
    }

    /// Returns the policy of its queue.
    pub(super) fn policy(&self) -> &Policy {
        &self.config.policy
    }

    /// Notes that a boundary packet left at `time`, with the bundle's totals including it, and its
    /// flow where that is known.
    pub(super) fn on_boundary(
        &mut self,
        time: Nanos,
        fingerprint: u32,
        sent: Bytes,
        packets: u64,
        flow: Option<FlowPosition>,
    ) {
        let (bytes, before) = self.base;
        let (sent, packets) = (sent.saturating_sub(bytes), packets.saturating_sub(before));
        self.control.on_boundary(time, fingerprint, sent, packets, flow);
    }

    /// Notes the totals of all packets that have left. Returns whether any left since the last
    /// call.
    pub(super) fn on_total(&mut self, sent: Bytes, packets: u64) -> bool {
        self.headers.on_total(sent, packets);
        let last = mem::replace(&mut self.total, (sent, packets));
        let (bytes, before) = self.base;
        self.control.on_total(sent.saturating_sub(bytes), packets.saturating_sub(before));
        last != self.total
    }

    /// Follows the receivebox, which is elsewhere by the messages of the sendbox beside it.
    pub(super) fn follow(&mut self, now: Nanos, to: SocketAddr) -> Option<Move> {
        let moved = self.endpoint.follow(now, to)?;
        self.on_moved(now, moved, "");
        Some(moved)
    }

    /// Notes that the name of its receivebox has this address.
    pub(super) fn on_resolved(
        &mut self,
        now: Nanos,
        name: &RemoteAddress,
        to: SocketAddr,
    ) -> Option<Move> {
        let is_silent = self.is_silent(now);
        let moved = self.endpoint.on_resolved(to, is_silent)?;
        self.on_moved(now, moved, &format!(", as its name {name} says"));
        Some(moved)
    }

    /// Tells of a move, and sends the next update at once.
    fn on_moved(&mut self, now: Nanos, Move { from, to, is_said }: Move, why: &str) {
        let event = Event::moved(now, self.name(), from, to);
        if is_said {
            tracing::info!("bundle {}: {}{why}", self.name(), event.text);
            self.decisions.keep(now, event.clone());
            self.unlogged = Some(event);
        }
        self.diagnosis.on_moved(to);
        self.updated_at = Nanos::ZERO;
    }

    /// Whether the receivebox has not been heard for some time.
    fn is_silent(&self, now: Nanos) -> bool {
        self.diagnosis.silence(now) >= CONTACT_TIMEOUT
    }

    /// Returns the name of its receivebox, if it has one, and whether that is silent.
    pub(super) fn name_of_receivebox(&self, now: Nanos) -> Option<(&RemoteAddress, bool)> {
        Some((self.config.receivebox.name()?, self.is_silent(now)))
    }

    /// Handles a datagram for this bundle. `beside` takes the
    /// bytes that have arrived, and returns the sendbox's bundles towards other sites.
    pub(super) fn on_message(
        &mut self,
        datagram: &Datagram,
        channel: &Channel,
        beside: impl FnOnce(Bytes) -> control::Others,
    ) -> Heard {
        let came = datagram.came;
        let mut received = self.feedback.receive(datagram.bytes());
        let mut is_fresh = received.as_ref().is_ok_and(|r| self.feedback.is_fresh(r));
        if received.is_err()
            && let Some(next) = &mut self.next
            && let Ok(answer) = next.feedback.receive(datagram.bytes())
        {
            is_fresh = next.feedback.is_fresh(&answer);
            // The first answer only tells the receivebox's session.
            if !matches!(answer, Received::NewSession) {
                self.take_next_key();
            }
            received = Ok(answer);
        }
        let received = match received {
            Ok(received) => received,
            Err(why) => {
                self.refused += 1;
                tracing::debug!("bundle {}: message refused: {why}", self.name());
                if let Some(hint) = Hint::refused(datagram.from, why) {
                    self.diagnosis.on_hint(came, hint);
                }
                return Heard::Refused;
            }
        };
        self.diagnosis.on_heard(came);
        let moved = is_fresh.then(|| self.follow(came, datagram.from)).flatten();
        match received {
            Received::Feedback(f) => {
                let sent = self.control.bytes_sent();
                let arrived = self.delivered.on_counter(f.arrival.bytes, sent);
                self.on_feedback(came, &f, beside(arrived));
            }
            Received::EpochSize(epoch) => {
                self.control.on_epoch_ack(came, epoch.packets());
                if let Some(counts) = self.feedback.receivebox_counts() {
                    self.diagnosis.on_counts(came, counts.sent, counts.packets);
                }
            }
            Received::NewSession => self.send_epoch(came, self.control.epoch(), channel),
        }
        Heard::Accepted(moved)
    }

    /// Takes in a feedback message; `beside` are the sendbox's bundles towards other sites.
    fn on_feedback(&mut self, came: Nanos, f: &feedback::Feedback, beside: control::Others) {
        let at_receivebox = f.others.map_or_else(control::Others::default, |others| {
            let feedback::Others { bytes, fair } = others;
            control::Others { bytes, fair }
        });
        let feedback = control::Feedback {
            fingerprint: f.arrival.fingerprint,
            epoch: f.epoch.packets(),
            bytes: f.arrival.bytes,
            packets: f.arrival.packets,
            received_at: f.arrival.time,
            others: at_receivebox.and(beside),
            sequence: f.sequence,
        };
        // The time that the receivebox held the feedback is not part of the path.
        self.control.on_feedback(came.saturating_sub(f.held), &feedback);
        let unmatched = self.control.unmatched_in_a_row();
        self.diagnosis.on_unrecognized(came, unmatched);
        if unmatched == 0 {
            self.answered_at = came;
            if let Some(rtt) = self.control.rtt() {
                self.rtt_range.note(came, rtt);
            }
        }
    }

    /// Notes a hint at the reason why the receivebox is silent.
    pub(super) fn on_hint(&mut self, now: Nanos, hint: Hint) {
        self.diagnosis.on_hint(now, hint);
    }

    fn send_epoch(&mut self, now: Nanos, packets: u32, channel: &Channel) {
        // The controller's sizes are powers of two within the protocol's range.
        let Ok(epoch) = EpochSize::from_packets(packets) else { return };
        self.updated_at = now;
        let unrecognized = self.control.unmatched_in_a_row();
        let counts = SendboxCounts { packets: self.packets_told(), unrecognized };
        // A box that does not answer from where it was may be where its file or its name says.
        let other = self.endpoint.elsewhere().filter(|_| self.is_silent(now));
        for place in self.endpoint.current().into_iter().chain(other) {
            channel.send(&self.feedback.update(epoch, counts), place);
            if let Some(next) = &mut self.next {
                channel.send(&next.feedback.update(epoch, counts), place);
            }
        }
    }

    /// Runs a tick of the control loop, with `backlog` bytes waiting; returns the rate of the
    /// bundle's shaper, `None` being no limit. Both are in bytes as the shaper counts them. It
    /// sends a new epoch size to the receivebox, and passes events to `explain` and to the
    /// program's log.
    pub(super) fn tick<E>(
        &mut self,
        now: Nanos,
        backlog: Bytes,
        channel: &Channel,
        mut explain: impl FnMut(&dyn Fn() -> Event) -> Result<(), E>,
    ) -> Result<Option<Rate>, E> {
        let backlog = self.headers.to_ip(backlog);
        self.backlog = backlog;
        self.control.on_tick(now, backlog);
        if self.next.as_ref().is_some_and(|next| now >= next.until) {
            self.take_next_key();
        }
        let pause = now.saturating_sub(self.updated_at);
        let unanswered =
            self.next.is_some() || now.saturating_sub(self.answered_at) >= REMIND_AFTER;
        let due = pause >= if unanswered { REMIND_AFTER } else { KEEP_ALIVE };
        let reminder = due.then(|| self.control.epoch());
        if let Some(epoch) = self.control.poll_epoch_update(now).or(reminder) {
            self.send_epoch(now, epoch, channel);
        }
        if let Some(line) = self.diagnosis.poll(now) {
            line.log(self.name());
        }
        while let Some(event) = self.control.poll_event() {
            match event {
                control::Event::RateSet { .. } => {
                    tracing::debug!("bundle {}: {event}", self.name());
                }
                control::Event::ExcessReceived { .. } => {
                    tracing::warn!("bundle {}: {event}", self.name());
                }
                _ => tracing::info!("bundle {}: {event}", self.name()),
            }
            self.note(now, event);
            explain(&|| Event::new(now, &self.config.name, &event))?;
        }
        if let Some(event) = self.unlogged.take() {
            explain(&|| event.clone())?;
        }
        Ok(self.rate())
    }

    /// Keeps a decision for `forebay status`. Changes of the rate are too many.
    fn note(&mut self, now: Nanos, event: control::Event) {
        if let control::Event::RateSet { .. } = event {
            return;
        }
        if let control::Event::ModeChanged { reason, .. } = event {
            self.mode_since = now;
            self.reason = Some(reason);
        }
        self.decisions.note(now, &event);
    }

    /// Returns the state of the bundle, whose queue has these counters.
    pub(super) fn status(&self, now: Nanos, queue: QueueTotals) -> SendStatus {
        let snapshot = self.control.snapshot();
        let ms = |time: Nanos| time.0 as f64 / 1e6;
        let waited = |rtt: Nanos, least: Nanos| ms(rtt.saturating_sub(least));
        SendStatus {
            name: self.config.name.clone(),
            key_fingerprint: Some(self.config.key.fingerprint().to_string()),
            receivebox: self.endpoint.current(),
            moves: self.endpoint.moves(),
            mode: snapshot.mode.to_string(),
            mode_s: seconds(now, self.mode_since),
            reason: self.reason.map(|reason| reason.to_string()),
            reason_kind: self.reason.map(|reason| reason.kind().to_owned()),
            phase: snapshot.phase.map(|phase| phase.to_string()),
            trouble: self.diagnosis.current(now),
            rate_bps: snapshot.rate.map(Rate::as_bps),
            send_bps: snapshot.send_rate.map(Rate::as_bps),
            receive_bps: snapshot.receive_rate.map(Rate::as_bps),
            loss: snapshot.loss,
            rtt_ms: snapshot.rtt.map(ms),
            min_rtt_ms: snapshot.min_rtt.map(ms),
            min_rtt_age_s: snapshot.min_rtt_age.map(Nanos::as_secs_f64),
            rtt_range_ms: self.rtt_range.last(now).map(|(low, high)| (ms(low), ms(high))),
            backlog_bytes: self.backlog.0,
            wait_here_ms: snapshot.rate.map(|rate| ms(rate.time_for(self.backlog))),
            wait_network_ms: snapshot
                .rtt
                .zip(snapshot.min_rtt)
                .map(|(rtt, least)| waited(rtt, least)),
            packets: self.control.packets_sent(),
            bytes: self.control.bytes_sent().0,
            dropped: queue.dropped,
            marked: queue.marked,
            waits: queue.waits.map(|w| w.status(now, classes::names(self.policy()))),
            refused: self.refused,
            measurements: snapshot.counters.accepted,
            unmatched: snapshot.counters.unmatched,
            decided: self.decisions.count(),
            decisions: self.decisions.told(now),
        }
    }

    /// Prefetches the state of the bundles after number `index`, before that one's tick.
    pub(super) fn prefetch_after(index: usize, bundles: &Slots<Self>) {
        control::ControlLoop::prefetch_after(index, |index| bundles.get(index).map(|b| &b.control));
    }

    /// Returns the rate of the bundle's shaper: that of its control loop, and at most its ceiling.
    pub(super) fn rate(&self) -> Option<Rate> {
        let controlled = self.control.rate().map(|rate| self.headers.to_link(rate));
        controlled.into_iter().chain(self.config.share.ceil).min()
    }

    /// Whether packets leave in the order of their arrival instead of the policy's order.
    pub(super) fn keeps_order(&self) -> bool {
        // Below a ceiling the bundle waits here, and its policy decides.
        self.control.keeps_order() && self.config.share.ceil.is_none()
    }

    /// Returns the epoch size in packets.
    pub(super) fn epoch(&self) -> u32 {
        self.control.epoch()
    }

    pub(super) fn snapshot(&self) -> control::Snapshot {
        self.control.snapshot()
    }

    /// Returns the key of the fingerprints of its packets.
    pub(super) fn fingerprint_key(&self) -> &FingerprintKey {
        &self.fingerprint_key
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// The sessions of its channel, and of that of the next key.
    pub(super) fn sessions(&self) -> [Option<Session>; 2] {
        let next = self.next.as_ref().map(|next| next.feedback.session());
        [Some(self.feedback.session()), next]
    }

    /// The present address of its receivebox, if it is known.
    pub(super) fn receivebox(&self) -> Option<SocketAddr> {
        self.endpoint.current()
    }

    /// Returns the ids that its messages may have.
    pub(super) fn ids(&self) -> impl Iterator<Item = BundleId> {
        let next = self.next.as_ref().map(|next| next.id).filter(|next| *next != self.id);
        [Some(self.id), next].into_iter().flatten()
    }

    pub(super) fn config(&self) -> &BundleConfig {
        &self.config
    }

    /// Returns a summary for the log at the end.
    pub(super) fn summary(&self) -> String {
        let c = self.control.snapshot().counters;
        format!(
            "bundle {}: {} answers gave a sample, {} matched no packet, {} were impossible, {} \
             ambiguous, {} out of order; {} packets got no answer, {} were not remembered; {} \
             restarts of the receivebox, {} messages refused, {} events not logged",
            self.name(),
            c.accepted,
            c.unmatched,
            c.impossible,
            c.ambiguous,
            c.out_of_order,
            c.marks_expired,
            c.marks_refused,
            c.restarts,
            self.refused,
            c.events_lost,
        )
    }
}

/// Returns the settings of a bundle's control loop.
fn settings(config: &BundleConfig) -> control::ControlConfig {
    let defaults = control::ControlConfig::default();
    // An address that is not known yet may be of IPv6, where messages are longer.
    let longest = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let feedback_wire = packet_length(FEEDBACK_LEN, config.receivebox.found().unwrap_or(longest));
    control::ControlConfig {
        min_rate: config.min_rate.unwrap_or(defaults.min_rate),
        max_rate: config.max_rate.unwrap_or(defaults.max_rate),
        epoch: control::EpochConfig { feedback_wire, ..defaults.epoch },
        controller: config.controller,
        cross_traffic: config.cross_traffic,
        multipath: config.multipath,
        guard: config.guard,
        ..defaults
    }
}

/// Makes the control loop of a bundle.
fn control_loop(config: &BundleConfig, now: Nanos) -> Result<control::ControlLoop, Error> {
    control::ControlLoop::new(settings(config), now).map_err(|source| failure(config, source))
}

fn failure(config: &BundleConfig, source: control::ConfigError) -> Error {
    Error::Control { bundle: config.name.clone(), source }
}

/// Makes the channel of a bundle to its receivebox.
fn channel(config: &BundleConfig) -> SendboxChannel {
    SendboxChannel::new(BundleId(config.id), &config.key, random::session())
}
