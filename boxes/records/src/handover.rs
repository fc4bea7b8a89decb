//! What a box hands to the process that takes its place.
//!
//! It is JSON with a version. A field that a reader does not know is skipped, and one that the
//! writer did not know has its default. The version changes if a field changes its meaning; then
//! the reader starts fresh.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format of [`Handover`].
pub const HANDOVER_VERSION: u32 = 1;

/// The kind of the local socket at which a box is asked to hand its state over at its end; it is
/// named after the number of the box's process. Who connects gets an [`Offer`] at once, as a line,
/// and the [`Handover`] with the box's UDP socket at the end of the box.
pub const UPGRADE_SOCKET: &str = "upgrade";

/// The kind of the local socket at which a box that starts finds the [`Handover`] of the one before
/// it; it is named after the box's first interface. The box answers with [`Taken`].
pub const HANDOVER_SOCKET: &str = "handover";

/// The largest handover in bytes: tens of thousands of bundles.
pub const MAX_HANDOVER: usize = 32 << 20;

/// The box that will hand its state over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The release of the box.
    pub release: String,
    /// The kind of box: `sendbox`, `receivebox` or `site`.
    pub role: String,
    /// The interfaces at which it works, the outer one first.
    pub interfaces: Vec<String>,
}

/// The state of a box at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The version of the format: [`HANDOVER_VERSION`].
    pub version: u32,
    /// The box that hands over.
    #[serde(flatten)]
    pub offer: Offer,
    /// The bundles that it sends.
    pub sends: Vec<SendHandover>,
    /// The bundles that it receives.
    pub receives: Vec<ReceiveHandover>,
}

/// A bundle at its sendbox. The numbers of the channel are those of the feedback protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendHandover {
    /// The name of the bundle.
    pub name: String,
    /// The number of the bundle, which its queues have too.
    pub number: usize,
    /// The id of its messages.
    pub id: u16,
    /// The rate of delay control in bit/s; `None` in another mode.
    pub rate_bps: Option<u64>,
    /// The minimum round-trip time in nanoseconds.
    pub min_rtt_ns: Option<u64>,
    /// The epoch size in packets.
    pub epoch: u32,
    /// Packets that left, as the receivebox was told.
    pub packets: u64,
    /// The session of the sendbox; 0 if there is none.
    pub session: u64,
    /// The sequence number of the latest update.
    pub sent: u64,
    /// The latest update that the receivebox has acknowledged.
    pub acked: u64,
    /// The session of the receivebox; 0 if it is not known.
    pub receivebox: u64,
    /// The highest sequence number of feedback.
    pub highest: u64,
    /// The bits of the replay window.
    pub seen: Vec<u64>,
    /// The address of the receivebox as the file gave it.
    pub configured: String,
    /// The address to which its messages went.
    pub address: Option<SocketAddr>,
}

/// A bundle at its receivebox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiveHandover {
    /// The name of the bundle.
    pub name: String,
    /// The id of its messages.
    pub id: u16,
    /// The session that it offers to the next sendbox; 0 if there is none.
    pub offered: u64,
    /// The session of the sendbox; 0 before one was bound.
    pub sendbox: u64,
    /// Its own session with that sendbox.
    pub receivebox: u64,
    /// The sequence number of the latest update that was applied.
    pub applied: u64,
    /// The epoch size in packets by that update.
    pub epoch: u32,
    /// The packets that the sendbox had sent by that update.
    pub packets: u64,
    /// The sequence number of the latest feedback.
    pub sent: u64,
    /// The address of the sendbox as the file gave it.
    pub configured: String,
    /// The address to which its messages went.
    pub address: Option<SocketAddr>,
}

/// What a new process took over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Taken {
    /// The number of the new process.
    pub process: u32,
    /// The release of the new process.
    pub release: String,
    /// What goes on: `branch: 23.1 Mbit/s`, and so on.
    pub kept: Vec<String>,
    /// What starts fresh, and why.
    pub fresh: Vec<String>,
}

