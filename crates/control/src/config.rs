use core::fmt;

use forebay_units::{Bytes, Nanos, Rate};

use crate::basic_delay::BasicDelayConfig;
use crate::bbr::BbrConfig;
use crate::controller::ControllerKind;

/// How a bundle is to be controlled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlConfig {
    /// The bundle is never limited to less. Default 500 kbit/s.
    pub min_rate: Rate,
    /// Nor to more. Default 100 Gbit/s.
    pub max_rate: Rate,
    /// The rate to start from. `None`, the default, starts open until the first round-trip time and
    /// receive rate are known.
    pub initial_rate: Option<Rate>,
    /// How often [`crate::ControlLoop::on_tick`] is called. Default 10 ms.
    pub tick: Nanos,
    /// Sampling of the bundle's packets.
    pub epoch: EpochConfig,
    /// Which controller sets the rate. Default Forebay's own.
    pub controller: ControllerKind,
    /// The parameters of Forebay's own.
    pub forebay: ForebayConfig,
    /// The parameters of Copa.
    pub copa: CopaConfig,
    /// Those of BasicDelay.
    pub basic_delay: BasicDelayConfig,
    /// Those of BBR.
    pub bbr: BbrConfig,
    /// Whether elastic cross traffic is looked for, and makes the bundle pass through. Default not: its
    /// pulses can keep bundles that share a bottleneck from finding their shares.
    pub cross_traffic: Detection,
    /// Whether several ways between the boxes are looked for, and open the bundle.
    pub multipath: Detection,
}

/// What is done about something that may be in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Detection {
    /// It is looked for, and the bundle acts on it.
    #[default]
    Detect,
    /// The bundle goes on as if it were not there. For experiments.
    Ignore,
}

impl Detection {
    /// What a bundle does about elastic cross traffic unless told otherwise.
    pub const fn cross_traffic_default() -> Self {
        Self::Ignore
    }

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Detect => "detect",
            Self::Ignore => "ignore",
        }
    }
}

/// How the bundle's packets are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochConfig {
    /// The epoch size in packets before anything is known, a power of two. Default 16, so that a
    /// young bundle is measured within its first round trips.
    pub initial: u32,
    /// The least size, a power of two. Default 4.
    pub min: u32,
    /// The largest size, a power of two. Default 2^14.
    pub max: u32,
    /// The share of the bundle's bytes that feedback may take. Default 0.001.
    pub overhead: f64,
    /// The length of one feedback message on the wire. Default 94 bytes (IPv4); IPv6 takes 114.
    pub feedback_wire: Bytes,
}

/// The parameters of [`crate::Copa`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopaConfig {
    /// The bundle keeps `1 / delta` packets in the bottleneck's queue. Default 0.125, as in Bundler.
    pub delta: f64,
    /// How far the velocity may double. Default 16, as in Bundler.
    pub max_velocity: f64,
}

/// The parameters of [`crate::Forebay`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForebayConfig {
    /// How many of its packets the bundle keeps in the bottleneck's queue. Default 4.
    pub queue_packets: f64,
    /// Delay that is measurement noise and no queue, at least; where round-trip times spread more, up
    /// to four times as much. Default 250 microseconds.
    pub noise: Nanos,
    /// How far the velocity may double. Default 16.
    pub max_velocity: f64,
    /// The least window, in packets. Default 10.
    pub min_window: f64,
    /// How long the minimum RTT may go unseen before the queue is drained for a moment to look for
    /// it. Default 4 s.
    pub drain_after: Nanos,
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self {
            min_rate: Rate::from_bps(500_000),
            max_rate: Rate::from_mbps(100_000),
            initial_rate: None,
            tick: Nanos::from_millis(10),
            epoch: EpochConfig::default(),
            controller: ControllerKind::default(),
            forebay: ForebayConfig::default(),
            copa: CopaConfig::default(),
            basic_delay: BasicDelayConfig::default(),
            bbr: BbrConfig::default(),
            cross_traffic: Detection::Ignore,
            multipath: Detection::default(),
        }
    }
}

impl Default for EpochConfig {
    fn default() -> Self {
        Self { initial: 16, min: 4, max: 1 << 14, overhead: 0.001, feedback_wire: Bytes(94) }
    }
}

impl Default for CopaConfig {
    fn default() -> Self {
        Self { delta: 0.125, max_velocity: 16.0 }
    }
}

impl Default for ForebayConfig {
    fn default() -> Self {
        Self {
            queue_packets: 4.0,
            noise: Nanos::from_micros(250),
            max_velocity: 16.0,
            min_window: 10.0,
            drain_after: Nanos::from_secs(4),
        }
    }
}

