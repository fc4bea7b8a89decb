//! Decisions of a bundle's control loop, with their reasons.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use forebay_control as control;
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

/// Something that a bundle's control loop decided or noticed, with its reason and figures. Kinds
/// and values are those of [`forebay_control::Event`]; [`Event::moved`] adds one. A reader that
/// does not know a kind can still show [`Event::text`].
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
    /// A mode, a phase, a reason or an address.
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

impl Event {
    /// Records that messages for the receivebox of `bundle` go from the address `from`, if one was
    /// known, to the address `to` from now on.
    pub fn moved(now: Nanos, bundle: &str, from: Option<SocketAddr>, to: SocketAddr) -> Self {
        let value = |address: SocketAddr| Value::Name(address.to_string());
        let mut values = BTreeMap::from([("to".to_owned(), value(to))]);
        values.extend(from.map(|from| ("from".to_owned(), value(from))));
        let text = match from {
            Some(from) => format!("the receivebox moved from {from} to {to}"),
            None => format!("the receivebox is at {to}"),
        };
        let (kind, bundle) = ("peer_moved".to_owned(), bundle.to_owned());
        Self { time: now.0, bundle, kind, values, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_has_both_addresses() {
        let [from, to] = ["192.0.2.1:7", "[2001:db8::1]:9"].map(|text| text.parse().unwrap());
        let event = Event::moved(Nanos(7), "b", Some(from), to);
        assert_eq!(event.text, "the receivebox moved from 192.0.2.1:7 to [2001:db8::1]:9");
        assert_eq!(event.values["from"], Value::Name("192.0.2.1:7".to_owned()));
        let first = Event::moved(Nanos(7), "b", None, to);
        assert_eq!((first.kind.as_str(), first.values.len()), ("peer_moved", 1));
    }

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