/// The reason why a handover cannot be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverError {
    /// It is of another version.
    Version(u32),
    /// It is no handover, or not all of one.
    Malformed,
}

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "the state of the process before has version {version}, and this release reads \
                 {HANDOVER_VERSION}"
            ),
            Self::Malformed => f.write_str("the state of the process before cannot be read"),
        }
    }
}

impl std::error::Error for HandoverError {}

/// A [`Handover`] whose bundles are not yet read.
#[derive(Deserialize)]
struct Envelope {
    #[serde(flatten)]
    offer: Offer,
    #[serde(default)]
    sends: Vec<Value>,
    #[serde(default)]
    receives: Vec<Value>,
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Handover {
    /// Reads a handover. Bundles that cannot be read are left out.
    ///
    /// # Errors
    /// If nothing of it can be used.
    pub fn parse(text: &[u8]) -> Result<Self, HandoverError> {
        let malformed = |_| HandoverError::Malformed;
        if text.len() > MAX_HANDOVER {
            return Err(HandoverError::Malformed);
        }
        let Versioned { version } = serde_json::from_slice(text).map_err(malformed)?;
        if version != HANDOVER_VERSION {
            return Err(HandoverError::Version(version));
        }
        let Envelope { offer, sends, receives } =
            serde_json::from_slice(text).map_err(malformed)?;
        Ok(Self { version, offer, sends: readable(sends), receives: readable(receives) })
    }
}

fn readable<T: for<'a> Deserialize<'a>>(values: Vec<Value>) -> Vec<T> {
    values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handover() -> Handover {
        let send = |name: &str| SendHandover {
            name: name.to_owned(),
            number: 3,
            rate_bps: Some(24_000_000),
            seen: vec![u64::MAX; 16],
            ..SendHandover::default()
        };
        Handover {
            version: HANDOVER_VERSION,
            offer: Offer {
                release: "1".to_owned(),
                role: "site".to_owned(),
                interfaces: vec!["wan0".to_owned()],
            },
            sends: vec![send("branch"), send("lab")],
            receives: vec![ReceiveHandover { sent: u64::MAX, ..ReceiveHandover::default() }],
        }
    }

    #[test]
    fn what_is_written_is_read_and_no_part_of_it_is_taken_for_the_whole() {
        let text = serde_json::to_vec(&handover()).unwrap();
        assert_eq!(Handover::parse(&text), Ok(handover()));
        for end in 0..text.len() {
            assert_eq!(Handover::parse(&text[..end]), Err(HandoverError::Malformed), "{end}");
        }
    }

    #[test]
    fn another_version_is_refused_whatever_its_form() {
        let read = |text: &str| Handover::parse(text.as_bytes());
        assert_eq!(read(r#"{"version":2,"sends":7}"#), Err(HandoverError::Version(2)));
        assert_eq!(read(r#"{"version":-1}"#), Err(HandoverError::Malformed));
        assert_eq!(read("[]"), Err(HandoverError::Malformed));
        let told = HandoverError::Version(2).to_string();
        assert!(told.contains("has version 2, and this release reads 1"), "{told}");
    }

    #[test]
    fn a_bundle_that_is_not_understood_leaves_the_others() {
        let mut value = serde_json::to_value(handover()).unwrap();
        value["sends"][0]["epoch"] = "many".into();
        value["sends"][1]["later"] = vec![1, 2].into();
        value["later"] = "too".into();
        value["receives"] = Value::Array(vec![serde_json::json!({ "name": "old" })]);
        let read = Handover::parse(value.to_string().as_bytes()).unwrap();
        assert_eq!(read.sends, handover().sends[1..]);
        let old = ReceiveHandover { name: "old".to_owned(), ..ReceiveHandover::default() };
        assert_eq!(read.receives, [old], "what is missing has its default");
    }
}
