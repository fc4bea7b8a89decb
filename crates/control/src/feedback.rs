use forebay_units::{Bytes, Nanos};

/// What the receivebox says when it saw an epoch boundary packet (Bundler section 4.5: the
/// congestion ACK), after authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The boundary packet's fingerprint.
    pub fingerprint: u32,
    /// The epoch size in packets that the receivebox uses.
    pub epoch: u32,
    /// All bytes of the bundle that the receivebox has counted, the boundary packet included.
    pub bytes: Bytes,
    /// All packets of the bundle that it has counted, modulo 2^32.
    pub packets: u32,
    /// When it saw the boundary packet, on its own clock: only differences mean anything.
    pub received_at: Nanos,
    /// The message's number; it rises by one with every feedback message. For the caller's logs and
    /// replay window: a late message shows by its mark.
    pub sequence: u64,
}
