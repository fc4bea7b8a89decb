use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Value;

/// The version of the format of [`Status`].
pub const STATUS_VERSION: u32 = 2;

/// The kind of the local socket at which a box tells its [`Status`] by a connection; it is named
/// after the number of the box's process.
pub const STATUS_SOCKET: &str = "status";

/// The state of a running box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the format: [`STATUS_VERSION`].
    pub version: u32,
    /// The kind of box: `sendbox`, `receivebox` or `site`.
    pub role: String,
    /// The number of its process.
    pub process: u32,
    /// The start of the process in nanoseconds of the monotonic clock, which tells it from a later
    /// one of the same number.
    pub run: u64,
    /// The time since its start, in seconds.
    pub up_s: f64,
    /// The interfaces at which it works, the outer one first.
    pub interfaces: Vec<String>,
    /// Frames that left, or arrived, and may carry an IP packet that the box did not find, since
    /// the start. No bundle has them.
    #[serde(default)]
    pub not_understood: NotUnderstood,
    /// Packets that were dropped between the threads of a sendbox since the one that queues them
    /// had too much to do; `None` where there is one thread.
    #[serde(default)]
    pub hand_over_drops: Option<u64>,
    /// Connections to the box's local sockets that other users' processes made, since the start.
    /// They were refused.
    #[serde(default)]
    pub strangers: u64,
    /// The bundles that it sends.
    pub sends: Vec<SendStatus>,
    /// The bundles that it receives.
    pub receives: Vec<ReceiveStatus>,
}

/// Counts of frames that may carry an IP packet which was not found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotUnderstood {
    /// Frames that left by the outer interface.
    pub left: u64,
    /// Frames that arrived there.
    pub arrived: u64,
}

/// The state of a bundle at its sendbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendStatus {
    /// The name of the bundle.
    pub name: String,
    /// The fingerprint of its key, which is that of the receivebox's key.
    #[serde(default)]
    pub key_fingerprint: Option<String>,
    /// The address to which messages for its receivebox go; `None` if it is not known yet.
    pub receivebox: Option<SocketAddr>,
    /// The number of times that the receivebox was followed to another address.
    #[serde(default)]
    pub moves: u64,
    /// The present mode: `open`, `delay control`, `pass-through` or `rate control`.
    pub mode: String,
    /// The time since the mode began, in seconds.
    pub mode_s: f64,
    /// The reason for the mode, with its figures; `None` before the first change.
    pub reason: Option<String>,
    /// The kind of the reason: `measured`, `no_feedback`, `contested`, ...
    pub reason_kind: Option<String>,
    /// The phase of the controller, which is the reason for the present rate; `None` in open mode.
    pub phase: Option<String>,
    /// What is wrong with the exchange with the receivebox; `None` if all is well.
    pub trouble: Option<String>,
    /// The rate limit in bit/s; `None` without a limit.
    pub rate_bps: Option<u64>,
    /// The rate at which the bundle leaves, in bit/s.
    pub send_bps: Option<u64>,
    /// The rate at which it arrives, in bit/s.
    pub receive_bps: Option<u64>,
    /// The share of its packets that is lost, 0 to 1.
    pub loss: Option<f64>,
    /// The latest round-trip time in milliseconds.
    pub rtt_ms: Option<f64>,
    /// The minimum round-trip time in milliseconds.
    pub min_rtt_ms: Option<f64>,
    /// The time since a sample was as good as the minimum, in seconds.
    #[serde(default)]
    pub min_rtt_age_s: Option<f64>,
    /// The smallest and the largest round-trip time of the last whole second, in milliseconds;
    /// `None` without a sample in it.
    pub rtt_range_ms: Option<(f64, f64)>,
    /// The bytes that wait in the box.
    pub backlog_bytes: u64,
    /// The time that a packet waits in the box at the present rate, in milliseconds; `None` without
    /// a limit.
    pub wait_here_ms: Option<f64>,
    /// The time that a packet waits in the network: the round trip above its minimum, in
    /// milliseconds.
    pub wait_network_ms: Option<f64>,
    /// Packets that left, since the start.
    pub packets: u64,
    /// The bytes of these IP packets.
    pub bytes: u64,
    /// Packets that the box's queue dropped, since the start; `None` if that is not known.
    pub dropped: Option<u64>,
    /// Packets that the box's queue marked, since the start; `None` if the queue does not tell.
    pub marked: Option<u64>,
    /// Who waits in the box; `None` if that is not known, as over the kernel's queues.
    #[serde(default)]
    pub waits: Option<WaitsHere>,
    /// Messages of the receivebox that were refused, since the start.
    pub refused: u64,
    /// Feedback messages that gave a measurement, since the start.
    pub measurements: u64,
    /// Feedback messages for packets that the box does not know, since the start.
    pub unmatched: u64,
    /// The number of decisions since the start, which is the number of the latest one.
    pub decided: u64,
    /// The last ten decisions, and those of the last ten seconds, up to 64 in all; the latest
    /// first.
    pub decisions: Vec<Decision>,
}

