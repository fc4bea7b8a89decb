use crate::results::Run;

/// Decisions and observations of the controllers of a run and the faults of the run, over the whole
/// run, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    /// All except changes of a rate, which the ticks show better; at most [`Decisions::MAX`].
    pub listed: Vec<Decision>,
    /// The number of further decisions that are not listed.
    pub left_out: u64,
    /// How often a rate changed by a tenth or more.
    pub rates: u64,
}

/// A decision, an observation or a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The time in seconds from the start of the measured interval; negative in the warm-up.
    pub at_s: f64,
    /// The importance of the decision.
    pub weight: Weight,
    /// The decision and its reason.
    pub text: String,
}

/// The importance of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A bundle changed its mode.
    Mode,
    /// A process was killed or restarted.
    Fault,
    /// A smaller change.
    Minor,
}

impl Decisions {
    /// The largest number of listed decisions, so that a page of many runs stays small.
    pub const MAX: usize = 200;

    pub(super) fn of(run: &Run) -> Self {
        let at = |time: u64| (time as f64 - run.start.0 as f64) / 1e9;
        let (rates, others): (Vec<_>, Vec<_>) =
            run.events.iter().partition(|event| event.kind == "rate_set");
        let mut listed: Vec<Decision> = others
            .into_iter()
            .map(|event| Decision {
                at_s: at(event.time),
                weight: if event.kind == "mode_changed" { Weight::Mode } else { Weight::Minor },
                text: format!("{}: {}", event.bundle, event.text),
            })
            .collect();
        for fault in &run.faults {
            let mut push = |time, what| {
                let text = format!("{} {what}", fault.process);
                listed.push(Decision { at_s: at(time), weight: Weight::Fault, text });
            };
            push(fault.killed, "killed");
            fault.ready.into_iter().for_each(|time| push(time, "ready again"));
        }
        listed.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let (counted_rates, not_kept) =
            run.tally.as_ref().map_or((0, 0), |tally| (tally.rates, tally.events_left_out));
        let left_out = listed.len().saturating_sub(Self::MAX) as u64 + not_kept;
        listed.truncate(Self::MAX);
        Self { listed, left_out, rates: rates.len() as u64 + counted_rates }
    }

    /// Whether there are no decisions.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.rates == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Event, FaultRecord};
    use forebay_units::Nanos;

    fn event(seconds: u64, kind: &str) -> Event {
        Event {
            time: seconds * 1_000_000_000,
            bundle: "b".to_owned(),
            kind: kind.to_owned(),
            values: [].into(),
            text: kind.to_owned(),
        }
    }

    fn run(events: Vec<Event>) -> Run {
        Run { start: Nanos::from_secs(10), end: Nanos::from_secs(20), events, ..Run::default() }
    }

    #[test]
    fn decisions_and_faults_are_in_order_and_changes_of_the_rate_are_counted() {
        let mut run =
            run(vec![event(8, "mode_changed"), event(11, "rate_set"), event(15, "epoch_changed")]);
        run.faults.push(FaultRecord {
            process: "receivebox".to_owned(),
            killed: 12_000_000_000,
            ready: Some(16_500_000_000),
        });
        let decisions = Decisions::of(&run);
        assert_eq!((decisions.rates, decisions.left_out), (1, 0));
        let all: Vec<_> =
            decisions.listed.iter().map(|d| (d.at_s, d.weight, d.text.as_str())).collect();
        assert_eq!(
            all,
            [
                (-2.0, Weight::Mode, "b: mode_changed"),
                (2.0, Weight::Fault, "receivebox killed"),
                (5.0, Weight::Minor, "b: epoch_changed"),
                (6.5, Weight::Fault, "receivebox ready again"),
            ]
        );
    }

    #[test]
    fn decisions_beyond_the_limit_are_counted() {
        let decisions = Decisions::of(&run((0..300).map(|s| event(s, "epoch_changed")).collect()));
        assert_eq!((decisions.listed.len(), decisions.left_out), (Decisions::MAX, 100));
        assert!(Decisions::of(&run(vec![])).is_empty());
    }
}
