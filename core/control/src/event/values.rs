//! Names and values of events, for records that programs read.
//!
//! Every writer of records uses these, so that all records have the same names and numbers.

use super::{Event, ImpossibleClaim, MinRttReason, ModeReason, Phase};

/// A value of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventValue {
    /// A time in nanoseconds, a rate in bits per second, a count of bytes or packets, or a share in
    /// thousandths.
    Number(u64),
    /// The name of a mode, a phase or a reason.
    Name(&'static str),
}

impl ModeReason {
    /// Returns the kind of the reason as a name in snake case.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Measured { .. } => "measured",
            Self::NoFeedback { .. } => "no_feedback",
            Self::UselessFeedback { .. } => "useless_feedback",
            Self::FeedbackReturned { .. } => "feedback_returned",
            Self::ElasticCross { .. } => "elastic_cross",
            Self::Contested { .. } => "contested",
            Self::InelasticCross { .. } => "inelastic_cross",
            Self::QueueGone { .. } => "queue_gone",
            Self::SeveralPaths { .. } => "several_paths",
            Self::SinglePath { .. } => "single_path",
        }
    }
}

impl Event {
    /// Returns the kind of the event as a name in snake case.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ModeChanged { .. } => "mode_changed",
            Self::RateSet { .. } => "rate_set",
            Self::EpochChanged { .. } => "epoch_changed",
            Self::MinRttChanged { .. } => "min_rtt_changed",
            Self::GuardTested { .. } => "guard_tested",
            Self::ReceiveboxRestarted => "receivebox_restarted",
            Self::ExcessReceived { .. } => "excess_received",
            Self::ImpossibleFeedback { .. } => "impossible_feedback",
        }
    }

    /// Passes each value with its name to `put`: the old and the new value, the reason and the
    /// numbers behind it.
    pub fn values(&self, mut put: impl FnMut(&'static str, EventValue)) {
        let mut number = |name, n| put(name, EventValue::Number(n));
        match *self {
            Self::ModeChanged { reason, .. } => match reason {
                ModeReason::Measured { rtt, receive_rate } => {
                    number("rtt", rtt.0);
                    number("receive_rate", receive_rate.as_bps());
                }
                ModeReason::NoFeedback { silence, unanswered } => {
                    number("silence", silence.0);
                    number("unanswered", unanswered.into());
                }
                ModeReason::UselessFeedback { silence, messages } => {
                    number("silence", silence.0);
                    number("messages", messages.into());
                }
                ModeReason::FeedbackReturned { samples, receive_rate } => {
                    number("samples", samples.into());
                    number("receive_rate", receive_rate.as_bps());
                }
                ModeReason::ElasticCross { response, contrast, receive_rate, highest_rate } => {
                    number("response", response.into());
                    number("contrast", contrast.into());
                    number("receive_rate", receive_rate.as_bps());
                    number("highest_rate", highest_rate.as_bps());
                }
                ModeReason::Contested { delay, receive_rate, highest_rate } => {
                    number("delay", delay.0);
                    number("receive_rate", receive_rate.as_bps());
                    number("highest_rate", highest_rate.as_bps());
                }
                ModeReason::InelasticCross { cut, delay, lasted } => {
                    number("cut", cut.into());
                    number("delay", delay.0);
                    number("lasted", lasted.0);
                }
                ModeReason::QueueGone { emptied, lasted } => {
                    number("emptied", emptied.0);
                    number("lasted", lasted.0);
                }
                ModeReason::SeveralPaths { out_of_order } => {
                    number("out_of_order", out_of_order.into());
                }
                ModeReason::SinglePath { out_of_order, lasted } => {
                    number("out_of_order", out_of_order.into());
                    number("lasted", lasted.0);
                }
            },
            Self::RateSet { from, to, .. } => {
                from.into_iter().for_each(|rate| number("from", rate.as_bps()));
                number("to", to.as_bps());
            }
            Self::EpochChanged { from, to, wanted, least } => {
                number("from", from.into());
                number("to", to.into());
                number("wanted", wanted.into());
                number("least", least.into());
            }
            Self::MinRttChanged { from, to, .. } => {
                from.into_iter().for_each(|rtt| number("from", rtt.0));
                number("to", to.0);
            }
            Self::ImpossibleFeedback {
                claim: ImpossibleClaim::TooManyBytes { received, allowed },
            } => {
                number("received", received.0);
                number("allowed", allowed.0);
            }
            Self::GuardTested { before, sent, received, .. } => {
                number("before", before.as_bps());
                number("sent", sent.as_bps());
                number("received", received.as_bps());
            }
            Self::ExcessReceived { sent, received, lasted } => {
                number("sent", sent.0);
                number("received", received.0);
                number("lasted", lasted.0);
            }
            Self::ReceiveboxRestarted | Self::ImpossibleFeedback { .. } => {}
        }
        if let Self::ModeChanged { from, to, .. } = self {
            put("from", EventValue::Name(from.name()));
            put("to", EventValue::Name(to.name()));
        }
        if let Some(reason) = self.reason() {
            put("reason", EventValue::Name(reason));
        }
    }

    /// Returns the name of the reason, `None` if the kind has none.
    const fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::ModeChanged { reason, .. } => reason.kind(),
            Self::RateSet { phase, .. } => match phase {
                Phase::SlowStart => "slow_start",
                Phase::Hold => "hold",
                Phase::Probe => "probe",
                Phase::Unused => "unused",
                Phase::Drain => "drain",
                Phase::Cruise => "cruise",
                Phase::Raise => "raise",
                Phase::Lower => "lower",
                Phase::PassThrough => "pass_through",
            },
            Self::MinRttChanged { reason, .. } => match reason {
                MinRttReason::Smaller => "smaller",
                MinRttReason::Expired => "expired",
                MinRttReason::PathLonger => "path_longer",
                MinRttReason::Remembered => "remembered",
            },
            Self::ImpossibleFeedback { claim } => match claim {
                ImpossibleClaim::AnsweredBeforeSent => "answered_before_sent",
                ImpossibleClaim::TimeWentBack => "time_went_back",
                ImpossibleClaim::NothingCounted => "nothing_counted",
                ImpossibleClaim::TooManyBytes { .. } => "too_many_bytes",
            },
            Self::EpochChanged { .. } => "feedback_budget",
            Self::GuardTested { followed: true, .. } => "followed",
            Self::GuardTested { followed: false, .. } => "did_not_follow",
            Self::ExcessReceived { .. } | Self::ReceiveboxRestarted => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use forebay_units::{Nanos, Rate};

    use super::EventValue::{Name, Number};
    use super::*;
    use crate::event::Mode;

    fn values(event: Event) -> Vec<(&'static str, EventValue)> {
        let mut values = Vec::new();
        event.values(|name, value| values.push((name, value)));
        values
    }

    #[test]
    fn a_change_of_mode_has_a_reason_and_its_numbers() {
        let reason = ModeReason::NoFeedback { silence: Nanos::from_secs(1), unanswered: 4 };
        let event = Event::ModeChanged { from: Mode::DelayControl, to: Mode::Open, reason };
        assert_eq!(event.kind(), "mode_changed");
        assert_eq!(
            values(event),
            [
                ("silence", Number(1_000_000_000)),
                ("unanswered", Number(4)),
                ("from", Name("delay control")),
                ("to", Name("open")),
                ("reason", Name("no_feedback")),
            ]
        );
    }

    #[test]
    fn a_contested_path_is_reported_in_numbers_and_in_words() {
        let reason = ModeReason::Contested {
            delay: Nanos::from_millis(40),
            receive_rate: Rate::from_mbps(23),
            highest_rate: Rate::from_mbps(96),
        };
        let event = Event::ModeChanged { from: Mode::DelayControl, to: Mode::PassThrough, reason };
        assert_eq!(values(event)[0], ("delay", Number(40_000_000)));
        assert_eq!(values(event)[5], ("reason", Name("contested")));
        assert_eq!(
            alloc::string::ToString::to_string(&event),
            "mode delay control -> pass-through: others take what the bundle leaves: a queue of \
             40.000 ms stands at the bottleneck, receive rate 23.000 Mbit/s of 96.000 Mbit/s before"
        );
    }

    #[test]
    fn elastic_cross_traffic_is_reported_in_numbers_and_in_words() {
        let reason = ModeReason::ElasticCross {
            response: 456,
            contrast: 3_100,
            receive_rate: Rate::from_mbps(23),
            highest_rate: Rate::from_mbps(96),
        };
        let event = Event::ModeChanged { from: Mode::DelayControl, to: Mode::PassThrough, reason };
        assert_eq!(
            values(event)[..4],
            [
                ("response", Number(456)),
                ("contrast", Number(3_100)),
                ("receive_rate", Number(23_000_000)),
                ("highest_rate", Number(96_000_000)),
            ]
        );
        assert_eq!(values(event)[6], ("reason", Name("elastic_cross")));
        assert_eq!(
            std::format!("{event}"),
            "mode delay control -> pass-through: elastic cross traffic: it makes room for 45.6 % of a \
             pulse, 3.1 times its variation at other frequencies; receive rate 23.000 Mbit/s of 96.000 \
             Mbit/s before"
        );
    }

    #[test]
    fn a_first_value_has_no_from() {
        let event = Event::RateSet { from: None, to: Rate::from_mbps(9), phase: Phase::Hold };
        assert_eq!(values(event), [("to", Number(9_000_000)), ("reason", Name("hold"))]);
        assert_eq!(values(Event::ReceiveboxRestarted), []);
    }
}
