use forebay_queue::Ecn;
use forebay_units::Nanos;

/// Datagrams of one kind at a steady pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) ecn: Ecn,
    /// The length of the payload.
    pub(super) len: u64,
    interval: Nanos,
    /// When the next one is due.
    pub(super) next: Nanos,
}

impl Stream {
    pub(super) fn new(from: Nanos, ecn: Ecn, len: u64, interval: Nanos) -> Self {
        Self { ecn, len, interval: interval.max(Nanos(1)), next: from }
    }

    pub(super) fn advance(&mut self) {
        self.next = self.next.saturating_add(self.interval);
    }
}
