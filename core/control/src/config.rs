use core::fmt;

use forebay_units::{Bytes, Nanos, Rate};

use crate::basic_delay::BasicDelayConfig;
use crate::bbr::BbrConfig;
use crate::controller::ControllerKind;

/// The parameters of a bundle's control loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlConfig {
    /// The lowest rate that the bundle is limited to. Default 500 kbit/s.
    pub min_rate: Rate,
    /// The highest rate that the bundle is limited to. Default 100 Gbit/s.
    pub max_rate: Rate,
    /// The rate to start with. With `None`, the default, there is no limit until the first
    /// round-trip time and receive rate are known.
    pub initial_rate: Option<Rate>,
    /// The interval at which [`crate::ControlLoop::on_tick`] is called. Default 10 ms.
    pub tick: Nanos,
    /// The sampling of the bundle's packets.
    pub epoch: EpochConfig,
    /// The controller that sets the rate. Default [`crate::Forebay`].
    pub controller: ControllerKind,
    /// The parameters of the controller Forebay.
    pub forebay: ForebayConfig,
    /// The parameters of the controller Copa.
    pub copa: CopaConfig,
    /// The parameters of the controller BasicDelay.
    pub basic_delay: BasicDelayConfig,
    /// The parameters of the controller BBR.
    pub bbr: BbrConfig,
    /// Whether the bundle detects elastic cross traffic and enters pass-through beside it. Off by
    /// default, since pulses can keep bundles that share a bottleneck from reaching equal shares.
    pub cross_traffic: Detection,
    /// Whether the bundle detects several paths between the boxes and lifts its limit meanwhile.
    pub multipath: Detection,
    /// Whether a guard tests that the limit helps, and raises or lifts it if it does not. It works
    /// with Forebay's own controller, and without the detection of elastic traffic by pulses; other
    /// bundles have none. Default yes.
    pub guard: bool,
}

/// Whether a bundle detects a condition of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Detection {
    /// The bundle detects the condition and acts on it.
    #[default]
    Detect,
    /// The bundle ignores the condition. This is for experiments.
    Ignore,
}

impl Detection {
    /// Returns the default for elastic cross traffic.
    pub const fn cross_traffic_default() -> Self {
        Self::Ignore
    }

    /// Returns the name of the value in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Detect => "detect",
            Self::Ignore => "ignore",
        }
    }
}

/// The parameters of the sampling of the bundle's packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochConfig {
    /// The epoch size in packets before the first measurement, a power of two. Default 16, so that
    /// a new bundle has samples within its first round trips.
    pub initial: u32,
    /// The smallest epoch size in packets, a power of two. Default 4.
    pub min: u32,
    /// The largest epoch size in packets, a power of two. Default 2^14.
    pub max: u32,
    /// The share of feedback in the bundle's bytes. Default 0.001.
    pub overhead: f64,
    /// The larger share that feedback may take where `overhead` would set samples further apart
    /// than a quarter of the minimum RTT. Default 0.001, and 0.01 with a guard.
    pub most_overhead: f64,
    /// The length of a feedback message on the wire. Default 94 bytes for IPv4; IPv6 takes 114.
    pub feedback_wire: Bytes,
}

/// The parameters of [`crate::Copa`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopaConfig {
    /// The bundle keeps `1 / delta` packets in the bottleneck's queue. Default 0.125, as in
    /// Bundler.
    pub delta: f64,
    /// The largest velocity of the window. Default 16, as in Bundler.
    pub max_velocity: f64,
}

/// The parameters of [`crate::Forebay`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForebayConfig {
    /// The number of packets that the bundle keeps in the bottleneck's queue. Default 4.
    pub queue_packets: f64,
    /// The delay that counts as measurement noise and not as a queue. Default 250 microseconds.
    /// Where round-trip times spread more, up to four times as much counts.
    pub noise: Nanos,
    /// The largest velocity of the window's growth. Default 16.
    pub max_velocity: f64,
    /// The smallest window, in packets. Default 10.
    pub min_window: f64,
    /// The largest age of the minimum RTT before the queue is drained briefly to measure it again.
    /// Default 4 s.
    pub drain_after: Nanos,
    /// Delays up to the minimum RTT, and up to this, may turn out not to be a queue; delays up to
    /// 10 ms always may. Default 10 ms, and 50 ms with a guard.
    pub longest_noise: Nanos,
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
            guard: true,
        }
    }
}

