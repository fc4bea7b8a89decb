//! L4S over UDP: a backlogged sender under Prague and its receiver, which says of every datagram
//! whether it was marked. So it needs no accurate ECN of TCP's, which kernels are only about to have.
//!
//! What is sent says ECT(1), the reports too. A report has totals, so one that is lost costs nothing
//! but time; it goes out for every second datagram, and at once for one that is marked (RFC 9000
//! section 13.2.1 asks the same of QUIC).
//!
//! | RFC 9331 section 4.3 | here |
//! |---|---|
//! | 1, a replacement that says no ECT(1) | the laboratory's `transport = "udp"` without Prague |
//! | 2, a loss | halves the window, once a round trip, as with Reno |
//! | 3, a classic bottleneck; 4, round trips; 5, below two segments | as [`crate::prague`] has them |
//! | 6, loss detection by time | what is missing counts as lost after a quarter of a round trip (RFC 8985 section 6.2 step 4) |
//! | 7, bursts | pacing, in bursts of 250 us, or a datagram |

use std::collections::VecDeque;

use forebay_units::{Bytes, Nanos};

use super::BULK_PAYLOAD;
use crate::prague::{Acked, LEAST_SEGMENTS, Path, Prague, REFERENCE_RTT, burst, pace};

/// The window at first (RFC 9002 section 7.2), paced over the reference round trip until a real one
/// is known.
const INITIAL: f64 = 10.0;
/// The largest window, several times any path's bandwidth-delay product.
const LARGEST: f64 = 10_000.0;
/// A sender that hears nothing for so long starts again.
const SILENCE: Nanos = Nanos::from_secs(1);
/// How often a receiver reports, and after how long (RFC 9000 sections 13.2.2 and 18.2).
const REPORT_EVERY: u64 = 2;
const REPORT_DELAY: Nanos = Nanos::from_millis(25);
/// What a datagram takes on the wire: its payload, headers of UDP, IPv4 and Ethernet.
const ON_THE_WIRE: u64 = BULK_PAYLOAD + 8 + 20 + 14;

/// What a receiver says of all datagrams so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// One past the highest number that came.
    pub next: u64,
    /// How many came.
    pub received: u64,
    /// How many of those were marked.
    pub marked: u64,
    /// The number of the one that came last,
    pub latest: u64,
    /// and how long ago that was.
    pub held: Nanos,
}

impl Report {
    /// Its length as [`Report::encode`] makes it.
    pub const LEN: usize = 40;

    /// Big-endian numbers in the order of the fields.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let fields = [self.next, self.received, self.marked, self.latest, self.held.0];
        for (place, field) in out.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        out
    }

    /// What [`Report::encode`] made.
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

/// The receiving end.
#[derive(Debug, Default)]
pub struct Receiver {
    report: Report,
    latest_at: Nanos,
    reported: u64,
    due: Option<Nanos>,
}

impl Receiver {
    /// Datagram `number` came, marked or not; whether to report now.
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

    /// When to report what has come, at the latest; never if all is reported.
    pub fn deadline(&self) -> Nanos {
        self.due.unwrap_or(Nanos::MAX)
    }

    /// The report that is sent now.
    pub fn report(&mut self, now: Nanos) -> Report {
        self.due = None;
        self.reported = self.report.received;
        Report { held: now.saturating_sub(self.latest_at), ..self.report }
    }
}

/// The sending end, which always has something to send.
#[derive(Debug)]
pub struct Sender {
    prague: Prague,
    /// The slow-start threshold.
    threshold: f64,
    /// The number of the next datagram.
    next: u64,
    /// When those were sent that are not reported yet; the first is number `sent_from`. At most as many
    /// as the largest window and those of a silence hold.
    sent: VecDeque<Nanos>,
    sent_from: u64,
    last: Report,
    /// How many are taken for lost, and the number that all of those are before.
    lost: u64,
    lost_before: u64,
    /// Since when more of them have been missing.
    missing_since: Option<Nanos>,
    /// Losses of datagrams before this one have been reacted to.
    recovered: u64,
    /// Zero before the first sample.
    smoothed_rtt: u64,
    min_rtt: u64,
    heard: Nanos,
    /// When the next burst may go, and what may still go in this one.
    next_burst: Nanos,
    in_burst: u32,
}

