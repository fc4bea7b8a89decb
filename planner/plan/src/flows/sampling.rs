//! The samplers of a domain: how many octets each sampled octet stands for.
//!
//! Exporters report it in options records, by sampler (PSAMP, RFC 5476, section 6.5.2), by
//! interface, or for all flows; some report it in each flow record. NetFlow's own elements are 34
//! and 50, both sampling intervals (RFC 3954, section 8).

use std::collections::BTreeMap;

use crate::flows::record::Fields;

/// The most samplers of a domain.
pub const MAX_SAMPLERS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Selector(u64),
    Interface(u32),
    All,
}

/// The sampling factors of a domain, and the start time of its exporter.
#[derive(Clone, Debug, Default)]
pub struct Samplers {
    factors: BTreeMap<Of, f64>,
    /// The start time of the exporter, if options records have it.
    pub(crate) initialised: Option<i64>,
}

impl Samplers {
    /// Takes an options record.
    pub(crate) fn options(&mut self, options: &Fields) {
        self.initialised = options.initialised.or(self.initialised);
        let Some(factor) = options.sampling.factor() else { return };
        let of = match (options.selector, options.interface()) {
            (Some(selector), _) => Of::Selector(selector),
            (None, Some(interface)) => Of::Interface(interface),
            (None, None) => Of::All,
        };
        if self.factors.len() < MAX_SAMPLERS || self.factors.contains_key(&of) {
            self.factors.insert(of, factor);
        }
    }

    /// Returns the sampling factor of a flow.
    ///
    /// It is that of the record itself, else of the flow's sampler, its interface, or all flows. A
    /// flow without any of these gets the common factor if all samplers have the same.
    pub(crate) fn factor(&self, flow: &Fields) -> Option<f64> {
        let known = |of: Of| self.factors.get(&of).copied();
        let alike = || {
            let mut all = self.factors.values();
            let first = *all.next()?;
            all.all(|factor| *factor == first).then_some(first)
        };
        flow.sampling
            .factor()
            .or_else(|| known(Of::Selector(flow.selector?)))
            .or_else(|| known(Of::Interface(flow.interface()?)))
            .or_else(|| known(Of::All))
            .or_else(alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::element::Octets;

    fn fields(elements: &[(u16, &[u8])]) -> Fields {
        let mut fields = Fields::default();
        for (number, octets) in elements {
            fields.take(*number, Octets::from_slice(octets).unwrap());
        }
        fields
    }

    #[test]
    fn the_most_specific_sampler_counts() {
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
        assert_eq!(of(&samplers, &[(10, &[4]), (34, &[2])]), Some(2.0), "the record itself has it");
        assert_eq!(of(&samplers, &[(48, &[7]), (10, &[3])]), Some(100.0));
    }

    #[test]
    fn samplers_are_bounded() {
        let mut samplers = Samplers::default();
        for id in 0..2000_u16 {
            samplers.options(&fields(&[(302, &id.to_be_bytes()), (34, &[2])]));
        }
        assert_eq!(samplers.factors.len(), MAX_SAMPLERS);
    }
}
