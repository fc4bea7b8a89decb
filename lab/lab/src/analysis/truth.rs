use forebay_records::packet_log::Fate;
use forebay_units::{Bytes, Nanos, Rate};

use crate::results::Run;

/// What the bottleneck's log says the sendbox should have measured.
///
/// The hop from the sendbox to the bottleneck has no delay, the emulated propagation delay follows
/// the bottleneck, and the log records a packet at the start of its transmission. So feedback for a
/// packet that started at `time` after waiting `sojourn` is back at the sendbox at
///
/// `home = time + length / rate + base_rtt`
///
/// and its round trip, from leaving the sendbox, was
///
/// `sojourn + length / rate + base_rtt`
///
/// that is, transmission time included. Everything is looked up by `home`, the instant at which the
/// sendbox can first know.
#[derive(Debug)]
pub(super) struct Truth {
    /// The time at which each packet's feedback arrives at the sendbox, ascending.
    home: Vec<Nanos>,
    rtt: Vec<Nanos>,
    /// The number of bytes of all packets up to this one, as boxes count them.
    bytes: Vec<u64>,
}

impl Truth {
    pub(super) fn of(run: &Run) -> Self {
        let mut packets: Vec<(Nanos, Nanos, u64)> = run
            .bottleneck
            .iter()
            .filter(|r| r.fate == Fate::Sent && run.bundle_source.is_none_or(|s| s == r.source))
            .map(|r| {
                let after = run.rate.time_for(r.len).saturating_add(run.base_rtt);
                let (home, rtt) = (r.time.saturating_add(after), r.sojourn.saturating_add(after));
                (home, rtt, r.len.saturating_sub(run.link_header).0)
            })
            .collect();
        // The sort is stable; a link that sends one packet at a time has them in order already.
        packets.sort_by_key(|&(home, ..)| home);
        let bytes = packets.iter().scan(0u64, |sum, &(.., len)| {
            *sum = sum.saturating_add(len);
            Some(*sum)
        });
        Self {
            bytes: bytes.collect(),
            home: packets.iter().map(|p| p.0).collect(),
            rtt: packets.iter().map(|p| p.1).collect(),
        }
    }

    /// The number of packets whose feedback has arrived at `now`.
    fn count(&self, now: Nanos) -> usize {
        self.home.partition_point(|home| *home <= now)
    }

    /// The round trip of the packet whose feedback arrived last before `now`; `None` before the
    /// first.
    pub(super) fn rtt(&self, now: Nanos) -> Option<Nanos> {
        self.rtt.get(self.count(now).checked_sub(1)?).copied()
    }

    /// The rate at which the bundle left the bottleneck, over the packets whose feedback arrived in
    /// `(now - window, now]`; `None` if the log does not reach back that far.
    pub(super) fn receive_rate(&self, now: Nanos, window: Nanos) -> Option<Rate> {
        let from = now.checked_sub(window)?;
        let before = self.count(from).checked_sub(1)?;
        let last = self.count(now) - 1;
        let bytes = self.bytes[last] - self.bytes[before];
        (window != Nanos::ZERO).then(|| Rate::from_bytes_over(Bytes(bytes), window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_records::packet_log::Record;

    /// At 12 Mbit/s, 1500 B take 1 ms; the path takes 50 ms.
    fn run() -> Run {
        let record = |time, wait, source, fate| Record {
            time: Nanos::from_millis(time),
            sojourn: Nanos::from_millis(wait),
            len: Bytes(1500),
            source,
            flow: 0,
            fate,
            l4s: false,
            marked: false,
        };
        Run {
            rate: Rate::from_mbps(12),
            base_rtt: Nanos::from_millis(50),
            bottleneck: vec![
                record(10, 2, 1, Fate::Sent),
                record(11, 7, 0, Fate::Sent),
                record(11, 9, 1, Fate::Dropped),
                record(12, 3, 1, Fate::Sent),
            ],
            ..Run::default()
        }
    }

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn round_trip_of_the_packet_last_home() {
        // Feedback arrives at 10 + 1 + 50 = 61, 62 and 63 ms; round trips are 2 + 1 + 50 = 53, 58
        // and 54 ms.
        let truth = Truth::of(&run());
        assert_eq!(truth.rtt(Nanos(ms(61).0 - 1)), None);
        assert_eq!(truth.rtt(ms(61)), Some(ms(53)));
        assert_eq!(truth.rtt(ms(62)), Some(ms(58)));
        assert_eq!(truth.rtt(ms(1000)), Some(ms(54)), "the last one stands");
    }

    #[test]
    fn cross_traffic_is_not_the_bundles() {
        let truth = Truth::of(&Run { bundle_source: Some(1), ..run() });
        assert_eq!(truth.rtt(ms(62)), Some(ms(53)), "62 ms brought a cross-traffic packet");
        // 1500 B in the 2 ms after 61 ms: 6 Mbit/s; with the cross traffic it would be 12 Mbit/s.
        assert_eq!(truth.receive_rate(ms(63), ms(2)), Some(Rate::from_mbps(6)));
        assert_eq!(Truth::of(&run()).receive_rate(ms(63), ms(2)), Some(Rate::from_mbps(12)));
    }

    #[test]
    fn link_headers_count_for_the_link_and_not_for_the_boxes() {
        let truth = Truth::of(&Run { bundle_source: Some(1), link_header: Bytes(14), ..run() });
        assert_eq!(truth.rtt(ms(62)), Some(ms(53)));
        assert_eq!(truth.receive_rate(ms(63), ms(2)), Some(Rate::from_bps(1_486 * 4_000)));
    }

    #[test]
    fn no_rate_from_before_the_log() {
        let truth = Truth::of(&run());
        assert_eq!(truth.receive_rate(ms(62), ms(2)), None);
        assert_eq!(truth.receive_rate(ms(62), ms(63)), None);
        assert_eq!(truth.receive_rate(ms(62), Nanos::ZERO), None);
        assert_eq!(Truth::of(&Run::default()).rtt(ms(62)), None);
    }
}
