//! The headers of a simulated packet, for captures.
//!
//! The simulator numbers bytes from zero in 64 bits and has no handshake on persistent connections.
//! Here both ends of a connection have the initial sequence number zero, and numbers wrap as in RFC
//! 9293: the first byte of data has the number 1.

use forebay_queue::{DropReason, Ecn};

use crate::packet::{Body, Control};
use crate::tcp::segment::SACK_BLOCKS;
use crate::tcp::{EcnMode, Segment, WINDOW_SCALE};

/// The initial value of the ACE field (RFC 9768 section 3.2.1).
const ACE_FIRST: u32 = 5;
/// The nanoseconds of a unit of the timestamp option, a millisecond as in Linux.
const TIMESTAMP_UNIT: u64 = 1_000_000;

/// The headers of a packet as it leaves a queue, and what happened to it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The ECN field after the queue.
    pub ecn: Ecn,
    /// The class at a sendbox, 0 is the most urgent; links do not use it.
    pub class: u8,
    /// A number that differs between packets of a flow, also between a segment and its
    /// retransmission. It stays the same on the packet's whole way.
    pub id: u32,
    /// Whether the packet was dropped or lost, and why.
    pub fate: PacketFate,
    /// The content of the IP packet.
    pub content: Content,
}

/// What happened to a packet in a queue and on the wire behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFate {
    /// The packet left the queue.
    Sent,
    /// The packet left the queue, and the wire lost it.
    Lost,
    /// The queue dropped the packet.
    Dropped(DropReason),
}

/// The content of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// It is a TCP segment.
    Tcp(TcpHeader),
    /// It is a UDP datagram of a traffic.
    Udp,
    /// It is a UDP message between two boxes; the text says of which kind.
    Message(&'static str),
}

/// A TCP header with the options that Linux sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpHeader {
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number; zero without the flag ACK.
    pub ack: u32,
    /// The flags from FIN (bit 0) to AE (bit 8), as on the wire.
    pub flags: u16,
    /// The window field, in units of [`TcpHeader::WINDOW_SCALE`].
    pub window: u16,
    /// The timestamp and the echoed one, in milliseconds.
    pub timestamps: (u32, u32),
    /// The first and the next byte of the SACK blocks, the most recent block first.
    pub sack: [Option<(u32, u32)>; SACK_BLOCKS],
}

impl TcpHeader {
    /// The flag of a sender's last byte.
    pub const FIN: u16 = 1;
    /// The flag of a handshake.
    pub const SYN: u16 = 1 << 1;
    /// The flag that asks a receiver to deliver at once (PSH).
    pub const PSH: u16 = 1 << 3;
    /// The flag of a valid acknowledgement number.
    pub const ACK: u16 = 1 << 4;
    /// The ECN-echo flag (RFC 3168).
    pub const ECE: u16 = 1 << 6;
    /// The flag of a reduced congestion window (RFC 3168).
    pub const CWR: u16 = 1 << 7;
    /// The accurate-ECN flag (RFC 9768).
    pub const AE: u16 = 1 << 8;
    /// The logarithm of the unit of windows, which the option of a SYN announces.
    pub const WINDOW_SCALE: u8 = WINDOW_SCALE;

    /// Returns the header of a data segment or an acknowledgement.
    fn of_segment(segment: &Segment, mode: EcnMode) -> Self {
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        let ecn = match mode {
            EcnMode::Counted => accurate(segment.marked.wrapping_add(ACE_FIRST)),
            _ => flag(segment.ece, Self::ECE) | flag(segment.cwr, Self::CWR),
        };
        let mut sack = [None; SACK_BLOCKS];
        for (place, (start, end)) in sack.iter_mut().zip(segment.sack.blocks(segment.ack)) {
            *place = Some((number(start), number(end)));
        }
        Self {
            seq: number(segment.seq),
            ack: number(segment.ack),
            flags: Self::ACK | flag(segment.push, Self::PSH) | ecn,
            window: u16::try_from(segment.window >> WINDOW_SCALE).unwrap_or(u16::MAX),
            timestamps: (timestamp(segment.timestamp), timestamp(segment.echo)),
            sack,
        }
    }

    /// Returns the header of a segment of a handshake or a close.
    fn of_control(control: Control, at: ControlNumbers, mode: EcnMode) -> Self {
        let own = match (mode, control) {
            (EcnMode::Off, _) => 0,
            (EcnMode::Counted, Control::Syn) => Self::AE | Self::CWR | Self::ECE,
            // How the other end's SYN or SYN/ACK arrived (RFC 9768 tables 2 and 3).
            (EcnMode::Counted, Control::SynAck | Control::Ack) => accurate(match at.opening {
                Ecn::NotEct => 0b010,
                Ecn::Ect1 => 0b011,
                Ecn::Ect0 => 0b100,
                Ecn::Ce => 0b110,
            }),
            (EcnMode::Counted, Control::Fin | Control::FinAck) => {
                accurate(at.marked.wrapping_add(ACE_FIRST))
            }
            (_, Control::Ack | Control::Fin | Control::FinAck) => 0,
            (_, Control::Syn) => Self::CWR | Self::ECE,
            (_, Control::SynAck) => Self::ECE,
        };
        let (flags, seq, ack) = match control {
            Control::Syn => (Self::SYN, 0, 0),
            Control::SynAck => (Self::SYN | Self::ACK, 0, number(0)),
            Control::Ack => (Self::ACK, at.seq, at.ack),
            Control::Fin => (Self::FIN | Self::ACK, at.seq, at.ack),
            // It acknowledges the other end's FIN, which has a number too.
            Control::FinAck => (Self::FIN | Self::ACK, at.seq, at.ack.wrapping_add(1)),
        };
        let window = FIRST_WINDOW >> if flags & Self::SYN == 0 { WINDOW_SCALE } else { 0 };
        let window = u16::try_from(window).unwrap_or(u16::MAX);
        let timestamps = (timestamp(at.sent), 0);
        Self { seq, ack, flags: flags | own, window, timestamps, sack: [None; SACK_BLOCKS] }
    }
}

