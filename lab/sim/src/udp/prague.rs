//! L4S over UDP: a backlogged sender with Prague and its receiver.
//!
//! The receiver reports the marked datagrams, so this needs no accurate ECN in the kernel's TCP.
//! Datagrams and reports carry ECT(1). A report contains totals, so a lost report only costs time.
//! The receiver reports every second datagram, and a marked one at once (RFC 9000 section 13.2.1
//! requires the same for QUIC).
//!
//! | RFC 9331 section 4.3 | here |
//! |---|---|
//! | 1, a replacement without ECT(1) | the laboratory's `transport = "udp"` without Prague |
//! | 2, a loss | halves the window once per round trip, as in Reno |
//! | 3, a classic bottleneck; 4, round trips; 5, below two segments | see [`crate::prague`] |
//! | 6, loss detection by time | a missing datagram counts as lost after a quarter of a round trip (RFC 8985 section 6.2 step 4) |
//! | 7, bursts | pacing in bursts of 250 us or one datagram |

use std::collections::VecDeque;

use forebay_units::{Bytes, Nanos};

use super::BULK_PAYLOAD;
use crate::prague::{Acked, LEAST_SEGMENTS, Path, Prague, REFERENCE_RTT, burst, pace};

/// The initial window in datagrams (RFC 9002 section 7.2). It is paced over the reference round
/// trip until one is measured.
const INITIAL: f64 = 10.0;
/// The largest window in datagrams, several times the bandwidth-delay product of any path.
const MAX_WINDOW: f64 = 10_000.0;
/// The time without reports after which a sender restarts.
const REPORT_TIMEOUT: Nanos = Nanos::from_secs(1);
/// The number of datagrams per report (RFC 9000 section 13.2.2).
const REPORT_EVERY: u64 = 2;
/// The longest delay of a report (RFC 9000 section 18.2).
const REPORT_DELAY: Nanos = Nanos::from_millis(25);
/// The length of a datagram on the wire: its payload and the headers of UDP, IPv4 and Ethernet.
const ON_THE_WIRE: u64 = BULK_PAYLOAD + 8 + 20 + 14;

/// A receiver's report about all datagrams so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number after the highest one that arrived.
    pub next: u64,
    /// The number of datagrams that arrived.
    pub received: u64,
    /// The number of datagrams that arrived marked.
    pub marked: u64,
    /// The number of the datagram that arrived last.
    pub latest: u64,
    /// The time since the last datagram arrived.
    pub held: Nanos,
}

impl Report {
    /// The length of an encoded report in bytes.
    pub const LEN: usize = 40;

    /// Encodes the fields in order as big-endian 64-bit numbers.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let fields = [self.next, self.received, self.marked, self.latest, self.held.0];
        for (place, field) in out.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        out
    }

    /// Decodes the result of [`Report::encode`].
    pub fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let field = |n: usize| {
            let bytes = &bytes[8 * n..8 * (n + 1)];
            bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        Self {
            next: field(0),
            received: field(1),
            marked: field(2),
            latest: field(3),
            held: Nanos(field(4)),
        }
    }
}

/// The receiver of datagrams.
#[derive(Debug, Default)]
pub struct Receiver {
    report: Report,
    latest_at: Nanos,
    reported: u64,
    due: Option<Nanos>,
}

impl Receiver {
    /// Records that datagram `number` arrived, marked or not. Returns whether to report now.
    pub fn on_datagram(&mut self, now: Nanos, number: u64, marked: bool) -> bool {
        let report = &mut self.report;
        report.next = report.next.max(number.saturating_add(1));
        report.received += 1;
        report.marked += u64::from(marked);
        report.latest = number;
        self.latest_at = now;
        self.due.get_or_insert(now.saturating_add(REPORT_DELAY));
        marked || report.received - self.reported >= REPORT_EVERY
    }

    /// Returns when to report at the latest, or [`Nanos::MAX`] if everything is reported.
    pub fn deadline(&self) -> Nanos {
        self.due.unwrap_or(Nanos::MAX)
    }

