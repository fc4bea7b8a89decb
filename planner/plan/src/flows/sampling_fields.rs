//! The elements of a record that describe sampling, and the factor that follows from them.

use crate::flows::element::Octets;

/// The largest sampling factor that is accepted.
const MAX_FACTOR: f64 = 1e9;

/// The elements of one record that describe sampling; the numbers are IANA's of IPFIX elements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingFields {
    /// The sampling interval: one packet of this number is taken (34, 50).
    interval: Option<u64>,
    /// The consecutive packets (305) or microseconds (307) that are taken.
    taken: Option<u64>,
    /// The packets (306) or microseconds (308) between, which are not taken.
    passed: Option<u64>,
    /// The packets that are taken at random of each `population` (309).
    size: Option<u64>,
    /// The packets of which `size` are taken (310).
    population: Option<u64>,
    /// The probability with which each packet is taken (311).
    probability: Option<f64>,
}

impl SamplingFields {
    /// Takes an element by its number; elements of other subjects are ignored.
    pub(crate) fn take(&mut self, number: u16, octets: Octets) {
        let mut whole = |field: fn(&mut Self) -> &mut Option<u64>| {
            let field = field(self);
            *field = field.or(octets.number());
        };
        match number {
            34 | 50 => whole(|s| &mut s.interval),
            305 | 307 => whole(|s| &mut s.taken),
            306 | 308 => whole(|s| &mut s.passed),
            309 => whole(|s| &mut s.size),
            310 => whole(|s| &mut s.population),
            311 => self.probability = self.probability.or(octets.float()),
            _ => {}
        }
    }

    /// Returns the number of octets that each sampled octet stands for, at least 1.
    ///
    /// `None` if the record has no such element, or its values are impossible.
    pub fn factor(&self) -> Option<f64> {
        let ratio = |of: f64, part: f64| of / part;
        let factor = match *self {
            Self { probability: Some(p), .. } => ratio(1.0, p),
            Self { size: Some(n), population: Some(of), .. } => ratio(of as f64, n as f64),
            Self { taken: Some(n), passed: Some(m), .. } => ratio(n as f64 + m as f64, n as f64),
            Self { interval: Some(n), .. } => n as f64,
            _ => return None,
        };
        (1.0..=MAX_FACTOR).contains(&factor).then_some(factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(elements: &[(u16, &[u8])]) -> Option<f64> {
        let mut fields = SamplingFields::default();
        for (number, octets) in elements {
            fields.take(*number, Octets::from_slice(octets).unwrap());
        }
        fields.factor()
    }

    #[test]
    fn factors_match_hand_calculations() {
        assert_eq!(factor(&[(34, &[0, 0, 3, 0xe8])]), Some(1000.0));
        assert_eq!(factor(&[(50, &[64])]), Some(64.0));
        assert_eq!(factor(&[(305, &[1]), (306, &[99])]), Some(100.0));
        assert_eq!(factor(&[(307, &[2]), (308, &[6])]), Some(4.0));
        assert_eq!(factor(&[(309, &[2]), (310, &[200])]), Some(100.0));
        assert_eq!(factor(&[(311, &[0x3f, 0x50, 0, 0, 0, 0, 0, 0])]), Some(1024.0));
    }

    #[test]
    fn impossible_values_give_no_factor() {
        for nonsense in [
            &[(34_u16, &[0_u8][..])][..],
            &[(305, &[0]), (306, &[9])],
            &[(309, &[0]), (310, &[0])],
            &[(309, &[9]), (310, &[1])],
            &[(311, &[0x7f, 0xf8, 0, 0, 0, 0, 0, 0])],
            &[(311, &[0; 8])],
            &[(305, &[1])],
            &[],
        ] {
            assert_eq!(factor(nonsense), None, "{nonsense:?}");
        }
    }
}
