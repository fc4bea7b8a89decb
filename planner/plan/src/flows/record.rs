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
    input: Option<u32>,
    /// The physical interface where the packets came in (252).
    physical: Option<u32>,
    /// The destination addresses (12, 28), then the prefixes (45, 169).
    destinations: [Option<IpAddr>; 4],
    /// The source addresses (8, 27), then the prefixes (44, 170).
    sources: [Option<IpAddr>; 4],
    /// The direction (61): 1 for packets that were counted as they left the router.
    direction: Option<u64>,
    /// The elements that describe sampling.
    pub sampling: SamplingFields,
    /// The sampler of the packets (48, 302).
    pub selector: Option<u64>,
    /// The time when the exporter started (160).
    pub initialised: Option<i64>,
    start: Option<Moment>,
    end: Option<Moment>,
    /// The start and the end in milliseconds since the exporter's start (22, 21), modulo 2^32.
    uptimes: [Option<u32>; 2],
    duration: Option<i64>,
}

/// Sets a value that is not there yet.
fn first<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

/// The latest time that is accepted, about a hundred thousand years after 1970.
const LATEST: i64 = 1 << 52;

impl Fields {
    /// Takes an element by its number. Of an element that comes again, the first value counts. A
    /// value of the wrong type counts as missing.
    pub(crate) fn take(&mut self, number: u16, octets: Octets) {
        let value = octets.number();
        let small = value.and_then(|v| u32::try_from(v).ok());
        let time = |scale: i64| {
            let value = value.and_then(|v| i64::try_from(v).ok())?;
            value.checked_mul(scale).filter(|v| *v <= LATEST)
        };
        let absolute = |scale| time(scale).map(Moment::Absolute);
        let ntp = || octets.ntp().map(Moment::Absolute);
        let before = || time(1).map(|micros| Moment::Before(micros / 1000));
        match number {
            1 => first(&mut self.octets, value),
            2 => first(&mut self.packets, value),
            10 => first(&mut self.input, small),
            252 => first(&mut self.physical, small),
            12 => first(&mut self.destinations[0], octets.address().filter(IpAddr::is_ipv4)),
            28 => first(&mut self.destinations[1], octets.address().filter(IpAddr::is_ipv6)),
            45 => first(&mut self.destinations[2], octets.prefix(4)),
            169 => first(&mut self.destinations[3], octets.prefix(6)),
            8 => first(&mut self.sources[0], octets.address().filter(IpAddr::is_ipv4)),
            27 => first(&mut self.sources[1], octets.address().filter(IpAddr::is_ipv6)),
            44 => first(&mut self.sources[2], octets.prefix(4)),
            170 => first(&mut self.sources[3], octets.prefix(6)),
            48 | 302 => first(&mut self.selector, value),
            61 => first(&mut self.direction, value),
            22 => first(&mut self.uptimes[0], small),
            21 => first(&mut self.uptimes[1], small),
            150 => first(&mut self.start, absolute(1000)),
            151 => first(&mut self.end, absolute(1000)),
            152 => first(&mut self.start, absolute(1)),
            153 => first(&mut self.end, absolute(1)),
            154 | 156 => first(&mut self.start, ntp()),
            155 | 157 => first(&mut self.end, ntp()),
            158 => first(&mut self.start, before()),
            159 => first(&mut self.end, before()),
            160 => first(&mut self.initialised, time(1)),
            161 => first(&mut self.duration, time(1)),
            162 => first(&mut self.duration, time(1).map(|micros| micros / 1000)),
            _ => self.sampling.take(number, octets),
        }
    }

    /// Returns the interface where the packets came in: the logical one, else the physical one.
    pub fn interface(&self) -> Option<u32> {
        self.input.or(self.physical)
    }

    /// Returns the destination: an address, else its prefix.
    ///
    /// Templates for both families have zeros in the family that the flow is not of.
    pub fn destination(&self) -> Option<IpAddr> {
        specified(&self.destinations)
    }

    /// Returns the source: an address, else its prefix.
    pub fn source(&self) -> Option<IpAddr> {
        specified(&self.sources)
    }

    /// Whether the packets were counted as they left the router.
    pub fn is_leaving(&self) -> bool {
        self.direction == Some(1)
    }