    /// Returns the report to send now.
    pub fn report(&mut self, now: Nanos) -> Report {
        self.due = None;
        self.reported = self.report.received;
        Report { held: now.saturating_sub(self.latest_at), ..self.report }
    }
}

/// The sender, which always has data to send.
#[derive(Debug)]
pub struct Sender {
    prague: Prague,
    /// The slow-start threshold.
    threshold: f64,
    /// The number of the next datagram.
    next: u64,
    /// The send times of the datagrams from number `sent_from` on, which are not yet reported.
    /// Their number is bounded by the largest window and the datagrams sent during a silence.
    sent: VecDeque<Nanos>,
    sent_from: u64,
    last: Report,
    /// The number of datagrams that count as lost.
    lost: u64,
    /// The number below which all lost datagrams are.
    lost_before: u64,
    /// The time since which further datagrams are missing.
    missing_since: Option<Nanos>,
    /// The first datagram whose loss reduces the window again.
    recovered: u64,
    /// The smoothed round-trip time in nanoseconds; zero before the first sample.
    smoothed_rtt: u64,
    min_rtt: u64,
    last_heard: Nanos,
    /// The time at which the next burst may start.
    next_burst: Nanos,
    /// The number of datagrams that the current burst may still send.
    in_burst: u32,
}

impl Sender {
    /// Creates a sender that starts at `now`.
    pub fn new(now: Nanos) -> Self {
        Self {
            prague: Prague::new(now.0, INITIAL),
            threshold: f64::INFINITY,
            next: 0,
            sent: VecDeque::new(),
            sent_from: 0,
            last: Report::default(),
            lost: 0,
            lost_before: 0,
            missing_since: None,
            recovered: 0,
            smoothed_rtt: 0,
            min_rtt: u64::MAX,
            last_heard: now,
            next_burst: now,
            in_burst: 0,
        }
    }

    /// Returns the number of the datagram to send now, if window and pacing allow one.
    pub fn send(&mut self, now: Nanos) -> Option<u64> {
        if !self.has_room() {
            return None;
        }
        if self.in_burst == 0 {
            if now < self.next_burst {
                return None;
            }
            self.begin_burst(now);
        }
        self.in_burst -= 1;
        self.sent.push_back(now);
        self.next += 1;
        Some(self.next - 1)
    }

    fn has_room(&self) -> bool {
        let out = self.next.saturating_sub(self.last.received.saturating_add(self.lost));
        out < u64::from(self.prague.segments())
    }

    /// Starts a burst, and schedules the next one after the time of this one at the pace.
    fn begin_burst(&mut self, now: Nanos) {
        let gain = if self.slow_start() { 2.0 } else { 1.0 };
        let pace = pace(self.prague.window() * gain, ON_THE_WIRE, self.rtt());
        let burst = burst(pace, ON_THE_WIRE).max(1);
        let takes = pace.time_for(Bytes(u64::from(burst) * ON_THE_WIRE));
        // A sender that wakes a little late keeps the pace; after a long pause it does not catch
        // up.
        let late = now.saturating_sub(self.next_burst);
        let from = if late <= takes { self.next_burst } else { now };
        self.next_burst = from.saturating_add(takes);
        self.in_burst = burst;
    }

    fn slow_start(&self) -> bool {
        self.prague.window() < self.threshold
    }

    /// Returns the smoothed round-trip time, or the reference before the first sample.
    fn rtt(&self) -> u64 {
        if self.smoothed_rtt == 0 { REFERENCE_RTT } else { self.smoothed_rtt }
    }

    fn path(&self, now: Nanos) -> Path {
        Path { now: now.0, smoothed_rtt: self.rtt(), min_rtt: self.min_rtt.min(self.rtt()) }
    }