impl Default for EpochConfig {
    fn default() -> Self {
        Self {
            initial: 16,
            min: 4,
            max: 1 << 14,
            overhead: 0.001,
            most_overhead: 0.001,
            feedback_wire: Bytes(94),
        }
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
            longest_noise: Nanos::from_millis(10),
        }
    }
}

/// The share of feedback that a guard makes safe where samples are rare.
const GUARDED_OVERHEAD: f64 = 0.01;
/// The longest delay that may turn out not to be a queue where a guard tests the path.
const GUARDED_NOISE: Nanos = Nanos::from_millis(50);

impl ControlConfig {
    /// Returns whether the bundle has a guard.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guard && self.controller.takes_guard(self.cross_traffic)
    }

    /// Returns the configuration in force. Without a guard it is this one; a guard makes more
    /// feedback safe, and longer delays that can prove to be no queue.
    pub(crate) fn in_force(mut self) -> Self {
        if self.is_guarded() {
            self.epoch.most_overhead = self.epoch.most_overhead.max(GUARDED_OVERHEAD);
            self.forebay.longest_noise = self.forebay.longest_noise.max(GUARDED_NOISE);
        }
        self
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Returns the first field that is out of range, and what to do about it.
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
            ("epoch.most_overhead", epoch.most_overhead, 1e-6, 1.0),
            ("epoch.feedback_wire", epoch.feedback_wire.as_f64(), 1.0, 65_535.0),
            ("forebay.queue_packets", forebay.queue_packets, 1.0, 1024.0),
            ("forebay.noise", forebay.noise.as_secs_f64(), 0.0, 0.1),
            ("forebay.max_velocity", forebay.max_velocity, 1.0, 1024.0),
            ("forebay.min_window", forebay.min_window, 1.0, 1024.0),
            ("forebay.longest_noise", forebay.longest_noise.as_secs_f64(), 0.0, 1.0),
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

/// A configuration that is invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// The rate bounds are zero or in the wrong order.
    RateBounds {
        /// The configured lowest rate.
        min: Rate,
        /// The configured highest rate.
        max: Rate,
    },
    /// The initial rate lies outside the bounds.
    InitialRate {
        /// The configured initial rate.
        rate: Rate,
        /// The configured lowest rate.
        min: Rate,
        /// The configured highest rate.
        max: Rate,
    },
    /// The tick is too short or too long for a loop that is meant to run every 10 ms.
    Tick {
        /// The configured tick.
        tick: Nanos,
    },
    /// An epoch size is not a power of two, or it is above 2^24.
    EpochSize {
        /// The configured epoch size.
        size: u32,
    },
    /// The epoch sizes are not in the order min, initial, max.
    EpochOrder,
    /// A number is outside its range.
    OutOfRange {
        /// The name of the field. Times are in seconds and lengths in bytes.
        name: &'static str,
        /// The configured value.
        value: f64,
        /// The smallest value allowed.
        least: f64,
        /// The largest value allowed.
        most: f64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateBounds { min, max } => write!(
                f,
                "min_rate {min} and max_rate {max}: set min_rate above zero and no higher than \
                 max_rate"
            ),
            Self::InitialRate { rate, min, max } => {
                write!(
                    f,
                    "initial_rate {rate}: set it between min_rate {min} and max_rate {max}, or \
                     leave it out"
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
    fn each_error_names_the_field_and_the_remedy() {
        let base = ControlConfig::default();
        let epoch = EpochConfig::default();
        let copa = CopaConfig::default();
        for (config, says) in [
            (
                ControlConfig { max_rate: Rate::from_bps(1), ..base },
                "min_rate 500.000 kbit/s and max_rate 1 bit/s: set min_rate above zero and no \
                 higher than max_rate",
            ),
            (
                ControlConfig { initial_rate: Some(Rate::ZERO), ..base },
                "initial_rate 0 bit/s: set it between min_rate 500.000 kbit/s and max_rate \
                 100000.000 Mbit/s, or leave it out",
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
