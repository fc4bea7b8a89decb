//! The list of all disciplines.

use forebay_queue::{Packet, Qdisc};
use forebay_tc as tc;
use forebay_units::Rate;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};

use crate::limit::LimitOnPath;
use crate::specification::{BuildError, EcnUse, Specification, Terms, WrongSetting};
use crate::{Key, Settings};

/// Makes [`Kind`] of a list of modules and the types in them that implement [`Specification`]. The
/// first argument is a dollar sign, which the macro within needs for its own variables.
macro_rules! registry {
    (($dollar:tt) $($(#[$doc:meta])* $module:ident::$kind:ident;)*) => {
        /// The name of a queueing discipline.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every discipline, in the order of this list.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
            /// The names of [`Kind::ALL`], in the same order.
            const NAMES: &[&str] = &[$(crate::$module::$kind::NAME),*];
        }

        /// Evaluates an expression with a name for the discipline's own type.
        macro_rules! with_specification {
            ($dollar value:expr, $dollar type:ident => $dollar body:expr) => {
                match $dollar value {
                    $(Kind::$kind => {
                        type $dollar type = crate::$module::$kind;
                        $dollar body
                    })*
                }
            };
        }
    };
}

registry! {
    ($)
    /// First in, first out; drops at the tail.
    fifo::Fifo;
    /// Stochastic fairness queueing.
    sfq::Sfq;
    /// Flow queueing with CoDel (RFC 8290).
    fq_codel::FqCodel;
    /// CoDel on one queue (RFC 8289).
    codel::Codel;
    /// PIE on one queue (RFC 8033).
    pie::Pie;
    /// PI2 on one queue, L4S and classic traffic coupled.
    pi2::Pi2;
    /// Flow queueing with PIE, which only the kernel has.
    fq_pie::FqPie;
    /// The dual queue coupled AQM for L4S and classic traffic (RFC 9332).
    dualpi2::DualPi2;
    /// CAKE, which only the kernel has.
    cake::Cake;
    /// Strict priority of classes, each with a discipline of its own.
    strict::Strict;
    /// Classes with weights, guaranteed rates and ceilings, each with a discipline of its own.
    weighted::Weighted;
}

/// Names under which others have classes with weights or rates.
const LIKE_WEIGHTED: [&str; 6] = ["drr", "ets", "hfsc", "htb", "wfq", "wrr"];

impl Kind {
    /// Returns the name in configuration files, scenarios and stored records.
    pub const fn name(self) -> &'static str {
        with_specification!(self, S => S::NAME)
    }

    /// Returns the name of the kernel's queue.
    pub const fn kernel_name(self) -> &'static str {
        with_specification!(self, S => S::KERNEL_NAME)
    }

    /// Returns the keys that a box's policy of this kind may have beside `kind` and `limit`; `None`
    /// if boxes do not take it as a policy.
    pub const fn policy_keys(self) -> Option<&'static [Key]> {
        with_specification!(self, S => S::POLICY)
    }

    /// Returns the keys that a scenario's bottleneck queue of this kind may have beside `kind`,
    /// `limit`, `by` and `ecn`; `None` if it cannot be a bottleneck's queue.
    pub const fn bottleneck_keys(self) -> Option<&'static [Key]> {
        with_specification!(self, S => S::BOTTLENECK)
    }

    /// Whether a box takes it as a policy, in user space or in the kernel.
    pub const fn is_policy(self) -> bool {
        self.policy_keys().is_some()
    }

    /// Whether a box's policy of this kind may have `key`.
    pub fn policy_has(self, key: Key) -> bool {
        self.policy_keys().is_some_and(|keys| keys.contains(&key))
    }

    /// Whether a bottleneck's queue of this kind may have `key`.
    pub fn bottleneck_has(self, key: Key) -> bool {
        self.bottleneck_keys().is_some_and(|keys| keys.contains(&key))
    }

    /// Whether only the kernel has code for it.
    pub const fn is_kernel_only(self) -> bool {
        !with_specification!(self, S => S::OWN)
    }

    /// Whether the laboratory can have the kernel's queue of this kind at a bottleneck.
    pub const fn is_in_tc(self) -> bool {
        with_specification!(self, S => S::IN_TC)
    }

    /// Whether the kernel's queue of this kind paces by itself, so that nothing else need.
    pub const fn paces_itself(self) -> bool {
        with_specification!(self, S => S::PACES_ITSELF)
    }

    /// Whether it is made of classes, each with a discipline of its own.
    pub const fn is_classful(self) -> bool {
        with_specification!(self, S => S::CLASSFUL)
    }

    /// Returns when it marks packets instead of dropping them.
    pub const fn ecn(self) -> EcnUse {
        with_specification!(self, S => S::ECN)
    }

    /// Whether it ever marks instead of dropping.
    pub const fn can_mark(self) -> bool {
        !matches!(self.ecn(), EcnUse::Never)
    }

    /// Whether a scenario's bottleneck of this kind marks unless it is told otherwise, as in Linux.
    pub const fn marks_by_default(self) -> bool {
        matches!(self.ecn(), EcnUse::Always | EcnUse::Optional { by_default: true })
    }

    /// Whether it cannot be told not to mark.
    pub const fn always_marks(self) -> bool {
        matches!(self.ecn(), EcnUse::Always)
    }

    /// Returns the keys that need a queue of this project, each with what the kernel has instead.
    pub(crate) const fn user_space_keys(self) -> &'static [(Key, &'static str)] {
        with_specification!(self, S => S::USER_SPACE_KEYS)
    }

    pub(crate) fn build<P: Packet + 'static>(
        self,
        settings: &Settings,
        terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        with_specification!(self, S => S::build(settings, terms))
    }

    pub(crate) fn capacity(self, settings: &Settings) -> u32 {
        with_specification!(self, S => S::capacity(settings))
    }

    pub(crate) fn at_rate(self, settings: &Settings, rate: Rate) -> Settings {
        with_specification!(self, S => S::at_rate(settings, rate))
    }

    pub(crate) fn check(self, settings: &Settings) -> Result<(), WrongSetting> {
        with_specification!(self, S => S::check(settings))
    }

    pub(crate) fn resolve(self, settings: &Settings) -> Settings {
        with_specification!(self, S => S::resolve(settings))
    }

    pub(crate) fn limit_on_path(self, limit: LimitOnPath) -> forebay_config::Limit {
        with_specification!(self, S => S::limit_on_path(limit))
    }

    pub(crate) fn to_tc(self, settings: &Settings) -> Option<tc::Discipline> {
        with_specification!(self, S => S::to_tc(settings))
    }

    pub(crate) fn tc_arguments(self, settings: &Settings, rate: Rate) -> Option<String> {
        with_specification!(self, S => S::tc_arguments(settings, rate))
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Self::ALL.iter().find(|kind| kind.name() == name);
        if LIKE_WEIGHTED.contains(&name.as_str()) {
            let meant = Self::Weighted.name();
            return Err(D::Error::custom(format!(
                "unknown kind `{name}`; did you mean `{meant}`?"
            )));
        }
        found.copied().ok_or_else(|| D::Error::unknown_variant(&name, Self::NAMES))
    }
}
