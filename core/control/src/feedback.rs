use forebay_units::{Bytes, Nanos};

use crate::shares::Others;

/// The receivebox's answer to an epoch boundary packet, after authentication. Bundler calls it
/// congestion ACK (section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The boundary packet's fingerprint.
    pub fingerprint: u32,
    /// The epoch size in packets that the receivebox uses.
    pub epoch: u32,
    /// Bytes of the bundle received so far, including the boundary packet.
    pub bytes: Bytes,
    /// Packets of the bundle received so far, modulo 2^32.
    pub packets: u32,
    /// When the boundary packet arrived, on the receivebox's clock. Only differences are
    /// meaningful.
    pub received_at: Nanos,
    /// What the receivebox's other bundles have received so far.
    pub others: Others,
    /// The number of the message, which rises by one with every feedback message. It serves logs,
    /// the replay window and the detection of several paths.
    pub sequence: u64,
}
