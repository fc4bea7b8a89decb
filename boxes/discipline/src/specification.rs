//! The trait that the file of each discipline implements.

use forebay_config::Limit as LimitValue;
use forebay_queue::{ConfigError, Packet, Qdisc, pie};
use forebay_tc as tc;
use forebay_units::{Nanos, Rate};

use crate::limit::LimitOnPath;
use crate::{Key, Settings};

/// A queueing discipline: its name, its settings, and how it is built.
///
/// The constants and methods with a default are right for a discipline that only this project has,
/// and that has no setting but its limit.
pub(crate) trait Specification {
    /// The name in configuration files, scenarios and stored records.
    const NAME: &'static str;

    /// The name of the kernel's queue.
    const KERNEL_NAME: &'static str = Self::NAME;

    /// The keys of a box's policy beside `kind` and `limit`; `None` if boxes do not take it.
    const POLICY: Option<&'static [Key]> = Some(&[]);

    /// The keys of a scenario's bottleneck queue beside `kind`, `limit`, `by` and `ecn`; `None` if
    /// it cannot be one.
    const BOTTLENECK: Option<&'static [Key]> = Some(&[]);

    /// The keys that need a queue of this project, each with what the kernel has instead.
    const USER_SPACE_KEYS: &'static [(Key, &'static str)] = &[];

    /// Whether this project has code for it.
    const OWN: bool = true;

    /// Whether [`Specification::tc_arguments`] says how to make the kernel's.
    const IN_TC: bool = false;

    /// Whether the kernel's paces by itself.
    const PACES_ITSELF: bool = false;

    /// Whether it is made of classes.
    const CLASSFUL: bool = false;

    /// Whether and when it marks packets instead of dropping them.
    const ECN: EcnUse = EcnUse::Never;

    /// Builds the queue that `settings` describe.
    fn build<P: Packet + 'static>(
        settings: &Settings,
        terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError>;

    /// Packets that a box's queue can hold; zero where none of this project's does.
    fn capacity(settings: &Settings) -> u32;

    /// The settings of a box's queue whose rate is known.
    fn at_rate(settings: &Settings, _rate: Rate) -> Settings {
        *settings
    }

    /// Refuses settings out of range. Limits and times of zero are refused before.
    fn check(settings: &Settings) -> Result<(), WrongSetting> {
        at_most_a_minute(Key::Target, settings.target)
    }

    /// The settings with the discipline's own defaults in place of what is left out.
    fn resolve(settings: &Settings) -> Settings {
        *settings
    }

    /// The limit of a bottleneck's queue, in the unit that the discipline counts in.
    fn limit_on_path(limit: LimitOnPath) -> LimitValue {
        LimitValue::Packets(limit.packets)
    }

    /// The kernel's queue with these settings, for a sendbox over the kernel's queues.
    fn to_tc(_settings: &Settings) -> Option<tc::Discipline> {
        None
    }

    /// Returns the arguments of `tc qdisc add` for the kernel's queue at a bottleneck of `rate`.
    /// The settings are those of [`Specification::resolve`], with a limit of
    /// [`Specification::limit_on_path`].
    fn tc_arguments(_settings: &Settings, _rate: Rate) -> Option<String> {
        None
    }
}

/// The cases in which a discipline marks packets instead of dropping them (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnUse {
    /// The discipline never marks packets.
    Never,
    /// It marks if it is told to.
    Optional {
        /// Whether a scenario's bottleneck marks if the scenario does not say. A box's policy does.
        by_default: bool,
    },
    /// The discipline always marks packets.
    Always,
}

/// The conditions for building a queue beside its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The seed of hashes and random drops; the discipline's default if `None`.
    pub(crate) seed: Option<u64>,
    /// Packets that may wait where the limit is in bytes or time.
    pub(crate) most_packets: u32,
}

/// A queue of the kernel's where only one of this project's will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOnly(pub &'static str);

/// Why a queue could not be built.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// Only the kernel has this discipline.
    #[error(transparent)]
    KernelOnly(#[from] KernelOnly),
    /// A setting is out of the discipline's range.
    #[error(transparent)]
    Settings(#[from] ConfigError),
}

/// A setting that is out of range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongSetting {
    /// The key of the setting.
    pub(crate) key: Key,
    /// The mistake in its value.
    pub(crate) message: String,
}

impl WrongSetting {
    pub(crate) fn new(key: Key, message: impl Into<String>) -> Self {
        Self { key, message: message.into() }
    }
}

/// Refuses a time above a minute, the longest that PIE and its relatives take.
pub(crate) fn at_most_a_minute(key: Key, time: Option<Nanos>) -> Result<(), WrongSetting> {
    match time {
        Some(time) if time > pie::Params::MAX_TIME => {
            Err(WrongSetting::new(key, "must be at most a minute"))
        }
        _ => Ok(()),
    }
}
