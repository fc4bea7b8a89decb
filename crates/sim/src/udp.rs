//! UDP transports: a QUIC-like bulk sender and its receiver, one under [`prague`], and the sizes of
//! closed loops.
//!
//! Of no clock and no socket, so that real programs send by the same rules as simulated ones.

pub mod prague;

use forebay_units::Nanos;

/// The initial window (RFC 9002 section 7.2), also what is left after a silence.
const INITIAL: f64 = 10.0;
/// The largest window, several times any path's bandwidth-delay product.
const LARGEST: f64 = 10_000.0;
/// What a loss leaves of the window (the multiplicative decrease of RFC 9438 section 4.6).
const BETA: f64 = 0.7;
/// A sender that hears nothing for so long starts again.
const SILENCE: Nanos = Nanos::from_secs(1);
/// How often, and after how long, a receiver reports (RFC 9000 sections 13.2.2 and 18.2).
const REPORT_EVERY: u64 = 2;
const REPORT_DELAY: Nanos = Nanos::from_millis(25);

/// UDP payload of bulk datagrams, in bytes: with IPv6 it fits a 1500 B packet, and leaves room for an
/// encapsulation.
pub const BULK_PAYLOAD: u64 = 1_400;
/// UDP payload of a receiver's reports, in bytes.
pub const REPORT_PAYLOAD: u64 = 16;
/// UDP payload of a loop's request and of its response, in bytes, as in the Bundler evaluation
/// (EuroSys 2021, section 8).
pub const LOOP_PAYLOAD: u64 = 40;
/// A loop's response that has not come by then is taken for lost.
pub const LOST_AFTER: Nanos = Nanos::from_secs(1);

/// A congestion window in datagrams: slow start, additive increase by one per round trip,
/// multiplicative decrease once per window that lost something. Clocked by reports, never by time
/// alone, so that the traffic reacts to a queue as real senders do.
#[derive(Debug)]
pub struct Window {
    size: f64,
    threshold: f64,
    next: u64,
    reported: u64,
    received: u64,
    /// Losses of datagrams before this one have been reacted to.
    recovered: u64,
    heard: Nanos,
}

impl Window {
    /// A window that opens at `now`.
    pub fn new(now: Nanos) -> Self {
        Self {
            size: INITIAL,
            threshold: f64::INFINITY,
            next: 0,
            reported: 0,
            received: 0,
            recovered: 0,
            heard: now,
        }
    }

    /// The number of the datagram to send now, if one may be sent.
    pub fn send(&mut self) -> Option<u64> {
        if (self.next - self.reported) as f64 >= self.size.floor() {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// A report says that `received` datagrams had come, all of them before the one numbered `next`.
    /// Old ones and impossible ones are ignored.
    pub fn report(&mut self, now: Nanos, next: u64, received: u64) {
        if !(self.reported..=self.next).contains(&next) || received < self.received {
            return;
        }
        self.heard = now;
        let newly = (next - self.reported) as f64;
        // Duplicates make more received than there are numbers.
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
        self.size = (self.size + gain).min(LARGEST);
    }

    /// When to give up on what is on its way.
    pub fn deadline(&self) -> Nanos {
        self.heard.saturating_add(SILENCE)
    }

    /// At the deadline: everything on its way is taken for lost.
    pub fn silence(&mut self, now: Nanos) {
        (self.size, self.threshold) = (INITIAL, INITIAL);
        // Missing from now on, so the next report brings no news of them.
        self.reported = self.next;
        self.recovered = self.next;
        self.heard = now;
    }
}

/// The receiving end of bulk.
#[derive(Debug, Default)]
pub struct Sink {
    next: u64,
    received: u64,
    due: Option<Nanos>,
}

impl Sink {
    /// Datagram `number` came; whether to report now.
    pub fn on_datagram(&mut self, now: Nanos, number: u64) -> bool {
        self.next = self.next.max(number + 1);
        self.received += 1;
        self.due.get_or_insert(now.saturating_add(REPORT_DELAY));
        self.received.is_multiple_of(REPORT_EVERY)
    }

    /// When to report what has come, at the latest; never if all is reported.
    pub fn deadline(&self) -> Nanos {
        self.due.unwrap_or(Nanos::MAX)
    }

    /// The report that is sent now: the next number and how many were received.
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
    fn slow_start_doubles_and_then_adds_one() {
        let mut window = Window::new(T);
        assert_eq!(send_all(&mut window), 10);
        window.report(T, 10, 10);
        assert_eq!(send_all(&mut window), 20, "doubled");
        window.threshold = 20.0;
        window.report(T, 30, 30);
        assert_eq!(send_all(&mut window), 21, "one more per round trip");
    }

    #[test]
    fn one_window_is_cut_once() {
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
    fn silence_starts_again_without_a_second_cut() {
        let mut window = Window::new(T);
        send_all(&mut window);
        assert_eq!(window.send(), None);
        let later = window.deadline();
        window.silence(later);
        assert_eq!(send_all(&mut window), 10);
        window.report(later, 11, 1);
        assert!(window.size > INITIAL, "ten were lost, and known to be");
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
        assert_eq!(window.reported, 10, "two came twice");
    }

    #[test]
    fn every_second_datagram_is_reported_or_after_a_while() {
        let mut sink = Sink::default();
        assert!(!sink.on_datagram(Nanos(5), 0));
        assert!(sink.on_datagram(Nanos(6), 3));
        assert_eq!((sink.deadline(), sink.report()), (Nanos(5) + REPORT_DELAY, (4, 2)));
        assert_eq!(sink.deadline(), Nanos::MAX);
    }
}
