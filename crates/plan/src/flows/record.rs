//! The fields of a record that are used: octets, interface, destination, times and sampling.

use std::net::IpAddr;

use crate::flows::element::Octets;
use crate::flows::message::Header;
use crate::flows::sampling_fields::SamplingFields;
use crate::flows::time::Span;

/// A point in time as a record expresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Milliseconds since 1970.
    Absolute(i64),
    /// Milliseconds since the exporter's start, modulo 2^32.
    Uptime(u32),
    /// Milliseconds before the export.
    Before(i64),
}

/// The elements of a flow record, or of an options record, that are used. The numbers are IANA's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fields {
    /// The octets since the previous record of the flow: IP packets with their headers (1).
    pub octets: Option<u64>,
    /// The packets since the previous record (2).
    pub packets: Option<u64>,
    /// The interface where the packets came in (10).
    pub input: Option<u32>,
    /// The destination address (12, 28), or its prefix (45, 169).
    pub destination: Option<IpAddr>,
    /// Whether the packets were counted as they left the router (61).
    pub leaving: bool,
    /// The elements that describe sampling.
    pub sampling: SamplingFields,
    /// The sampler of the packets (48, 302).
    pub selector: Option<u64>,
    /// The time when the exporter started (160).
    pub initialised: Option<i64>,
    start: Option<Moment>,
    end: Option<Moment>,
    duration: Option<i64>,
}

/// The latest time that is accepted, about a hundred thousand years after 1970.
const LATEST: i64 = 1 << 52;

impl Fields {
    /// Takes an element by its number. A value of the wrong type counts as missing.
    pub(crate) fn take(&mut self, number: u16, octets: Octets) {
        let value = octets.number();
        let small = value.and_then(|v| u32::try_from(v).ok());
        let time = |scale: i64| {
            let value = value.and_then(|v| i64::try_from(v).ok())?;
            value.checked_mul(scale).filter(|v| *v <= LATEST)
        };
        let absolute = |scale| time(scale).map(Moment::Absolute);
        match number {
            1 => self.octets = value,
            2 => self.packets = value,
            10 => self.input = small,
            12 | 28 => self.destination = octets.address(),
            // An address is more specific than its prefix.
            45 => self.destination = self.destination.or(octets.prefix(4)),
            169 => self.destination = self.destination.or(octets.prefix(6)),
            48 | 302 => self.selector = value,
            61 => self.leaving = value == Some(1),
            21 => self.end = self.end.or(small.map(Moment::Uptime)),
            22 => self.start = self.start.or(small.map(Moment::Uptime)),
            150 => self.start = absolute(1000),
            151 => self.end = absolute(1000),
            152 => self.start = absolute(1),
            153 => self.end = absolute(1),
            154 | 156 => self.start = octets.ntp().map(Moment::Absolute),
            155 | 157 => self.end = octets.ntp().map(Moment::Absolute),
            158 => self.start = time(1).map(|micros| Moment::Before(micros / 1000)),
            159 => self.end = time(1).map(|micros| Moment::Before(micros / 1000)),
            160 => self.initialised = time(1),
            161 => self.duration = time(1),
            162 => self.duration = time(1).map(|micros| micros / 1000),
            _ => self.sampling.take(number, octets),
        }
    }

