//! What ECN feedback a handshake negotiates, and the counter of marks in the TCP header (RFC 9768).

use forebay_queue::Ecn;
use serde::Serialize;

/// The ECN feedback of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Feedback {
    /// The capture has no handshake, and the segments do not show it.
    Unknown,
    /// ECN is not used.
    None,
    /// Classic ECN: the receiver sets ECE from a mark on until the sender sets CWR (RFC 3168).
    Classic,
    /// The receiver sets ECE exactly for marked segments, without waiting for CWR: DCTCP (RFC
    /// 8257).
    Exact,
    /// The receiver counts marks: AccECN (RFC 9768).
    Accurate,
}

impl Feedback {
    /// The words for it in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::None => "no ECN",
            Self::Classic => "classic ECN",
            Self::Exact => "exact ECE as of DCTCP",
            Self::Accurate => "AccECN",
        }
    }
}

/// Returns the feedback that the flags AE, CWR and ECE of a SYN and a SYN/ACK negotiate (RFC 9768,
/// tables 1 and 2 and section 3.1.3). `None` is a segment that was not captured.
pub fn negotiated(syn: Option<u8>, syn_ack: Option<u8>) -> Feedback {
    let Some(syn_ack) = syn_ack else { return Feedback::Unknown };
    match (syn, syn_ack) {
        (Some(0b000), _) | (_, 0b000) => Feedback::None,
        (Some(0b011), 0b001) => Feedback::Classic,
        (Some(0b011), _) => Feedback::None,
        (_, 0b001) => Feedback::Classic,
        // A server that reflects the flags of the SYN.
        (_, 0b111) => Feedback::None,
        (_, _) => Feedback::Accurate,
    }
}

/// Returns the ECN field of a SYN or SYN/ACK that the ACE field of the next segment of the
/// handshake feeds back (RFC 9768, tables 1 and 3).
pub fn fed_back(ace: u8) -> Option<Ecn> {
    match ace {
        0b010 => Some(Ecn::NotEct),
        0b011 => Some(Ecn::Ect1),
        0b100 => Some(Ecn::Ect0),
        0b110 => Some(Ecn::Ce),
        _ => None,
    }
}

/// The marks that a receiver has echoed.
///
/// The field has three bits. Where an acknowledgement covers eight segments or more, it may have
/// counted eight more marks, or a multiple of eight: then only bounds are known (RFC 9768 section
/// 3.2.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// The least number of marks that explains the field.
    pub least: u64,
    /// The largest number.
    pub most: u64,
}

/// The counter of an end, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ace {
    last: Option<u8>,
    /// The marks so far.
    pub marks: Marks,
}

impl Ace {
    /// The value of the field at the beginning of a connection (RFC 9768 section 3.2.1).
    pub const FIRST: u8 = 5;

    /// Returns a counter at the beginning of a connection. `default` is one in the middle of it.
    pub fn first() -> Self {
        Self { last: Some(Self::FIRST), ..Self::default() }
    }

    /// Takes the field of an acknowledgement that covers `segments` new ones. Returns the least
    /// number of new marks.
    pub fn on_ack(&mut self, ace: u8, segments: u64) -> u8 {
        let Some(last) = self.last.replace(ace) else { return 0 };
        let new = ace.wrapping_sub(last) & 0b111;
        self.marks.least += u64::from(new);
        self.marks.most += u64::from(new) + segments.saturating_sub(new.into()) / 8 * 8;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of RFC 9768's table 2, the reserved answer, and what the capture may lack.
    #[test]
    fn handshakes_by_the_table() {
        for (syn, syn_ack, feedback) in [
            (0b111, 0b010, Feedback::Accurate),
            (0b111, 0b011, Feedback::Accurate),
            (0b111, 0b100, Feedback::Accurate),
            (0b111, 0b110, Feedback::Accurate),
            (0b111, 0b101, Feedback::Accurate),
            (0b111, 0b001, Feedback::Classic),
            (0b111, 0b000, Feedback::None),
            (0b011, 0b001, Feedback::Classic),
            (0b011, 0b000, Feedback::None),
            (0b011, 0b011, Feedback::None),
            (0b000, 0b000, Feedback::None),
            (0b111, 0b111, Feedback::None),
        ] {
            assert_eq!(negotiated(Some(syn), Some(syn_ack)), feedback, "{syn:03b} {syn_ack:03b}");
        }
        assert_eq!(negotiated(Some(0b111), None), Feedback::Unknown);
        assert_eq!(negotiated(None, Some(0b010)), Feedback::Accurate);
        assert_eq!(negotiated(None, Some(0b001)), Feedback::Classic);
        let all = [0, 1, 2, 3, 4, 5, 6, 7].map(fed_back);
        let (ect0, ect1) = (Some(Ecn::Ect0), Some(Ecn::Ect1));
        assert_eq!(all, [None, None, Some(Ecn::NotEct), ect1, ect0, None, Some(Ecn::Ce), None]);
    }

    #[test]
    fn marks_are_counted_over_wraps() {
        let mut ace = Ace::first();
        // 5, 7, 0, 0, 4: two marks, one, none, four.
        assert_eq!([5, 7, 0, 0, 4].map(|value| ace.on_ack(value, 2)), [0, 2, 1, 0, 4]);
        assert_eq!(ace.marks, Marks { least: 7, most: 7 });
    }

    #[test]
    fn an_acknowledgement_of_many_segments_has_bounds_only() {
        let mut ace = Ace::first();
        // Nine segments with one mark or nine.
        assert_eq!(ace.on_ack(6, 9), 1);
        assert_eq!(ace.marks, Marks { least: 1, most: 9 });
        // Eight segments with two marks, since ten are too many.
        ace.on_ack(0, 8);
        assert_eq!(ace.marks, Marks { least: 3, most: 11 });
        // Twenty segments with none, eight or sixteen.
        ace.on_ack(0, 20);
        assert_eq!(ace.marks, Marks { least: 3, most: 27 });
    }

    #[test]
    fn the_first_value_in_the_middle_of_a_connection_counts_nothing() {
        let mut ace = Ace::default();
        assert_eq!((ace.on_ack(2, 1), ace.on_ack(3, 1)), (0, 1));
        assert_eq!(ace.marks, Marks { least: 1, most: 1 });
    }
}
