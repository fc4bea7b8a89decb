//! What boxes write down about themselves, and the laboratory reads.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use forebay_control::{self as control, Snapshot};
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::netdev::Netdev;
use crate::port::{Port, PortStats};

/// A hop's account of its packets: what came in went out, was dropped by policy, or is still inside.
/// `received = sent + policy_drops + local + queued`, and `lost = 0`, or something is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopCounters {
    /// The hop's name: `sendbox`, `link`.
    pub hop: String,
    /// Frames received on all ports.
    pub received: u64,
    /// Frames sent on all ports.
    pub sent: u64,
    /// Frames that a queueing policy dropped.
    pub policy_drops: u64,
    /// Frames that ended here because they were for the hop itself.
    pub local: u64,
    /// Frames that were still inside at the end.
    pub queued: u64,
    /// Frames lost in any other way (a full ring, a failed send): must be zero.
    pub lost: u64,
    /// Packets that a queueing policy marked (RFC 3168) instead of dropping them; `None` where that
    /// is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<u64>,
    /// By how much packets left later than a shaper allowed; `None` where nothing is shaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Late>,
}

/// What a hop's timers add to the waits that its queues mean to have, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// On average.
    pub mean_ns: u64,
    /// What 99 % were late at most, at most an eighth too high.
    pub p99_ns: u64,
    /// At worst.
    pub max_ns: u64,
}

impl HopCounters {
    /// The account of a hop's ports. What the kernel counts per interface includes what the ports
    /// know of by themselves, so the larger of the two counts as lost.
    pub fn new(hop: &str, ports: &mut [Box<dyn Port>], kernel: &KernelDrops) -> Self {
        let stats: Vec<PortStats> = ports.iter_mut().map(|p| p.stats()).collect();
        let known: u64 = stats.iter().map(|s| s.receive_lost + s.send_lost).sum();
        Self {
            hop: hop.to_owned(),
            received: stats.iter().map(|s| s.received).sum(),
            sent: stats.iter().map(|s| s.sent).sum(),
            lost: known.max(kernel.count()),
            ..Self::default()
        }
    }

    /// Writes this account to `path`, as one line of JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        fs::write(path, serde_json::to_string(self)? + "\n")
    }
}

/// What the kernel has dropped on a set of interfaces, from a moment on.
#[derive(Debug)]
pub struct KernelDrops(Vec<(Netdev, (u32, u32))>);

impl KernelDrops {
    /// Starts counting.
    ///
    /// # Errors
    /// If an interface cannot be asked.
    pub fn from_now(netdevs: &[Netdev]) -> Result<Self, Error> {
        netdevs.iter().map(|n| Ok((n.clone(), n.dropped()?))).collect::<Result<_, _>>().map(Self)
    }

    /// Frames dropped since. An interface that is gone has none.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .filter_map(|(netdev, before)| Some((netdev.dropped().ok()?, before)))
            .map(|(now, before)| now.0.wrapping_sub(before.0) + now.1.wrapping_sub(before.1))
            .map(u64::from)
            .sum()
    }
}

/// A tick of a bundle's controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// In nanoseconds.
    pub time: u64,
    /// The bundle's name.
    pub bundle: String,
    /// `delay control`, `pass-through` or `open`.
    pub mode: String,
    /// The rate applied, in bits per second; `None` when open.
    pub rate: Option<u64>,
    /// The latest round-trip time, in nanoseconds.
    pub rtt: Option<u64>,
    /// The minimum round-trip time, in nanoseconds.
    pub min_rtt: Option<u64>,
    /// The send rate S over about one round-trip time, in bits per second.
    pub send_rate: Option<u64>,
    /// The receive rate R over about one round-trip time, in bits per second.
    pub receive_rate: Option<u64>,
    /// What cross traffic makes room for of the bundle's pulses, and that against what it does at
    /// other frequencies; `None` without pulses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<f64>,
    /// See [`Tick::response`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contrast: Option<f64>,
    /// The epoch size N, in packets.
    pub epoch: u32,
    /// Bytes in the bundle's queue.
    pub backlog: u64,
    /// Feedback since the start that gave a sample.
    #[serde(default)]
    pub accepted: u64,
    /// Feedback since the start for a mark older than the newest that was answered.
    #[serde(default)]
    pub out_of_order: u64,
}

impl Tick {
    /// Of `bundle`, whose loop stands like this and whose queue holds `backlog`.
    pub fn new(now: Nanos, bundle: &str, state: &Snapshot, backlog: Bytes) -> Self {
        Self {
            time: now.0,
            bundle: bundle.to_owned(),
            mode: state.mode.to_string(),
            rate: state.rate.map(Rate::as_bps),
            rtt: state.rtt.map(|t| t.0),
            min_rtt: state.min_rtt.map(|t| t.0),
            send_rate: state.send_rate.map(Rate::as_bps),
            receive_rate: state.receive_rate.map(Rate::as_bps),
            response: state.elasticity.map(|e| e.response),
            contrast: state.elasticity.map(|e| e.contrast),
            epoch: state.epoch,
            backlog: backlog.0,
            accepted: state.counters.accepted,
            out_of_order: state.counters.out_of_order,
        }
    }
}

/// Something that a bundle's controller decided or noticed, with its reason and the numbers behind
/// it. Kinds and values are those of [`forebay_control::Event`]; a reader that does not know one can
/// still show [`Event::text`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds.
    pub time: u64,
    /// The bundle's name.
    pub bundle: String,
    /// What kind: `mode_changed`, `rate_set`, ...
    pub kind: String,
    /// `from`, `to`, `reason`, and the numbers behind it. Times are in nanoseconds, rates in bits per
    /// second, lengths in bytes or packets.
    pub values: BTreeMap<String, Value>,
    /// All of it in words, as the log says it.
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
    /// Of `bundle`, whose loop says `event`.
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
    fn an_event_as_json() {
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
