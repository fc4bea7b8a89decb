//! The receiver's feedback about congestion marks.

use forebay_queue::Ecn;

/// The form of ECN feedback between the two ends of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EcnMode {
    /// No ECN on this connection.
    #[default]
    Off,
    /// The echo of RFC 3168, which lasts until the sender reports a reduced window.
    Classic,
    /// The echo of RFC 8257, which reflects each mark. Data carries ECT(0), as in Linux, or the L4S
    /// identifier.
    Exact { l4s: bool },
    /// Accurate ECN (RFC 9768): every acknowledgement contains the number of marked packets so far.
    Counted,
}

impl EcnMode {
    /// Returns the codepoint of a data packet that is sent for the first time.
    pub(crate) fn codepoint(self) -> Ecn {
        match self {
            Self::Off => Ecn::NotEct,
            Self::Classic | Self::Exact { l4s: false } => Ecn::Ect0,
            // The L4S identifier (RFC 9331 section 4.1).
            Self::Counted | Self::Exact { l4s: true } => Ecn::Ect1,
        }
    }

    /// Returns the codepoint of all other packets.
    ///
    /// RFC 3168 sections 6.1.4 and 6.1.5 require them without ECN. Controls that respond to each
    /// mark set ECN on all packets (Linux).
    pub(crate) fn codepoint_of_others(self) -> Ecn {
        if self == Self::Classic { Ecn::NotEct } else { self.codepoint() }
    }
}

/// The acknowledgements that a packet requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AckRequest {
    pub(super) at_once: bool,
    /// The number of acknowledgements to send without delay.
    pub(super) quick: u32,
    /// A separate acknowledgement of the data before: its number and its ECN echo.
    pub(super) before: Option<(u64, bool)>,
}

/// The state of the ECN feedback.
#[derive(Debug, Default)]
pub(super) struct EcnEcho {
    mode: EcnMode,
    /// Whether packets with an ECN codepoint have arrived.
    seen: bool,
    pub(super) ece: bool,
    pub(super) marked: u32,
    /// The number of marks in the last acknowledgement.
    reported: u32,
    last: bool,
    next_before: u64,
}

impl EcnEcho {
    pub(super) fn new(mode: EcnMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Handles a data packet. `next` is the next byte expected, and `delayed` tells whether an
    /// acknowledgement is delayed.
    pub(super) fn on_packet(
        &mut self,
        (ect, ce, cwr): (bool, bool, bool),
        next: u64,
        delayed: bool,
    ) -> AckRequest {
        let mut request = AckRequest::default();
        match self.mode {
            EcnMode::Off => {}
            EcnMode::Classic => {
                if cwr {
                    // The sender's window may be a single segment.
                    (self.ece, request.at_once) = (false, true);
                }
                if ce && !self.ece {
                    (self.ece, request.quick) = (true, 2);
                } else if !ce && !ect && self.seen {
                    // Probably a retransmission.
                    request.quick = 2;
                }
                self.seen |= ce || ect;
            }
            EcnMode::Exact { .. } => {
                if ce != self.ece {
                    // The echo changes between two acknowledgements (RFC 8257 section 3.2).
                    request.before = delayed.then_some((self.next_before, self.ece));
                    request.at_once = true;
                }
                (self.ece, self.next_before) = (ce, next);
            }
            EcnMode::Counted => {
                self.marked = self.marked.wrapping_add(u32::from(ce));
                // At once when marks begin and for every second mark (RFC 9768 section 3.2.2.5.1).
                request.at_once =
                    ce && (!self.last || self.marked.wrapping_sub(self.reported) >= 2);
                self.last = ce;
            }
        }
        request
    }

    pub(super) fn on_reported(&mut self) {
        self.reported = self.marked;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CE: (bool, bool, bool) = (true, true, false);
    const ECT: (bool, bool, bool) = (true, false, false);

    #[test]
    fn a_classic_echo_lasts_until_the_window_is_reduced() {
        let mut echo = EcnEcho::new(EcnMode::Classic);
        assert_eq!(echo.on_packet(ECT, 1, false), AckRequest::default());
        assert_eq!(echo.on_packet(CE, 2, false).quick, 2);
        assert_eq!(echo.on_packet(ECT, 3, false), AckRequest::default());
        assert!(echo.ece);
        assert!(echo.on_packet((true, false, true), 4, false).at_once);
        assert!(!echo.ece);
        // The window is reduced, and the same packet is marked again.
        echo.on_packet((true, true, true), 5, false);
        assert!(echo.ece);
        assert_eq!(echo.on_packet((false, false, false), 6, false).quick, 2);
    }

    #[test]
    fn an_exact_echo_acknowledges_earlier_data_separately() {
        let mut echo = EcnEcho::new(EcnMode::Exact { l4s: false });
        echo.on_packet(ECT, 1000, true);
        let request = echo.on_packet(CE, 2000, true);
        assert_eq!((request.before, request.at_once), (Some((1000, false)), true));
        assert_eq!(echo.on_packet(CE, 3000, false), AckRequest::default());
        let request = echo.on_packet(ECT, 4000, false);
        assert_eq!(
            (request.before, request.at_once),
            (None, true),
            "no acknowledgement is delayed"
        );
    }

    #[test]
    fn a_counting_echo_reports_every_mark() {
        let mut echo = EcnEcho::new(EcnMode::Counted);
        assert!(echo.on_packet(CE, 1, false).at_once);
        echo.on_reported();
        assert!(!echo.on_packet(CE, 2, false).at_once);
        assert!(echo.on_packet(CE, 3, false).at_once, "two marks since the last acknowledgement");
        assert_eq!(echo.marked, 3);
    }
}
