//! The account of a hop's packets.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The account of a hop's packets: each that came in went out, was dropped by policy, or is still
/// inside. If all is well, `received = sent + policy_drops + local + queued`, and `lost = 0`.
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
    /// Frames lost in any other way, as by a full ring or a failed send: must be zero.
    pub lost: u64,
    /// Packets that a queueing policy marked (RFC 3168) instead of dropping them; `None` where that
    /// is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<u64>,
    /// The time by which packets left later than a shaper allowed; `None` where nothing is shaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Late>,
}

/// The lateness that a hop's timers add to the waits in its queues, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// The average lateness.
    pub mean_ns: u64,
    /// The 99th percentile of the lateness, at most an eighth too high.
    pub p99_ns: u64,
    /// The largest lateness.
    pub max_ns: u64,
}

impl HopCounters {
    /// Writes the account to `path`, as one line of JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        self.write_to(File::create(path)?)
    }

    /// Writes the account to a file that is open, as one line of JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_to(&self, mut file: File) -> io::Result<()> {
        file.write_all((serde_json::to_string(self)? + "\n").as_bytes())
    }
}
