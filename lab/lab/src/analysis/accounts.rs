use core::fmt;

use serde::{Deserialize, Serialize};

use crate::results::HopCounters;

/// The reason for which a hop's packet counts do not balance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// No hop reported its counters, so there is nothing to check.
    NotCounted,
    /// The number of frames received differs from the number sent, dropped by policy, taken by the
    /// hop itself and still queued.
    Unbalanced {
        /// The name of the hop.
        hop: String,
        /// The number of frames received.
        received: u64,
        /// The number of frames sent, dropped by policy, taken by the hop itself and still queued.
        accounted: u64,
    },
    /// The hop lost frames itself, through a full ring or a failed send.
    Lost {
        /// The name of the hop.
        hop: String,
        /// The number of lost frames.
        lost: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCounted => f.write_str("no hop reported its packet counters"),
            Self::Unbalanced { hop, received, accounted } => {
                write!(f, "{hop}: received {received} frames, accounts for {accounted}")
            }
            Self::Lost { hop, lost } => write!(f, "{hop}: lost {lost} frames"),
        }
    }
}

/// Whether every frame that entered a hop is accounted for: received = sent + policy drops + local
/// + queued, and none lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conservation {
    /// Whether the counts balance at every hop.
    pub ok: bool,
    /// Human-readable descriptions of all violations.
    pub violations: Vec<String>,
}

impl Conservation {
    /// Checks these hops over the whole run.
    pub fn of(hops: &[HopCounters]) -> Self {
        let violations: Vec<String> = violations(hops).iter().map(ToString::to_string).collect();
        Self { ok: violations.is_empty(), violations }
    }
}

/// Returns every violation of conservation at `hops`.
pub fn violations(hops: &[HopCounters]) -> Vec<Violation> {
    if hops.is_empty() {
        return vec![Violation::NotCounted];
    }
    let mut found = Vec::new();
    for h in hops {
        let accounted =
            [h.sent, h.policy_drops, h.local, h.queued].into_iter().fold(0, u64::saturating_add);
        if h.received != accounted {
            found.push(Violation::Unbalanced {
                hop: h.hop.clone(),
                received: h.received,
                accounted,
            });
        }
        if h.lost != 0 {
            found.push(Violation::Lost { hop: h.hop.clone(), lost: h.lost });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> HopCounters {
        HopCounters {
            hop: "link".into(),
            received: 100,
            sent: 90,
            policy_drops: 5,
            local: 2,
            queued: 3,
            lost: 0,
            marked: None,
            late: None,
        }
    }

    #[test]
    fn a_balanced_account() {
        assert_eq!(Conservation::of(&[link()]), Conservation { ok: true, violations: vec![] });
    }

    #[test]
    fn each_violation_names_its_hop() {
        let missing = HopCounters { sent: 89, ..link() };
        let conjured = HopCounters { hop: "sendbox".into(), sent: 91, ..link() };
        let lossy = HopCounters { hop: "receivebox".into(), lost: 1, ..link() };
        let found = Conservation::of(&[missing, conjured, lossy]);
        assert!(!found.ok);
        assert_eq!(
            found.violations,
            [
                "link: received 100 frames, accounts for 99",
                "sendbox: received 100 frames, accounts for 101",
                "receivebox: lost 1 frames",
            ]
        );
    }

    #[test]
    fn no_counters_are_no_proof() {
        assert_eq!(violations(&[]), [Violation::NotCounted]);
        assert!(!Conservation::of(&[]).ok);
    }
}
