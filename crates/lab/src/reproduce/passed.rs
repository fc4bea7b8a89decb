//! What of a run's packets passed the bottleneck, and how.

use forebay_dataplane::packet_log::Fate;
use forebay_units::{Bytes, Nanos, Rate};

use super::extract::{Window, statistic};
use super::quantity::{Measure, Quantity, Statistic};
use crate::analysis::Sorted;
use crate::results::Run;
use crate::scenario::{Scenario, TrafficKind};

/// A full frame, what windows are counted in.
const FRAME: Bytes = Bytes(1_514);

/// The packets of some traffics at the bottleneck, in a part of a run.
pub(super) struct Passed {
    /// The waits of those that were sent, in milliseconds.
    waits: Sorted,
    bytes: u64,
    marked: u64,
    dropped: u64,
    /// What the bottleneck could have carried.
    capacity: Rate,
    during: Nanos,
}

impl Passed {
    /// Of `run`: the packets of `quantity`'s traffics that left, or were dropped, in `window`. `None`
    /// where the engine did not tell whose they were and that is asked.
    pub(super) fn of(
        quantity: &Quantity,
        scenario: &Scenario,
        run: &Run,
        window: Window,
    ) -> Option<Self> {
        let asks = !quantity.traffic.is_empty() || quantity.measure == Measure::Marked;
        if asks && run.whose.len() != run.bottleneck.len() {
            return None;
        }
        let own: Vec<bool> = scenario.traffic.iter().map(|t| quantity.is_of(&t.name)).collect();
        let is_own = |n: usize| {
            let traffic = run.whose.get(n).and_then(|w| w.traffic);
            quantity.traffic.is_empty()
                || traffic.is_some_and(|t| own.get(usize::from(t)) == Some(&true))
        };
        let (mut waits, mut bytes, mut marked, mut dropped) = (Vec::new(), 0, 0, 0);
        let records = run.bottleneck.iter().enumerate();
        for (n, record) in records.filter(|(n, r)| window.holds(r.time.0) && is_own(*n)) {
            match record.fate {
                Fate::Dropped => dropped += 1,
                Fate::Sent => {
                    waits.push(record.sojourn.as_millis_f64());
                    bytes += record.len.0;
                    marked += u64::from(run.whose.get(n).is_some_and(|w| w.marked));
                }
            }
        }
        let waits = waits.into_iter().collect();
        Some(Self { waits, bytes, marked, dropped, capacity: run.rate, during: window.length() })
    }

    /// The figure that `quantity` asks for; `None` if there were no packets.
    pub(super) fn measure(&self, quantity: &Quantity, scenario: &Scenario) -> Option<f64> {
        let sent = self.waits.len() as u64;
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64 * 100.0);
        match quantity.measure {
            Measure::BottleneckQueue => statistic(&self.waits, quantity.at),
            Measure::Marked => share(self.marked, sent),
            Measure::Dropped => share(self.dropped, sent + self.dropped),
            Measure::Share => share(self.bytes, self.capacity.bytes_in(self.during).0),
            Measure::Window => self.window(quantity, scenario),
            _ => None,
        }
    }

    /// The window of one flow of the first traffic that is meant.
    fn window(&self, quantity: &Quantity, scenario: &Scenario) -> Option<f64> {
        let traffic = scenario.traffic.iter().find(|t| quantity.is_of(&t.name))?;
        let TrafficKind::Bulk { flows, .. } = traffic.kind else { return None };
        let wait = statistic(&self.waits, Statistic::Mean)? / 1e3;
        let round_trip = traffic.rtt.unwrap_or(scenario.path.rtt).as_secs_f64() + wait;
        let frames = self.bytes as f64 / FRAME.as_f64() / f64::from(flows.max(1));
        let seconds = self.during.as_secs_f64();
        (seconds > 0.0).then(|| frames / seconds * round_trip)
    }
}