/// The sequence numbers of an end when it opened or closed its connection, as on the wire, and the
/// time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlNumbers {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) sent: u64,
    /// The marked packets that the end received.
    pub(crate) marked: u32,
    /// The ECN field with which the other end's SYN or SYN/ACK arrived.
    pub(crate) opening: Ecn,
}

/// The window of a segment without data of an end, 64 KiB, which its receiver begins with.
const FIRST_WINDOW: u32 = 1 << 16;

/// Returns what `body` contains, on a connection with the ECN feedback `mode`.
pub(crate) fn content(body: &Body, mode: EcnMode) -> Content {
    match *body {
        Body::Segment { ref segment, .. } => Content::Tcp(TcpHeader::of_segment(segment, mode)),
        Body::Control { control, numbers, .. } => {
            Content::Tcp(TcpHeader::of_control(control, numbers, mode))
        }
        Body::Datagram { .. }
        | Body::Request { .. }
        | Body::Report { .. }
        | Body::Marks { .. }
        | Body::Payload { .. } => Content::Udp,
        Body::Feedback { .. } => Content::Message("feedback"),
        Body::EpochUpdate { .. } => Content::Message("epoch-update"),
        Body::EpochAck { .. } => Content::Message("epoch-ack"),
    }
}

/// Returns the number on the wire of byte `n` of the data.
pub(crate) fn number(n: u64) -> u32 {
    (n as u32).wrapping_add(1)
}

fn timestamp(nanos: u64) -> u32 {
    (nanos / TIMESTAMP_UNIT) as u32
}

/// Returns the flags with the three low bits of `count` in the ACE field (RFC 9768 section 3.2).
fn accurate(count: u32) -> u16 {
    ((count & 0b111) << 6) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::segment::Sack;

    #[test]
    fn numbers_wrap_and_begin_after_the_syn() {
        let at = |seq| TcpHeader::of_segment(&Segment { seq, ..Segment::default() }, EcnMode::Off);
        assert_eq!([0, 1448, u64::from(u32::MAX)].map(|n| at(n).seq), [1, 1449, 0]);
    }

    #[test]
    fn a_segment_has_its_flags_options_and_window() {
        let mut sack = Sack::default();
        sack.push(1000, (2000, 3000));
        let segment = Segment {
            seq: 9,
            ack: 1000,
            window: 640 << 10,
            timestamp: 12_999_999,
            echo: 5_000_000,
            sack,
            push: true,
            ece: true,
            ..Segment::default()
        };
        assert_eq!(
            TcpHeader::of_segment(&segment, EcnMode::Classic),
            TcpHeader {
                seq: 10,
                ack: 1001,
                flags: TcpHeader::ACK | TcpHeader::PSH | TcpHeader::ECE,
                window: 640,
                timestamps: (12, 5),
                sack: [Some((2001, 3001)), None, None],
            }
        );
    }

    #[test]
    fn accurate_ecn_counts_from_five_in_three_bits() {
        let flags = |marked| {
            let segment = Segment { marked, ..Segment::default() };
            TcpHeader::of_segment(&segment, EcnMode::Counted).flags & !TcpHeader::ACK
        };
        assert_eq!(flags(0), TcpHeader::AE | TcpHeader::ECE);
        assert_eq!([flags(3), flags(11)], [0, 0]);
        assert_eq!(flags(2), TcpHeader::AE | TcpHeader::CWR | TcpHeader::ECE);
    }

    #[test]
    fn a_close_follows_the_data() {
        let at =
            ControlNumbers { seq: 17, ack: 9001, sent: 3_000_000, marked: 2, opening: Ecn::Ect1 };
        let header = |control| TcpHeader::of_control(control, at, EcnMode::Classic);
        let of = |control| (header(control).seq, header(control).ack, header(control).flags);
        use TcpHeader as T;
        assert_eq!(of(Control::Syn), (0, 0, T::SYN | T::ECE | T::CWR));
        assert_eq!(of(Control::SynAck), (0, 1, T::SYN | T::ACK | T::ECE));
        assert_eq!(of(Control::Ack), (17, 9001, T::ACK));
        assert_eq!(of(Control::Fin), (17, 9001, T::FIN | T::ACK));
        assert_eq!(of(Control::FinAck), (17, 9002, T::FIN | T::ACK));
        assert_eq!(header(Control::Fin).timestamps, (3, 0));
        assert_eq!(header(Control::Syn).window, u16::MAX, "a SYN's window is not scaled");
        let ace = |control| TcpHeader::of_control(control, at, EcnMode::Counted).flags >> 6;
        let all = [Control::Syn, Control::SynAck, Control::Ack, Control::Fin, Control::FinAck];
        assert_eq!(all.map(ace), [0b111, 0b011, 0b011, 7, 7]);
        let marked = ControlNumbers { opening: Ecn::Ce, ..at };
        let ack = TcpHeader::of_control(Control::Ack, marked, EcnMode::Counted);
        assert_eq!(ack.flags >> 6, 0b110);
    }
}