    /// Returns the time span of the flow, for a record in a message with this header.
    ///
    /// `initialised` is the start time of the exporter, if other records have it. A record without
    /// times is at the time of its export. `None` if the times are impossible.
    pub(crate) fn span(&self, header: &Header, initialised: Option<i64>) -> Option<Span> {
        let exported = header.exported;
        let initialised = self.initialised.or(initialised);
        let uptime = header.uptime.or(initialised.map(|at| exported.wrapping_sub(at) as u32));
        // Without the exporter's start, the flow is taken to have ended at its export.
        let uptime = uptime.or(self.uptimes[1]).or(self.uptimes[0]);
        let time = |moment: Option<Moment>, at: Option<u32>| match moment {
            Some(Moment::Absolute(at)) => Some(at),
            Some(Moment::Before(millis)) => Some(exported.saturating_sub(millis)),
            // The uptime wraps around every 49 days, maybe between the two.
            None => Some(exported - i64::from(uptime?.wrapping_sub(at?) as i32)),
        };
        let [start, end] =
            [(self.start, self.uptimes[0]), (self.end, self.uptimes[1])].map(|(m, at)| time(m, at));
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

/// Returns the first address that is not zero, else the first one.
fn specified(addresses: &[Option<IpAddr>; 4]) -> Option<IpAddr> {
    let mut given = addresses.iter().flatten();
    let specified = given.clone().find(|address| !address.is_unspecified());
    specified.or_else(|| given.next()).copied()
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
        // IPFIX has no uptime in its header. Without the start time of the exporter, the flow of
        // 1000 - 768 ms ends at its export.
        assert_eq!(span(&uptimes, None), Some((999_768, 1_000_000)));
        assert_eq!(span(&uptimes[..1], None), Some((1_000_000, 1_000_000)));
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
        assert_eq!(fields(&both).destination(), Some("192.0.2.7".parse().unwrap()));
        assert_eq!(fields(&both[1..]).destination(), Some("192.0.2.0".parse().unwrap()));
    }

    #[test]
    fn the_family_that_is_not_zero_decides() {
        let (four, six): (&[u8], &[u8]) =
            (&[203, 0, 113, 5], &[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        let of = |elements: &[(u16, &[u8])]| fields(elements).destination().map(|a| a.to_string());
        for elements in [[(12, four), (28, &[0; 16])], [(28, &[0; 16]), (12, four)]] {
            assert_eq!(of(&elements).unwrap(), "203.0.113.5");
        }
        for elements in [[(12, &[0; 4][..]), (28, six)], [(28, six), (12, &[0; 4])]] {
            assert_eq!(of(&elements).unwrap(), "2001:db8::9");
        }
        assert_eq!(of(&[(12, &[0; 4]), (45, &[192, 0, 2, 0])]).unwrap(), "192.0.2.0");
        assert_eq!(of(&[(28, &[0; 16]), (12, &[0; 4])]).unwrap(), "0.0.0.0");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn sources_are_read_as_destinations_are() {
        let of = |elements: &[(u16, &[u8])]| fields(elements).source().map(|a| a.to_string());
        let six: &[u8] = &[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
        assert_eq!(of(&[(27, six), (8, &[0; 4])]).unwrap(), "2001:db8::9");
        assert_eq!(of(&[(27, &[0; 16]), (8, &[192, 0, 2, 7])]).unwrap(), "192.0.2.7");
        assert_eq!(of(&[(44, &[192, 0, 2, 0])]).unwrap(), "192.0.2.0");
        assert_eq!(of(&[(170, six)]).unwrap(), "2001:db8::9");
        assert_eq!(of(&[(12, &[192, 0, 2, 7])]), None);
    }

    #[test]
    fn the_first_of_repeated_elements_counts() {
        let twice = fields(&[(1, &[5]), (1, &[7]), (12, &[10, 0, 0, 1]), (12, &[10, 0, 0, 2])]);
        assert_eq!(
            (twice.octets, twice.destination().unwrap().to_string()),
            (Some(5), "10.0.0.1".to_owned())
        );
    }

    #[test]
    fn the_physical_interface_counts_where_there_is_no_other() {
        assert_eq!(fields(&[(252, &[7])]).interface(), Some(7));
        assert_eq!(fields(&[(252, &[7]), (10, &[3])]).interface(), Some(3));
        assert_eq!(fields(&[(10, &[3]), (252, &[7])]).interface(), Some(3));
    }
}
