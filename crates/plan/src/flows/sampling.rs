//! Sampling: how much each octet that was seen stands for.
//!
//! Exporters say it in records of options, by sampler (PSAMP, RFC 5476, section 6.5.2), by interface, or once for all; some in each
//! flow's record. NetFlow's own elements are 34 and 50, both "one of so many packets" (RFC 3954, section 8).

use std::collections::BTreeMap;

use crate::flows::element::Octets;
use crate::flows::record::Fields;

/// The most samplers of a domain.
pub const MOST_SAMPLERS: usize = 1024;

/// A sampled octet stands for no more than so many.
const MOST: f64 = 1e9;

/// What a record says of sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Said {
    /// One of so many packets (34, 50).
    interval: Option<u64>,
    /// So many packets (305) or microseconds (307) are taken, and so many are not (306, 308).
    taken: Option<u64>,
    passed: Option<u64>,
    /// So many packets (309) of so many (310).
    size: Option<u64>,
    population: Option<u64>,
    /// Each packet with this probability (311).
    probability: Option<f64>,
}

impl Said {
    pub(crate) fn take(&mut self, number: u16, octets: Octets) {
        match number {
            34 | 50 => self.interval = octets.number(),
            305 | 307 => self.taken = octets.number(),
            306 | 308 => self.passed = octets.number(),
            309 => self.size = octets.number(),
            310 => self.population = octets.number(),
            311 => self.probability = octets.float(),
            _ => {}
        }
    }

    /// How many octets each sampled one stands for, at least 1; `None` if nothing is said, or nothing that can be.
    pub fn factor(&self) -> Option<f64> {
        let ratio = |of: f64, part: f64| of / part;
        let factor = match *self {
            Self { probability: Some(p), .. } => ratio(1.0, p),
            Self { size: Some(n), population: Some(of), .. } => ratio(of as f64, n as f64),
            Self { taken: Some(n), passed: Some(m), .. } => ratio(n as f64 + m as f64, n as f64),
            Self { interval: Some(n), .. } => n as f64,
            _ => return None,
        };
        (1.0..=MOST).contains(&factor).then_some(factor)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Selector(u64),
    Interface(u32),
    All,
}

/// What a domain has said of its samplers, and of its start.
#[derive(Clone, Debug, Default)]
pub struct Samplers {
    factors: BTreeMap<Of, f64>,
    /// When it started, if it says so in its options.
    pub(crate) initialised: Option<i64>,
}

impl Samplers {
    /// Takes a record of options.
    pub(crate) fn options(&mut self, options: &Fields) {
        self.initialised = options.initialised.or(self.initialised);
        let Some(factor) = options.said.factor() else { return };
        let of = match (options.selector, options.input) {
            (Some(selector), _) => Of::Selector(selector),
            (None, Some(interface)) => Of::Interface(interface),
            (None, None) => Of::All,
        };
        if self.factors.len() < MOST_SAMPLERS || self.factors.contains_key(&of) {
            self.factors.insert(of, factor);
        }
    }

    /// How much each octet of a flow stands for: by what its record says itself, else by its sampler, else by its interface,
    /// else by what holds for all. If it says nothing of that, but all samplers do the same, by that.
    pub(crate) fn factor(&self, flow: &Fields) -> Option<f64> {
        let known = |of: Of| self.factors.get(&of).copied();
        let alike = || {
            let mut all = self.factors.values();
            let first = *all.next()?;
            all.all(|factor| *factor == first).then_some(first)
        };
        flow.said
            .factor()
            .or_else(|| known(Of::Selector(flow.selector?)))
            .or_else(|| known(Of::Interface(flow.input?)))
            .or_else(|| known(Of::All))
            .or_else(alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(elements: &[(u16, &[u8])]) -> Fields {
        let mut fields = Fields::default();
        for (number, octets) in elements {
            fields.take(*number, Octets::from_slice(octets).unwrap());
        }
        fields
    }

    fn factor(elements: &[(u16, &[u8])]) -> Option<f64> {
        fields(elements).said.factor()
    }

    #[test]
    fn factors_by_hand() {
        assert_eq!(factor(&[(34, &[0, 0, 3, 0xe8])]), Some(1000.0));
        assert_eq!(factor(&[(50, &[64])]), Some(64.0));
        assert_eq!(factor(&[(305, &[1]), (306, &[99])]), Some(100.0));
        assert_eq!(factor(&[(307, &[2]), (308, &[6])]), Some(4.0));
        assert_eq!(factor(&[(309, &[2]), (310, &[200])]), Some(100.0));
        assert_eq!(factor(&[(311, &[0x3f, 0x50, 0, 0, 0, 0, 0, 0])]), Some(1024.0));
    }

    #[test]
    fn what_cannot_be_is_not_said() {
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

    #[test]
    fn who_samples_a_flow() {
        let mut samplers = Samplers::default();
        samplers.options(&fields(&[(48, &[7]), (50, &[100])]));
        let of = |samplers: &Samplers, flow: &[(u16, &[u8])]| samplers.factor(&fields(flow));
        assert_eq!(of(&samplers, &[]), Some(100.0), "there is one only");
        samplers.options(&fields(&[(302, &[8]), (309, &[1]), (310, &[200])]));
        assert_eq!(of(&samplers, &[]), None, "there are two");
        assert_eq!(of(&samplers, &[(48, &[7])]), Some(100.0));
        assert_eq!(of(&samplers, &[(302, &[8])]), Some(200.0));
        samplers.options(&fields(&[(10, &[3]), (34, &[150])]));
        samplers.options(&fields(&[(34, &[10])]));
        assert_eq!(of(&samplers, &[(10, &[3])]), Some(150.0));
        assert_eq!(of(&samplers, &[(10, &[4])]), Some(10.0));
        assert_eq!(of(&samplers, &[(10, &[4]), (34, &[2])]), Some(2.0), "its own word");
        assert_eq!(of(&samplers, &[(48, &[7]), (10, &[3])]), Some(100.0));
    }

    #[test]
    fn samplers_are_bounded() {
        let mut samplers = Samplers::default();
        for id in 0..2000_u16 {
            samplers.options(&fields(&[(302, &id.to_be_bytes()), (34, &[2])]));
        }
        assert_eq!(samplers.factors.len(), MOST_SAMPLERS);
    }
}