impl Sender {
    /// A sender that begins at `now`.
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
            heard: now,
            next_burst: now,
            in_burst: 0,
        }
    }

    /// The number of the datagram to send now, if one may be sent.
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

    /// Lets a burst out, and the next one when this has taken its time.
    fn begin_burst(&mut self, now: Nanos) {
        let gain = if self.slow_start() { 2.0 } else { 1.0 };
        let pace = pace(self.prague.window() * gain, ON_THE_WIRE, self.rtt());
        let burst = burst(pace, ON_THE_WIRE).max(1);
        let takes = pace.time_for(Bytes(u64::from(burst) * ON_THE_WIRE));
        // Who was woken a little late keeps the pace; who had nothing to send for long does not
        // catch up.
        let late = now.saturating_sub(self.next_burst);
        let from = if late <= takes { self.next_burst } else { now };
        self.next_burst = from.saturating_add(takes);
        self.in_burst = burst;
    }

    fn slow_start(&self) -> bool {
        self.prague.window() < self.threshold
    }

    /// The smoothed round trip, or what stands for it.
    fn rtt(&self) -> u64 {
        if self.smoothed_rtt == 0 { REFERENCE_RTT } else { self.smoothed_rtt }
    }

    fn path(&self, now: Nanos) -> Path {
        Path { now: now.0, smoothed_rtt: self.rtt(), min_rtt: self.min_rtt.min(self.rtt()) }
    }

    /// Takes in a report. Old ones and impossible ones are ignored.
    pub fn report(&mut self, now: Nanos, report: &Report) {
        let Report { next, received, marked, latest, held } = *report;
        let last = self.last;
        let possible = next <= self.next && marked <= received && latest < next;
        if !possible || next < last.next || received <= last.received || marked < last.marked {
            return;
        }
        self.heard = now;
        self.last = *report;
        let rtt = self.sample(now, latest, held);
        while self.sent_from < next && self.sent.pop_front().is_some() {
            self.sent_from += 1;
        }
        // Some that were taken for lost may have come after all.
        let absent = next.max(self.lost_before).saturating_sub(received);
        self.lost = self.lost.min(absent);
        let newly = received - last.received;
        self.look_for_losses(now);
        let path = self.path(now);
        let acked = Acked { newly, marked: marked - last.marked, rtt };
        // Until what a loss was found by is through, the window has been cut for it.
        let may_cut = next > self.recovered;
        if self.prague.on_ack(&path, &acked, may_cut) {
            self.threshold = self.prague.window();
        } else {
            self.grow(&path, newly - (marked - last.marked).min(newly));
        }
    }

    /// The round trip of the datagram `latest`, if it is new.
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

    /// By what came without a mark.
    fn grow(&mut self, path: &Path, newly: u64) {
        // Never more than the window holds.
        let mut newly = newly.min(LARGEST as u64) as u32;
        if self.slow_start() {
            let before = self.prague.window();
            let window = (before + f64::from(newly)).min(self.threshold);
            self.prague.set_window(window);
            newly -= (window - before) as u32;
        }
        self.prague.grow(path, newly);
        self.prague.set_window(self.prague.window().min(LARGEST));
    }

    /// What has been missing for a quarter of a round trip is lost.
    fn look_for_losses(&mut self, now: Nanos) {
        // Duplicates make more received than there are numbers.
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

    /// When to call [`Sender::on_time`] and [`Sender::send`] if nothing comes before.
    pub fn deadline(&self) -> Nanos {
        let lost =
            self.missing_since.map_or(Nanos::MAX, |t| t.saturating_add(Nanos(self.rtt() / 4)));
        let paced = if self.has_room() { self.next_burst } else { Nanos::MAX };
        paced.min(lost).min(self.heard.saturating_add(SILENCE))
    }

    /// Sees to what time alone tells.
    pub fn on_time(&mut self, now: Nanos) {
        if now.saturating_sub(self.heard) >= SILENCE {
            // All that is on its way is taken for lost, and was reacted to.
            self.lost = self.next.saturating_sub(self.last.received);
            self.lost_before = self.next;
            self.missing_since = None;
            self.recovered = self.next;
            self.threshold = self.prague.window() / 2.0;
            self.prague.set_window(f64::from(LEAST_SEGMENTS));
            self.sent.clear();
            self.sent_from = self.next;
            self.heard = now;
        } else {
            self.look_for_losses(now);
        }
    }
}

#[cfg(test)]
mod tests;
