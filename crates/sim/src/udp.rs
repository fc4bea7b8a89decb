//! UDP transports: a QUIC-like bulk sender and its receiver, and the sizes of closed loops.

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

/// UDP payload of bulk datagrams, of reports and of a loop's two datagrams.
pub(crate) const BULK_PAYLOAD: u64 = 1_400;
pub(crate) const REPORT_PAYLOAD: u64 = 16;
pub(crate) const LOOP_PAYLOAD: u64 = 40;
/// A response that has not come by then is taken for lost.
pub(crate) const LOST_AFTER: Nanos = Nanos::from_secs(1);

/// Slow start, additive increase by one datagram per round trip, multiplicative decrease once per
/// window that lost something; clocked by reports.
#[derive(Debug)]
pub(crate) struct Window {
    size: f64,
    threshold: f64,
    next: u64,
    reported: u64,
    received: u64,
    recovered: u64,
    heard: Nanos,
}

impl Window {
    pub(crate) fn new(now: Nanos) -> Self {
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
    pub(crate) fn send(&mut self) -> Option<u64> {
        if (self.next - self.reported) as f64 >= self.size.floor() {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// `received` datagrams had come, all of them before the one numbered `next`.
    pub(crate) fn report(&mut self, now: Nanos, next: u64, received: u64) {
        if !(self.reported..=self.next).contains(&next) || received < self.received {
            return;
        }
        self.heard = now;
        let newly = (next - self.reported) as f64;
        let missing_more = next - received > self.reported.saturating_sub(self.received);
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

    pub(crate) fn deadline(&self) -> Nanos {
        self.heard.saturating_add(SILENCE)
    }

    /// At the deadline: everything on its way is taken for lost.
    pub(crate) fn silence(&mut self, now: Nanos) {
        (self.size, self.threshold) = (INITIAL, INITIAL);
        self.reported = self.next;
        self.recovered = self.next;
        self.heard = now;
    }
}

/// The receiving end of bulk.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    next: u64,
    received: u64,
    due: Option<Nanos>,
}

impl Sink {
    /// Datagram `number` came; whether to report now.
    pub(crate) fn on_datagram(&mut self, now: Nanos, number: u64) -> bool {
        self.next = self.next.max(number + 1);
        self.received += 1;
        self.due.get_or_insert(now.saturating_add(REPORT_DELAY));
        self.received.is_multiple_of(REPORT_EVERY)
    }

    pub(crate) fn deadline(&self) -> Nanos {
        self.due.unwrap_or(Nanos::MAX)
    }

    /// The report that is sent now: the next number and how many were received.
    pub(crate) fn report(&mut self) -> (u64, u64) {
        self.due = None;
        (self.next, self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_all(window: &mut Window) -> u64 {
        std::iter::from_fn(|| window.send()).count() as u64
    }

    #[test]
    fn doubles_and_is_cut_once_a_window() {
        let mut window = Window::new(Nanos::ZERO);
        assert_eq!(send_all(&mut window), 10);
        window.report(Nanos(1), 10, 10);
        assert_eq!(send_all(&mut window), 20);
        window.report(Nanos(2), 20, 19);
        assert_eq!(window.size, 14.0);
        window.report(Nanos(2), 22, 20);
        assert!((14.0..14.3).contains(&window.size), "the same window: {}", window.size);
        let later = window.deadline();
        send_all(&mut window);
        window.silence(later);
        assert_eq!(send_all(&mut window), 10);
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
