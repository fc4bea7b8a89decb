//! Decisions of a bundle's control loop, with their reasons.

use std::collections::BTreeMap;

use forebay_control as control;
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

/// Something that a bundle's control loop decided or noticed, with its reason and figures. Kinds
/// and values are those of [`forebay_control::Event`]. A reader that does not know a kind can still
/// show [`Event::text`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The time in nanoseconds.
    pub time: u64,
    /// The name of the bundle.
    pub bundle: String,
    /// The kind: `mode_changed`, `rate_set`, ...
    pub kind: String,
    /// The values: `from`, `to`, `reason`, and the figures behind them. Times are in nanoseconds,
    /// rates in bits per second, lengths in bytes or packets.
    pub values: BTreeMap<String, Value>,
    /// The whole event in words, as in the log.
    pub text: String,
}

/// A value of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A time in nanoseconds, a rate in bits per second, or a count of bytes or packets.
    Number(u64),
    /// A mode, a phase or a reason.
    Name(String),
}

impl Event {
    /// Records `event` of the loop of `bundle`.
    pub fn new(now: Nanos, bundle: &str, event: &control::Event) -> Self {
        let mut values = BTreeMap::new();
        event.values(|name, value| {
            let value = match value {
                control::EventValue::Number(n) => Value::Number(n),
                control::EventValue::Name(name) => Value::Name(name.to_owned()),
            };
            values.insert(name.to_owned(), value);
        });
        Self {
            time: now.0,
            bundle: bundle.to_owned(),
            kind: event.kind().to_owned(),
            values,
            text: event.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_stored_with_its_reason() {
        let reason =
            control::ModeReason::NoFeedback { silence: Nanos::from_secs(2), unanswered: 9 };
        let (from, to) = (control::Mode::DelayControl, control::Mode::Open);
        let event = Event::new(Nanos(7), "b", &control::Event::ModeChanged { from, to, reason });
        let json = serde_json::to_string(&event).unwrap();
        let expected = "{\"time\":7,\"bundle\":\"b\",\"kind\":\"mode_changed\",\"values\":\
            {\"from\":\"delay control\",\"reason\":\"no_feedback\",\"silence\":2000000000,\
            \"to\":\"open\",\"unanswered\":9},\"text\":\"mode delay control -> open: ";
        assert!(json.starts_with(expected), "{json}");
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
    }
}