    /// Handles a report. Old and impossible reports are ignored.
    pub fn report(&mut self, now: Nanos, report: &Report) {
        let Report { next, received, marked, latest, held } = *report;
        let last = self.last;
        let possible = next <= self.next && marked <= received && latest < next;
        if !possible || next < last.next || received <= last.received || marked < last.marked {
            return;
        }
        self.last_heard = now;
        self.last = *report;
        let rtt = self.sample(now, latest, held);
        while self.sent_from < next && self.sent.pop_front().is_some() {
            self.sent_from += 1;
        }
        // Some datagrams that counted as lost may have arrived.
        let absent = next.max(self.lost_before).saturating_sub(received);
        self.lost = self.lost.min(absent);
        let newly = received - last.received;
        self.detect_losses(now);
        let path = self.path(now);
        let acked = Acked { newly, marked: marked - last.marked, rtt };
        // The loss has already reduced the window until the datagrams sent before are reported.
        let may_cut = next > self.recovered;
        if self.prague.on_ack(&path, &acked, may_cut) {
            self.threshold = self.prague.window();
        } else {
            self.grow(&path, newly - (marked - last.marked).min(newly));
        }
    }

    /// Returns the round-trip time of datagram `latest`, if it is new.
    fn sample(&mut self, now: Nanos, latest: u64, held: Nanos) -> Option<u64> {
        let place = usize::try_from(latest.checked_sub(self.sent_from)?).ok()?;
        let sent = *self.sent.get(place)?;
        let rtt = now.saturating_sub(sent).saturating_sub(held).0.max(1);
        self.min_rtt = self.min_rtt.min(rtt);
        // RFC 6298 section 2.
        self.smoothed_rtt = match self.smoothed_rtt {
            0 => rtt,
            smoothed => smoothed - smoothed / 8 + rtt / 8,
        };
        Some(rtt)
    }

    /// Grows the window by `newly` datagrams that arrived without a mark.
    fn grow(&mut self, path: &Path, newly: u64) {
        // At most as many as the largest window.
        let mut newly = newly.min(MAX_WINDOW as u64) as u32;
        if self.slow_start() {
            let before = self.prague.window();
            let window = (before + f64::from(newly)).min(self.threshold);
            self.prague.set_window(window);
            newly -= (window - before) as u32;
        }
        self.prague.grow(path, newly);
        self.prague.set_window(self.prague.window().min(MAX_WINDOW));
    }

    /// Counts datagrams as lost that have been missing for a quarter of a round trip.
    fn detect_losses(&mut self, now: Nanos) {
        // With duplicates, `received` can exceed `next`.
        let missing = self.last.next.saturating_sub(self.last.received).saturating_sub(self.lost);
        if missing == 0 {
            self.missing_since = None;
            return;
        }
        let since = *self.missing_since.get_or_insert(now);
        if now.saturating_sub(since) < Nanos(self.rtt() / 4) {
            return;
        }
        self.missing_since = None;
        self.lost += missing;
        self.lost_before = self.lost_before.max(self.last.next);
        if self.last.next > self.recovered {
            let half = self.prague.window() / 2.0;
            self.prague.set_window(half.max(f64::from(LEAST_SEGMENTS)));
            self.threshold = self.prague.window();
            self.recovered = self.next;
        }
    }

    /// Returns when to call [`Sender::on_time`] and [`Sender::send`] if no report comes before.
    pub fn deadline(&self) -> Nanos {
        let lost =
            self.missing_since.map_or(Nanos::MAX, |t| t.saturating_add(Nanos(self.rtt() / 4)));
        let paced = if self.has_room() { self.next_burst } else { Nanos::MAX };
        paced.min(lost).min(self.last_heard.saturating_add(REPORT_TIMEOUT))
    }

    /// Handles the passing of time: a silence and late datagrams.
    pub fn on_time(&mut self, now: Nanos) {
        if now.saturating_sub(self.last_heard) >= REPORT_TIMEOUT {
            // All datagrams in flight count as lost, and the window is reduced for them here.
            self.lost = self.next.saturating_sub(self.last.received);
            self.lost_before = self.next;
            self.missing_since = None;
            self.recovered = self.next;
            self.threshold = self.prague.window() / 2.0;
            self.prague.set_window(f64::from(LEAST_SEGMENTS));
            self.sent.clear();
            self.sent_from = self.next;
            self.last_heard = now;
        } else {
            self.detect_losses(now);
        }
    }
}

#[cfg(test)]
mod tests;
