//! The packets of a traffic, where a record tells only whether a packet is L4S traffic.

use forebay_records::packet_log::Record;

use super::quantity::Quantity;
use forebay_lab::scenario::{Scenario, Traffic};

/// A filter of packet records: all packets, only L4S packets, or only classic ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KindFilter {
    /// Whether L4S packets pass; `None` if all packets do.
    l4s: Option<bool>,
}

impl KindFilter {
    /// Returns the filter for the packets of `quantity`'s traffics: all packets if it names none or
    /// all of the scenario's traffics, one kind if it names exactly the traffics of that kind.
    /// Otherwise `None`: the records do not tell these packets from others.
    pub(super) fn of(quantity: &Quantity, scenario: &Scenario) -> Option<Self> {
        if quantity.traffic.is_empty() {
            return Some(Self { l4s: None });
        }
        let is = |kind: &Option<bool>| {
            let holds = |t: &Traffic| kind.is_none_or(|l4s| t.is_l4s() == l4s);
            scenario.traffic.iter().all(|t| holds(t) == quantity.is_of(&t.name))
        };
        [None, Some(true), Some(false)].into_iter().find(is).map(|l4s| Self { l4s })
    }

    /// Whether `record` passes the filter.
    pub(super) fn holds(self, record: &Record) -> bool {
        self.l4s.is_none_or(|l4s| record.l4s == l4s)
    }
}
