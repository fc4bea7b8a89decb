//! Which packets are a traffic's where nobody says whose they are, but whether they are L4S traffic.

use forebay_dataplane::packet_log::Record;

use super::quantity::Quantity;
use forebay_lab::scenario::{Scenario, Traffic};

/// All packets, or one of the two kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kin(Option<bool>);

impl Kin {
    /// Those of `quantity`'s traffics: all if it names none or all of them, one kind if those are all
    /// traffics of that kind. `None` of any others, which nothing tells apart.
    pub(super) fn of(quantity: &Quantity, scenario: &Scenario) -> Option<Self> {
        if quantity.traffic.is_empty() {
            return Some(Self(None));
        }
        let is = |kind: &Option<bool>| {
            let holds = |t: &Traffic| kind.is_none_or(|l4s| t.is_l4s() == l4s);
            scenario.traffic.iter().all(|t| holds(t) == quantity.is_of(&t.name))
        };
        [None, Some(true), Some(false)].into_iter().find(is).map(Self)
    }

    pub(super) fn holds(self, record: &Record) -> bool {
        self.0.is_none_or(|l4s| record.l4s == l4s)
    }
}
