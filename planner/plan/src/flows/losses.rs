//! Counts losses by the sequence numbers of messages.

use crate::flows::message::{Header, Version};

/// The gap above which the exporter has restarted: in messages of NetFlow v9 and sFlow, and in
/// records of IPFIX and NetFlow v5.
const MAX_GAP: [i64; 2] = [1 << 14, 1 << 18];
/// The distance up to which a lower number is a late message; beyond it, the exporter has
/// restarted.
const LATEST: [i64; 2] = [64, 4096];

/// The losses of one domain: in messages for NetFlow v9 and sFlow, in data records for IPFIX and
/// NetFlow v5 (RFC 3954, section 5.1; RFC 7011, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    next: Option<u32>,
    /// The number that came.
    pub(crate) came: u64,
    /// The number that was lost.
    pub(crate) lost: u64,
}

impl Losses {
    /// Takes a message with this number of data records; `None` if it is not known.
    pub(crate) fn message(&mut self, header: &Header, records: Option<u32>) {
        let (protocol, units) = match header.version {
            Version::Netflow9 | Version::Sflow5 => (0, Some(1)),
            Version::Netflow5 | Version::Ipfix => (1, records),
        };
        let Some(units) = units else {
            // Without the number of records, the next sequence number is unknown.
            self.next = None;
            return;
        };
        self.came += u64::from(units);
        if let Some(expected) = self.next {
            let ahead = i64::from(header.sequence.wrapping_sub(expected) as i32);
            if (1..=MAX_GAP[protocol]).contains(&ahead) {
                self.lost += ahead as u64;
            } else if (-LATEST[protocol]..0).contains(&ahead) {
                // The message was counted as lost when a later one came.
                self.lost = self.lost.saturating_sub(u64::from(units));
                return;
            }
        }
        self.next = Some(header.sequence.wrapping_add(units));
    }

    /// Returns the part that was lost.
    pub(crate) fn share(&self) -> f64 {
        self.lost as f64 / (self.came + self.lost).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(version: Version, messages: &[(u32, Option<u32>)]) -> (u64, u64) {
        let mut losses = Losses::default();
        for (sequence, records) in messages {
            let (uptime, sequence) = (None, *sequence);
            let header = Header { version, exported: 0, uptime, sequence, domain: 0 };
            losses.message(&header, *records);
        }
        (losses.came, losses.lost)
    }

    #[test]
    fn gaps_restarts_and_late_messages_are_counted() {
        let netflow = |numbers: &[u32]| {
            let messages: Vec<_> = numbers.iter().map(|n| (*n, Some(30))).collect();
            losses(Version::Netflow9, &messages)
        };
        assert_eq!(netflow(&[7, 8, 9]), (3, 0));
        assert_eq!(netflow(&[7, 10]), (2, 2));
        assert_eq!(netflow(&[u32::MAX, 0, 1]), (3, 0), "numbers turn over");
        assert_eq!(netflow(&[7, 9, 8, 10]), (4, 0), "the late one is not lost");
        assert_eq!(netflow(&[70_000, 0, 1]), (3, 0), "a restart loses nothing");
        assert_eq!(netflow(&[0, 1 << 20, (1 << 20) + 2]), (3, 1));
        let ipfix = |messages: &[(u32, Option<u32>)]| losses(Version::Ipfix, messages);
        assert_eq!(ipfix(&[(0, Some(30)), (30, Some(10)), (40, Some(1))]), (41, 0));
        assert_eq!(ipfix(&[(0, Some(30)), (50, Some(10))]), (40, 20));
        assert_eq!(ipfix(&[(0, Some(30)), (50, Some(10)), (30, Some(20))]), (60, 0));
        assert_eq!(ipfix(&[(0, None), (99, Some(1)), (100, Some(1))]), (2, 0));
    }

    #[test]
    fn the_share_is_of_all_messages() {
        assert_eq!(Losses { next: None, came: 3, lost: 1 }.share(), 0.25);
        assert_eq!(Losses::default().share(), 0.0);
    }
}
