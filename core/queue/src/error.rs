use core::error::Error;
use core::fmt;

/// The reason why a configuration was refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// A value is outside what the qdisc can work with.
    OutOfRange {
        /// The name of the setting's field.
        setting: &'static str,
        /// The refused value, in the field's unit (nanoseconds for times).
        value: u64,
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// A gain or a probability is outside what the control law can work with.
    RealOutOfRange {
        /// The name of the setting's field.
        setting: &'static str,
        /// The refused value.
        value: f64,
        /// The smallest value allowed.
        min: f64,
        /// The largest value allowed.
        max: f64,
    },
    /// A table's size must be a power of two.
    NotPowerOfTwo {
        /// The name of the setting's field.
        setting: &'static str,
        /// The refused value.
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

/// Returns an error if `value` is outside `min..=max`.
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

/// Returns an error if `value` is outside `min..=max` or NaN.
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