impl ControlConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// The first field that makes no sense, and what to do about it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { min_rate, max_rate, initial_rate, tick, epoch, forebay, copa, .. } = self;
        if *min_rate == Rate::ZERO || min_rate > max_rate {
            return Err(ConfigError::RateBounds { min: *min_rate, max: *max_rate });
        }
        if let Some(rate) = initial_rate.filter(|r| r < min_rate || r > max_rate) {
            return Err(ConfigError::InitialRate { rate, min: *min_rate, max: *max_rate });
        }
        if *tick < Nanos::from_millis(1) || *tick > Nanos::from_millis(100) {
            return Err(ConfigError::Tick { tick: *tick });
        }
        for size in [epoch.min, epoch.initial, epoch.max] {
            if !size.is_power_of_two() || size > 1 << 24 {
                return Err(ConfigError::EpochSize { size });
            }
        }
        if epoch.min > epoch.initial || epoch.initial > epoch.max {
            return Err(ConfigError::EpochOrder);
        }
        let own = [
            ("epoch.overhead", epoch.overhead, 1e-6, 1.0),
            ("epoch.feedback_wire", epoch.feedback_wire.as_f64(), 1.0, 65_535.0),
            ("forebay.queue_packets", forebay.queue_packets, 1.0, 1024.0),
            ("forebay.noise", forebay.noise.as_secs_f64(), 0.0, 0.1),
            ("forebay.max_velocity", forebay.max_velocity, 1.0, 1024.0),
            ("forebay.min_window", forebay.min_window, 1.0, 1024.0),
            ("forebay.drain_after", forebay.drain_after.as_secs_f64(), 0.1, 3600.0),
            ("copa.delta", copa.delta, 0.001, 1.0),
            ("copa.max_velocity", copa.max_velocity, 1.0, 1024.0),
        ];
        let others = self.basic_delay.ranges().into_iter().chain(self.bbr.ranges());
        for (name, value, least, most) in own.into_iter().chain(others) {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::OutOfRange { name, value, least, most });
            }
        }
        Ok(())
    }
}

/// A configuration that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// The rate bounds are zero or crossed.
    RateBounds {
        /// The least rate.
        min: Rate,
        /// The largest rate.
        max: Rate,
    },
    /// The initial rate lies outside the bounds.
    InitialRate {
        /// The initial rate.
        rate: Rate,
        /// The least rate.
        min: Rate,
        /// The largest rate.
        max: Rate,
    },
    /// The tick is too short or too long for a control loop of some ten milliseconds.
    Tick {
        /// The tick.
        tick: Nanos,
    },
    /// An epoch size is not a power of two, or beyond 2^24.
    EpochSize {
        /// The size.
        size: u32,
    },
    /// The epoch sizes do not rise from min over initial to max.
    EpochOrder,
    /// A number is out of its range.
    OutOfRange {
        /// The field; times are in seconds, lengths in bytes.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The least that is allowed.
        least: f64,
        /// The most that is allowed.
        most: f64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateBounds { min, max } => write!(
                f,
                "min_rate {min} and max_rate {max}: set min_rate above zero and no higher than max_rate"
            ),
            Self::InitialRate { rate, min, max } => {
                write!(
                    f,
                    "initial_rate {rate}: set it between min_rate {min} and max_rate {max}, or leave it out"
                )
            }
            Self::Tick { tick } => write!(f, "tick {tick}: set it between 1 ms and 100 ms"),
            Self::EpochSize { size } => {
                write!(f, "epoch size {size}: set a power of two, at most 16777216")
            }
            Self::EpochOrder => f.write_str("epoch sizes: set min <= initial <= max"),
            Self::OutOfRange { name, value, least, most } => {
                write!(f, "{name} {value}: set it between {least} and {most}")
            }
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn defaults_are_valid() {
        assert_eq!(ControlConfig::default().validate(), Ok(()));
    }

    #[test]
    fn each_mistake_is_named_with_its_remedy() {
        let base = ControlConfig::default();
        let epoch = EpochConfig::default();
        let copa = CopaConfig::default();
        for (config, says) in [
            (
                ControlConfig { max_rate: Rate::from_bps(1), ..base },
                "min_rate 500.000 kbit/s and max_rate 1 bit/s: set min_rate above zero and no higher than max_rate",
            ),
            (
                ControlConfig { initial_rate: Some(Rate::ZERO), ..base },
                "initial_rate 0 bit/s: set it between min_rate 500.000 kbit/s and max_rate 100000.000 Mbit/s, or leave it out",
            ),
            (
                ControlConfig { tick: Nanos::from_secs(1), ..base },
                "tick 1.000 s: set it between 1 ms and 100 ms",
            ),
            (
                ControlConfig { epoch: EpochConfig { initial: 100, ..epoch }, ..base },
                "epoch size 100: set a power of two, at most 16777216",
            ),
            (
                ControlConfig { epoch: EpochConfig { min: 32, ..epoch }, ..base },
                "epoch sizes: set min <= initial <= max",
            ),
            (
                ControlConfig { epoch: EpochConfig { overhead: 0.0, ..epoch }, ..base },
                "epoch.overhead 0: set it between 0.000001 and 1",
            ),
            (
                ControlConfig { copa: CopaConfig { delta: f64::NAN, ..copa }, ..base },
                "copa.delta NaN: set it between 0.001 and 1",
            ),
            (
                ControlConfig {
                    basic_delay: BasicDelayConfig { beta: 2.0, ..base.basic_delay },
                    ..base
                },
                "basic_delay.beta 2: set it between 0.01 and 1.5",
            ),
            (
                ControlConfig { bbr: BbrConfig { bandwidth_rounds: 1, ..base.bbr }, ..base },
                "bbr.bandwidth_rounds 1: set it between 8 and 1000",
            ),
        ] {
            assert_eq!(config.validate().unwrap_err().to_string(), says);
        }
    }
}
