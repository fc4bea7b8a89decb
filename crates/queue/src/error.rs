use core::error::Error;
use core::fmt;

/// Why a configuration was refused. Nothing was built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// A value is outside what the qdisc can work with.
    OutOfRange {
        /// The setting, as its field is called.
        setting: &'static str,
        /// What it was set to, in the field's own unit (nanoseconds for times).
        value: u64,
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// A gain or a probability is outside what the control law can work with.
    RealOutOfRange {
        /// The setting, as its field is called.
        setting: &'static str,
        /// What it was set to.
        value: f64,
        /// The smallest value allowed.
        min: f64,
        /// The largest value allowed.
        max: f64,
    },
    /// A table's size must be a power of two.
    NotPowerOfTwo {
        /// The setting, as its field is called.
        setting: &'static str,
        /// What it was set to.
        value: u64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfRange { setting, value, min, max } => {
                write!(f, "{setting} is {value}: set it between {min} and {max}")
            }
            Self::RealOutOfRange { setting, value, min, max } => {
                write!(f, "{setting} is {value}: set it between {min} and {max}")
            }
            Self::NotPowerOfTwo { setting, value } => {
                let next = value.checked_next_power_of_two().unwrap_or(1 << 63);
                write!(f, "{setting} is {value}: set it to a power of two, such as {next}")
            }
        }
    }
}

impl Error for ConfigError {}

/// Refuses `value` outside `min..=max`.
pub(crate) fn within(
    setting: &'static str,
    value: u64,
    min: u64,
    max: u64,
) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::OutOfRange { setting, value, min, max })
    }
}

/// Refuses `value` outside `min..=max`, and NaN.
pub(crate) fn real_within(
    setting: &'static str,
    value: f64,
    min: f64,
    max: f64,
) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::RealOutOfRange { setting, value, min, max })
    }
}
