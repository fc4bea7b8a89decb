use forebay_units::Nanos;

/// The initial window (RFC 9002 section 7.2), also what is left after a silence.
const INITIAL: f64 = 10.0;
/// The largest window: 14 MB, several times the product of bandwidth and delay of any scenario.
const LARGEST: f64 = 10_000.0;
/// What a loss leaves of the window (the multiplicative decrease of RFC 9438 section 4.6).
const BETA: f64 = 0.7;
/// A sender that hears nothing for so long starts again.
const SILENCE: Nanos = Nanos::from_secs(1);

/// What a receiver reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// One more than the highest sequence number received.
    pub(super) next: u64,
    /// Datagrams received.
    pub(super) received: u64,
}

/// A congestion window in datagrams: slow start, additive increase by one per round trip,
/// multiplicative decrease once per window that lost something. Clocked by reports, never by
/// time alone, so that the traffic reacts to a queue as real senders do.
pub(super) struct Window {
    size: f64,
    threshold: f64,
    next: u64,
    reported: Report,
    /// Losses of datagrams before this one have been reacted to.
    recovered: u64,
    heard: Nanos,
}

impl Window {
    /// A window that opens at `now`.
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            size: INITIAL,
            threshold: f64::INFINITY,
            next: 0,
            reported: Report::default(),
            recovered: 0,
            heard: now,
        }
    }

    /// The sequence number of the datagram to send now, if one may be sent.
    pub(super) fn send(&mut self) -> Option<u64> {
        if (self.next - self.reported.next) as f64 >= self.size.floor() {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Takes a report; old ones and impossible ones are ignored.
    pub(super) fn report(&mut self, now: Nanos, report: Report) {
        let before = self.reported;
        if !(before.next..=self.next).contains(&report.next) || report.received < before.received {
            return;
        }
        self.heard = now;
        self.reported = report;
        let missing = |r: Report| r.next.saturating_sub(r.received);
        if missing(report) > missing(before) && report.next > self.recovered {
            self.size = (self.size * BETA).max(2.0);
            self.threshold = self.size;
            self.recovered = self.next;
            return;
        }
        let newly = (report.next - before.next) as f64;
        let gain = if self.size < self.threshold { newly } else { newly / self.size };
        self.size = (self.size + gain).min(LARGEST);
    }

    /// When to give up on what is on its way.
    pub(super) fn deadline(&self) -> Nanos {
        self.heard.saturating_add(SILENCE)
    }

    /// At the deadline: everything on its way is taken for lost.
    pub(super) fn silence(&mut self, now: Nanos) {
        self.size = INITIAL;
        self.threshold = INITIAL;
        // Missing from now on, so the next report brings no news of them.
        self.reported.next = self.next;
        self.recovered = self.next;
        self.heard = now;
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
        window.report(T, Report { next: 10, received: 10 });
        assert_eq!(send_all(&mut window), 20, "doubled");
        window.threshold = 20.0;
        window.report(T, Report { next: 30, received: 30 });
        assert_eq!(send_all(&mut window), 21, "one more per round trip");
    }

    #[test]
    fn one_window_is_cut_once() {
        let mut window = Window::new(T);
        send_all(&mut window);
        window.report(T, Report { next: 5, received: 4 });
        assert_eq!(window.size, 7.0);
        window.report(T, Report { next: 6, received: 4 });
        assert!((7.0..7.2).contains(&window.size), "the same window: {}", window.size);
        window.report(T, Report { next: 10, received: 8 });
        let before = window.size;
        assert!(send_all(&mut window) > 0);
        window.report(T, Report { next: 12, received: 9 });
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
        window.report(later, Report { next: 11, received: 1 });
        assert!(window.size > INITIAL, "ten were lost, and known to be");
    }

    #[test]
    fn impossible_reports_are_ignored() {
        let mut window = Window::new(T);
        send_all(&mut window);
        window.report(T, Report { next: 11, received: 1 });
        window.report(T, Report { next: 5, received: 5 });
        window.report(T, Report { next: 4, received: 4 });
        assert_eq!(window.reported, Report { next: 5, received: 5 });
    }
}
