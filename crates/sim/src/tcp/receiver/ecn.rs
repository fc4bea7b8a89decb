//! What a receiver tells of marks.

use forebay_queue::Ecn;

/// How the two ends of a connection speak of congestion marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EcnMode {
    /// Not at all.
    #[default]
    Off,
    /// RFC 3168: an echo until the sender says that it has reduced its window.
    Classic,
    /// RFC 8257: each mark as it is; on data that carries ECT(0), as Linux has it, or the L4S
    /// identifier.
    Exact { l4s: bool },
    /// RFC 9768 (accurate ECN): every acknowledgement says how many marked packets came so far.
    Counted,
}

impl EcnMode {
    /// The codepoint of a data packet that is sent for the first time.
    pub(crate) fn codepoint(self) -> Ecn {
        match self {
            Self::Off => Ecn::NotEct,
            Self::Classic | Self::Exact { l4s: false } => Ecn::Ect0,
            // The L4S identifier (RFC 9331 section 4.1).
            Self::Counted | Self::Exact { l4s: true } => Ecn::Ect1,
        }
    }

    /// The codepoint of all others: RFC 3168 section 6.1.4 and 6.1.5 want them unmarked, what
    /// answers each mark for itself wants all of them seen (Linux).
    pub(crate) fn codepoint_of_others(self) -> Ecn {
        if self == Self::Classic { Ecn::NotEct } else { self.codepoint() }
    }
}

/// What a packet asks of the next acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) at_once: bool,
    /// So many acknowledgements without delay.
    pub(super) quick: u32,
    /// What came before is to be acknowledged by itself: up to here, with this echo.
    pub(super) before: Option<(u64, bool)>,
}

#[derive(Debug, Default)]
pub(super) struct Echo {
    mode: EcnMode,
    /// Packets with an ECN codepoint came.
    seen: bool,
    pub(super) ece: bool,
    pub(super) marked: u32,
    /// How many of them the last acknowledgement told of.
    told: u32,
    last: bool,
    next_before: u64,
}

impl Echo {
    pub(super) fn new(mode: EcnMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// A data packet came; `next` is now expected, and an acknowledgement is `delayed` or not.
    pub(super) fn on_packet(
        &mut self,
        (ect, ce, cwr): (bool, bool, bool),
        next: u64,
        delayed: bool,
    ) -> Wish {
        let mut wish = Wish::default();
        match self.mode {
            EcnMode::Off => {}
            EcnMode::Classic => {
                if cwr {
                    // The sender's window may be down to a segment.
                    (self.ece, wish.at_once) = (false, true);
                }
                if ce && !self.ece {
                    (self.ece, wish.quick) = (true, 2);
                } else if !ce && !ect && self.seen {
                    // Sent again, by all appearances.
                    wish.quick = 2;
                }
                self.seen |= ce || ect;
            }
            EcnMode::Exact { .. } => {
                if ce != self.ece {
                    // RFC 8257 section 3.2: the echo changes between two acknowledgements.
                    wish.before = delayed.then_some((self.next_before, self.ece));
                    wish.at_once = true;
                }
                (self.ece, self.next_before) = (ce, next);
            }
            EcnMode::Counted => {
                self.marked = self.marked.wrapping_add(u32::from(ce));
                // RFC 9768 section 3.2.2.5.1: at once when marks begin, and for every second.
                wish.at_once = ce && (!self.last || self.marked.wrapping_sub(self.told) >= 2);
                self.last = ce;
            }
        }
        wish
    }

    pub(super) fn on_told(&mut self) {
        self.told = self.marked;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CE: (bool, bool, bool) = (true, true, false);
    const ECT: (bool, bool, bool) = (true, false, false);

    #[test]
    fn a_classic_echo_lasts_until_the_window_is_reduced() {
        let mut echo = Echo::new(EcnMode::Classic);
        assert_eq!(echo.on_packet(ECT, 1, false), Wish::default());
        assert_eq!(echo.on_packet(CE, 2, false).quick, 2);
        assert_eq!(echo.on_packet(ECT, 3, false), Wish::default());
        assert!(echo.ece);
        assert!(echo.on_packet((true, false, true), 4, false).at_once);
        assert!(!echo.ece);
        // Reduced, and marked again in the same packet.
        echo.on_packet((true, true, true), 5, false);
        assert!(echo.ece);
        assert_eq!(echo.on_packet((false, false, false), 6, false).quick, 2);
    }

    #[test]
    fn an_exact_echo_says_what_was_before_first() {
        let mut echo = Echo::new(EcnMode::Exact { l4s: false });
        echo.on_packet(ECT, 1000, true);
        let wish = echo.on_packet(CE, 2000, true);
        assert_eq!((wish.before, wish.at_once), (Some((1000, false)), true));
        assert_eq!(echo.on_packet(CE, 3000, false), Wish::default());
        let wish = echo.on_packet(ECT, 4000, false);
        assert_eq!((wish.before, wish.at_once), (None, true), "nothing waits");
    }

    #[test]
    fn a_counting_echo_loses_no_mark() {
        let mut echo = Echo::new(EcnMode::Counted);
        assert!(echo.on_packet(CE, 1, false).at_once);
        echo.on_told();
        assert!(!echo.on_packet(CE, 2, false).at_once);
        assert!(echo.on_packet(CE, 3, false).at_once, "two since the last");
        assert_eq!(echo.marked, 3);
    }
}
