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
    /// Congestion experienced, codepoint 11.
    Ce,
}

/// A packet as a qdisc sees it. The qdisc owns the packet while it waits.
#[allow(clippy::len_without_is_empty, reason = "no frame is empty")]
pub trait Packet: Send {
    /// Returns the length on the wire, see [`Bytes`].
    fn len(&self) -> Bytes;

    /// Returns a hash of the fields that define a flow (addresses, protocol, ports), the same for
    /// all packets of the flow. Qdiscs mix it with their own seed.
    fn flow_hash(&self) -> u32;

    /// Returns the traffic class that the classifier chose; 0 is the most urgent.
    fn class(&self) -> u8 {
        0
    }

    /// Returns the ECN field.
    fn ecn(&self) -> Ecn;

    /// Sets the ECN field to [`Ecn::Ce`]. Qdiscs call this only if [`Packet::ecn`] is
    /// [`Ecn::Ect0`] or [`Ecn::Ect1`].
    fn set_ce(&mut self);
}