    /// Returns the time span of the flow, for a record in a message with this header.
    ///
    /// `initialised` is the start time of the exporter, if other records have it. A record without
    /// times is at the time of its export. `None` if the times are impossible.
    pub(crate) fn span(&self, header: &Header, initialised: Option<i64>) -> Option<Span> {
        let exported = header.exported;
        let initialised = self.initialised.or(initialised);
        let uptime = header.uptime.or(initialised.map(|at| exported.wrapping_sub(at) as u32));
        let absolute = |moment: Option<Moment>| match moment {
            None => Ok(None),
            Some(Moment::Absolute(at)) => Ok(Some(at)),
            Some(Moment::Before(millis)) => Ok(Some(exported.saturating_sub(millis))),
            // The uptime wraps around every 49 days, maybe between the two.
            Some(Moment::Uptime(at)) => match uptime {
                Some(now) => Ok(Some(exported - i64::from(now.wrapping_sub(at) as i32))),
                None => Err(()),
            },
        };
        let (start, end) = (absolute(self.start).ok()?, absolute(self.end).ok()?);
        let (start, end) = match (start, end, self.duration) {
            (Some(start), Some(end), _) => (start, end),
            (Some(start), None, Some(duration)) => (start, start.saturating_add(duration)),
            (Some(start), None, None) => (start, exported.max(start)),
            (None, end, duration) => {
                let end = end.unwrap_or(exported);
                (end.saturating_sub(duration.unwrap_or(0)), end)
            }
        };
        (start <= end).then_some(Span { start, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::message::Version;

    fn fields(elements: &[(u16, &[u8])]) -> Fields {
        let mut fields = Fields::default();
        for (number, octets) in elements {
            fields.take(*number, Octets::from_slice(octets).unwrap());
        }
        fields
    }

    fn span(elements: &[(u16, &[u8])], uptime: Option<u32>) -> Option<(i64, i64)> {
        let version = if uptime.is_some() { Version::Netflow9 } else { Version::Ipfix };
        let header = Header { version, exported: 1_000_000, uptime, sequence: 0, domain: 0 };
        fields(elements).span(&header, None).map(|s| (s.start, s.end))
    }

    #[test]
    fn times_of_all_kinds_match_hand_calculations() {
        let seconds: [(u16, &[u8]); 2] = [(150, &[0, 0, 3, 0]), (151, &[0, 0, 3, 1])];
        assert_eq!(span(&seconds, None), Some((768_000, 769_000)));
        let millis: [(u16, &[u8]); 2] =
            [(152, &[0, 0, 0, 0, 0, 0, 3, 0]), (153, &[0, 0, 0, 0, 0, 0, 3, 1])];
        assert_eq!(span(&millis, None), Some((768, 769)));
        // 2 000 000 and 1 000 000 microseconds before the export.
        let deltas: [(u16, &[u8]); 2] =
            [(158, &[0, 0x1e, 0x84, 0x80]), (159, &[0, 0x0f, 0x42, 0x40])];
        assert_eq!(span(&deltas, None), Some((998_000, 999_000)));
        let uptimes: [(u16, &[u8]); 2] = [(22, &[0, 0, 3, 0]), (21, &[0, 0, 3, 0xe8])];
        assert_eq!(span(&uptimes, Some(1000)), Some((999_768, 1_000_000)));
        // IPFIX has no uptime in its header, so the start time of the exporter is needed.
        assert_eq!(span(&uptimes, None), None);
        let with_start = [uptimes[0], uptimes[1], (160, &[0x0f, 0x3e, 0x58])];
        assert_eq!(span(&with_start, None), Some((999_000 + 768, 1_000_000)));
        let duration: [(u16, &[u8]); 2] = [(153, &[0, 0x0f, 0x42, 0x40]), (161, &[0, 0, 3, 0xe8])];
        assert_eq!(span(&duration, None), Some((999_000, 1_000_000)));
        assert_eq!(span(&[], None), Some((1_000_000, 1_000_000)));
    }

    #[test]
    fn uptime_wraps_around() {
        let uptimes: [(u16, &[u8]); 2] = [(22, &[0xff, 0xff, 0xff, 0]), (21, &[0, 0, 0, 0x10])];
        assert_eq!(span(&uptimes, Some(0x20)), Some((1_000_000 - 0x120, 1_000_000 - 0x10)));
    }

    #[test]
    fn impossible_times_are_ignored() {
        let backwards: [(u16, &[u8]); 2] = [(150, &[2]), (151, &[1])];
        assert_eq!(span(&backwards, None), None);
        let far: [(u16, &[u8]); 1] = [(152, &[0xff; 8])];
        assert_eq!(span(&far, None), Some((1_000_000, 1_000_000)), "it counts as left out");
    }

    #[test]
    fn an_address_overrides_its_prefix() {
        let both: [(u16, &[u8]); 2] = [(12, &[192, 0, 2, 7]), (45, &[192, 0, 2, 0])];
        assert_eq!(fields(&both).destination, Some("192.0.2.7".parse().unwrap()));
        assert_eq!(fields(&both[1..]).destination, Some("192.0.2.0".parse().unwrap()));
    }
}
