use forebay_units::Bytes;

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport does not understand ECN: congestion must be signalled by a drop.
    #[default]
    NotEct,
    /// ECN-capable transport, codepoint 01: L4S traffic (RFC 9331).
    Ect1,
    /// ECN-capable transport, codepoint 10: classic ECN.
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// What a qdisc needs to know of a packet; it owns the packet while it waits.
#[allow(clippy::len_without_is_empty, reason = "no frame is empty")]
pub trait Packet {
    /// The length on the wire, see [`Bytes`].
    fn len(&self) -> Bytes;

    /// A hash of the fields that make a flow (addresses, protocol, ports), the same for all its
    /// packets. Qdiscs mix it with their own seed.
    fn flow_hash(&self) -> u32;

    /// The traffic class that the classifier chose, 0 being the most urgent.
    fn class(&self) -> u8 {
        0
    }

    /// The ECN field.
    fn ecn(&self) -> Ecn;

    /// Marks congestion experienced. Called only where [`Packet::ecn`] is neither
    /// [`Ecn::NotEct`] nor [`Ecn::Ce`].
    fn set_ce(&mut self);
}