/// The waits in the box of packets that left, by who waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitsHere {
    /// The first ten full frames (15 140 bytes) of what a flow sends without a pause: requests and
    /// their like. A pause is longer than 200 ms and the round-trip time.
    pub small: Wait,
    /// The packets after these.
    pub large: Wait,
    /// The classes of the policy; empty without classes. Beyond four, the last has the others.
    pub classes: Vec<ClassWait>,
}

/// The waits of some packets of a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The packets that left, since the start or the last change of the policy.
    pub packets: u64,
    /// The sum of their waits in milliseconds.
    pub waited_ms: f64,
    /// The mean wait of the last whole second in milliseconds; `None` if none left.
    pub mean_ms: Option<f64>,
    /// The longest wait of the last whole second in milliseconds.
    pub longest_ms: Option<f64>,
}

/// The waits of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassWait {
    /// The name of the class.
    pub name: String,
    /// The waits of its packets.
    #[serde(flatten)]
    pub wait: Wait,
}

/// A decision of a bundle's control loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The number of the decision, from 1. A reader that finds no number follow the last one it
    /// knows has missed the ones between.
    pub number: u64,
    /// The time since the decision, in seconds.
    pub ago_s: f64,
    /// The kind: `mode_changed`, `min_rtt_changed`, ..., as in [`Event`](crate::Event).
    pub kind: String,
    /// The values, as in [`Event`](crate::Event).
    pub values: BTreeMap<String, Value>,
    /// The decision and its reason, with figures.
    pub text: String,
}

/// The state of a bundle at its receivebox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiveStatus {
    /// The name of the bundle.
    pub name: String,
    /// The fingerprint of its key, which is that of the sendbox's key.
    #[serde(default)]
    pub key_fingerprint: Option<String>,
    /// The address to which messages for its sendbox go; `None` if it is not known yet.
    pub sendbox: Option<SocketAddr>,
    /// The number of times that the sendbox was followed to another address.
    #[serde(default)]
    pub moves: u64,
    /// What is wrong with the exchange with the sendbox; `None` if all is well.
    pub trouble: Option<String>,
    /// The time since the last message of the sendbox, in seconds; `None` before the first.
    pub heard_s: Option<f64>,
    /// Packets that arrived, since the start.
    pub packets: u64,
    /// The bytes of these IP packets.
    pub bytes: u64,
    /// Messages of the sendbox that were refused, since the start.
    pub refused: u64,
    /// Boundary packets that got no feedback, since that keeps to a share of the bytes.
    pub unanswered: u64,
}

/// The kind of the local socket at which a box is asked to read its file again, by a connection; it
/// is named after the number of the box's process. The answer is [`Reloaded`].
pub const RELOAD_SOCKET: &str = "reload";

/// What became of a file that a running box read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// The version of the format: [`STATUS_VERSION`].
    pub version: u32,
    /// The number of its process.
    pub process: u32,
    /// What changed: `branch: policy fifo to fq_codel`, for each bundle that differs.
    pub changes: Vec<String>,
    /// Why the file was not applied, so that nothing changed.
    pub refused: Option<String>,
}

impl Reloaded {
    /// Makes the answer of `process` that nothing differs.
    pub fn of(process: u32) -> Self {
        Self { version: STATUS_VERSION, process, ..Self::default() }
    }
}
