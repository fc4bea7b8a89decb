//! The settings of disciplines, and the keys that give them.

use std::fmt;
use std::ops::Range;

use forebay_config::{DurationValue, Limit, Spanned};
use forebay_tc::{CakeDiffserv, CakeFlows};
use forebay_units::{Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::Kind;

/// Makes [`Key`], [`Settings`] and [`PolicyTable`] of a list of settings. Each line has the key's
/// variant, its name, the value, and for keys of a box's policy the type that it is written as.
macro_rules! settings {
    (
        policy { $($(#[$doc:meta])* $key:ident $field:ident: $value:ty = $written:ty;)* }
        other { $($(#[$other_doc:meta])* $other_key:ident $other:ident: $other_value:ty;)* }
    ) => {
        /// A key of a discipline's table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Key {
            /// The limit of the queue.
            Limit,
            $($(#[$doc])* $key,)*
            $($(#[$other_doc])* $other_key,)*
        }

        impl Key {
            /// The key as it is written.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::Limit => "limit",
                    $(Self::$key => stringify!($field),)*
                    $(Self::$other_key => stringify!($other),)*
                }
            }
        }

        /// The settings of a discipline; `None` stands for the discipline's own default.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Settings {
            /// The largest backlog, in all queues of the discipline together.
            pub limit: Option<Limit>,
            $($(#[$doc])* pub $field: Option<$value>,)*
            $($(#[$other_doc])* pub $other: Option<$other_value>,)*
        }

        /// The table `policy = { ... }` of a box's configuration, as it is written.
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct PolicyTable {
            pub(crate) kind: Spanned<Kind>,
            pub(crate) limit: Option<Spanned<Limit>>,
            $(pub(crate) $field: Option<Spanned<$written>>,)*
        }

        impl PolicyTable {
            /// Returns the table of a discipline with its own defaults.
            pub fn of(kind: Spanned<Kind>) -> Self {
                Self { kind, limit: None, $($field: None,)* }
            }

            /// The keys that the table has beside `kind`, and where their values are.
            pub(crate) fn given(&self) -> Vec<(Key, Range<usize>)> {
                let limit = self.limit.as_ref().map(|value| (Key::Limit, value.span()));
                let others =
                    [$(self.$field.as_ref().map(|value| (Key::$key, value.span())),)*];
                limit.into_iter().chain(others.into_iter().flatten()).collect()
            }

            /// The settings that the table gives.
            pub(crate) fn settings(&self) -> Settings {
                Settings {
                    limit: self.limit.as_ref().map(|value| *value.get_ref()),
                    $($field: self.$field.as_ref().map(|value| (*value.get_ref()).into()),)*
                    ..Settings::default()
                }
            }
        }
    };
}

settings! {
    policy {
        /// The delay that the discipline holds the queue at, or CoDel's target.
        Target target: Nanos = DurationValue;
        /// Whether packets of flows that allow it are marked instead of dropped (RFC 3168).
        Ecn ecn: bool = bool;
        /// The interval of CoDel.
        Interval interval: Nanos = DurationValue;
        /// The period after which SFQ changes its hash.
        Perturb perturb: Nanos = DurationValue;
        /// The set of parameters.
        Profile profile: Profile = ProfileName;
        /// The AQM that computes DualPI2's base probability.
        Base base: BaseAqm = BaseAqm;
        /// The delay above `min_threshold` at which Curvy RED's base probability would be one.
        Range range: Nanos = DurationValue;
        /// The delay up to which Curvy RED signals nothing.
        MinThreshold min_threshold: Nanos = DurationValue;
        /// DualPI2's coupling factor k, from 1 to 1000 (RFC 9332 section 2.5.2.1).
        Coupling coupling: f64 = f64;
        /// Whether something else bounds the traffic without ECN in DualPI2's L queue, so that it
        /// passes untouched (RFC 9332 section 2.5.1.1).
        QueueProtection queue_protection: bool = bool;
        /// The largest burst of a flow in DualPI2's L queue, where the queue's rate is known.
        L4sBurst l4s_burst: Burst = DurationValue;
        /// The round-trip time that CAKE's AQM is tuned for.
        Rtt rtt: Nanos = DurationValue;
        /// The hosts and flows between which CAKE is fair.
        Flows flows: CakeFlows = CakeFlows;
        /// The classes that CAKE sorts packets into by their DSCP.
        Diffserv diffserv: CakeDiffserv = CakeDiffserv;
    }
    other {
        /// The wait above which CoDel marks every ECT(1) packet; at bottlenecks of scenarios only.
        L4sThreshold l4s_threshold: Nanos;
        /// The time between updates of PIE's drop probability, which the profile sets.
        Tupdate tupdate: Nanos;
    }
}

/// The base AQM of DualPI2, whose output decides the signals of both queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseAqm {
    /// PI2 (RFC 9332 appendix A).
    #[default]
    Pi2,
    /// Curvy RED (RFC 9332 appendix B).
    CurvyRed,
}

/// As it is written.
impl fmt::Display for BaseAqm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pi2 => "pi2",
            Self::CurvyRed => "curvy_red",
        })
    }
}

/// A burst of a flow, as the time that it takes at the rate of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// How long the burst takes.
    pub time: Nanos,
    /// The rate of the queue. Without one the burst has no length and limits nothing.
    pub rate: Option<Rate>,
}

impl From<DurationValue> for Burst {
    fn from(value: DurationValue) -> Self {
        Self { time: value.into(), rate: None }
    }
}

/// A published set of a discipline's parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// The RFC's: RFC 8033 for PIE, RFC 9332 for DualPI2.
    #[default]
    Rfc,
    /// Table 1 of De Schepper et al., "'Data Centre to the Home': Deployable Ultra-Low Queuing
    /// Delay for All", 2017.
    Paper,
    /// Linux's DualPI2 (6.17). Linux's PIE has the RFC's parameters.
    Linux,
}

/// A profile as a box's configuration names it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProfileName {
    Rfc9332,
    Paper,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Rfc9332 => Self::Rfc,
            ProfileName::Paper => Self::Paper,
        }
    }
}
