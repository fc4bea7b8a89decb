//! UDP transports: a QUIC-like bulk sender and its receiver, a sender with [`prague`], and the
//! sizes of closed loops.
//!
//! The code uses no clock and no socket, so real programs send by the same rules as simulated ones.

pub mod prague;

use forebay_units::Nanos;

/// The initial window in datagrams (RFC 9002 section 7.2), and the window after a silence.
const INITIAL: f64 = 10.0;
/// The largest window in datagrams, several times the bandwidth-delay product of any path.
const MAX_WINDOW: f64 = 10_000.0;
/// The factor of the window after a loss (the multiplicative decrease of RFC 9438 section 4.6).
const BETA: f64 = 0.7;
/// The time without reports after which a sender restarts.
const REPORT_TIMEOUT: Nanos = Nanos::from_secs(1);
/// The number of datagrams per report (RFC 9000 section 13.2.2).
const REPORT_EVERY: u64 = 2;
/// The longest delay of a report (RFC 9000 section 18.2).
const REPORT_DELAY: Nanos = Nanos::from_millis(25);

/// The UDP payload of bulk datagrams in bytes. With IPv6 it fits into a packet of 1500 B and leaves
/// room for an encapsulation.
pub const BULK_PAYLOAD: u64 = 1_400;
/// The UDP payload of a receiver's reports in bytes.
pub const REPORT_PAYLOAD: u64 = 16;
/// The UDP payload of a closed loop's request and response in bytes, as in the Bundler evaluation
/// (EuroSys 2021, section 8).
pub const LOOP_PAYLOAD: u64 = 40;
/// The time after which a response of a closed loop counts as lost.
pub const LOST_AFTER: Nanos = Nanos::from_secs(1);

/// A congestion window in datagrams.
///
/// It has slow start, an additive increase of one datagram per round trip, and one multiplicative
/// decrease per window with losses. Reports clock the window, so the traffic reacts to a queue as
/// real senders do.
#[derive(Debug)]
pub struct Window {
    size: f64,
    threshold: f64,
    next: u64,
    reported: u64,
    received: u64,
    /// The first datagram whose loss reduces the window again.
    recovered: u64,
    last_report: Nanos,
}

impl Window {
    /// Creates an initial window at `now`.
    pub fn new(now: Nanos) -> Self {
        Self {
            size: INITIAL,
            threshold: f64::INFINITY,
            next: 0,
            reported: 0,
            received: 0,
            recovered: 0,
            last_report: now,
        }
    }

    /// Returns the number of the datagram to send now, if the window allows one.
    pub fn send(&mut self) -> Option<u64> {
        if (self.next - self.reported) as f64 >= self.size.floor() {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Handles a report that `received` datagrams arrived, all with numbers below `next`. Old and
    /// impossible reports are ignored.
    pub fn report(&mut self, now: Nanos, next: u64, received: u64) {
        if !(self.reported..=self.next).contains(&next) || received < self.received {
            return;
        }
        self.last_report = now;
        let newly = (next - self.reported) as f64;
        // With duplicates, `received` can exceed `next`.
        let missing_more =
            next.saturating_sub(received) > self.reported.saturating_sub(self.received);
        (self.reported, self.received) = (next, received);
        if missing_more && next > self.recovered {
            self.size = (self.size * BETA).max(2.0);
            self.threshold = self.size;
            self.recovered = self.next;
            return;
        }
        let gain = if self.size < self.threshold { newly } else { newly / self.size };
        self.size = (self.size + gain).min(MAX_WINDOW);
    }

    /// Returns when to call [`Window::silence`] if no report comes before.
    pub fn deadline(&self) -> Nanos {
        self.last_report.saturating_add(REPORT_TIMEOUT)
    }

    /// Restarts the window at the deadline: all datagrams in flight count as lost.
    pub fn silence(&mut self, now: Nanos) {
        (self.size, self.threshold) = (INITIAL, INITIAL);
        // They are accounted as missing, so the next report does not reduce the window for them.
        self.reported = self.next;
        self.recovered = self.next;
        self.last_report = now;
    }
}

/// The receiver of bulk datagrams.
#[derive(Debug, Default)]
pub struct Sink {
    next: u64,
    received: u64,
    due: Option<Nanos>,
}

impl Sink {
    /// Records that datagram `number` arrived. Returns whether to report now.
    pub fn on_datagram(&mut self, now: Nanos, number: u64) -> bool {
        self.next = self.next.max(number + 1);
        self.received += 1;
        self.due.get_or_insert(now.saturating_add(REPORT_DELAY));
        self.received.is_multiple_of(REPORT_EVERY)
    }

    /// Returns when to report at the latest, or [`Nanos::MAX`] if everything is reported.
    pub fn deadline(&self) -> Nanos {
        self.due.unwrap_or(Nanos::MAX)
    }

    /// Returns the report to send now: the number after the highest one, and the number of
    /// datagrams received.
    pub fn report(&mut self) -> (u64, u64) {
        self.due = None;
        (self.next, self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Nanos = Nanos::ZERO;

    fn send_all(window: &mut Window) -> u64 {
        std::iter::from_fn(|| window.send()).count() as u64
    }

    #[test]
    fn slow_start_doubles_the_window_and_then_it_grows_by_one() {
        let mut window = Window::new(T);
        assert_eq!(send_all(&mut window), 10);
        window.report(T, 10, 10);
        assert_eq!(send_all(&mut window), 20, "doubled");
        window.threshold = 20.0;
        window.report(T, 30, 30);
        assert_eq!(send_all(&mut window), 21, "one more per round trip");
    }

    #[test]
    fn losses_of_one_window_reduce_it_once() {
        let mut window = Window::new(T);
        send_all(&mut window);
        window.report(T, 5, 4);
        assert_eq!(window.size, 7.0);
        window.report(T, 6, 4);
        assert!((7.0..7.2).contains(&window.size), "the same window: {}", window.size);
        window.report(T, 10, 8);
        let before = window.size;
        assert!(send_all(&mut window) > 0);
        window.report(T, 12, 9);
        assert_eq!(window.size, before * BETA, "a later window");
    }

    #[test]
    fn a_silence_restarts_the_window_without_a_second_reduction() {
        let mut window = Window::new(T);
        send_all(&mut window);
        assert_eq!(window.send(), None);
        let later = window.deadline();
        window.silence(later);
        assert_eq!(send_all(&mut window), 10);
        window.report(later, 11, 1);
        assert!(window.size > INITIAL, "the ten lost datagrams are already accounted for");
    }

    #[test]
    fn impossible_reports_are_ignored() {
        let mut window = Window::new(T);
        send_all(&mut window);
        window.report(T, 11, 1);
        window.report(T, 5, 5);
        window.report(T, 4, 4);
        assert_eq!((window.reported, window.received), (5, 5));
        window.report(T, 10, 12);
        assert_eq!(window.reported, 10, "two arrived twice");
    }

    #[test]
    fn a_report_follows_every_second_datagram_or_a_delay() {
        let mut sink = Sink::default();
        assert!(!sink.on_datagram(Nanos(5), 0));
        assert!(sink.on_datagram(Nanos(6), 3));
        assert_eq!((sink.deadline(), sink.report()), (Nanos(5) + REPORT_DELAY, (4, 2)));
        assert_eq!(sink.deadline(), Nanos::MAX);
    }
}
