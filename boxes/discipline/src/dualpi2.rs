//! The dual queue coupled AQM (RFC 9332).

use forebay_config::Limit as LimitValue;
use forebay_queue::dualpi2::{self, Base, BurstLimit, CurvyRed};
use forebay_queue::{ConfigError, Packet, Qdisc, pi2};
use forebay_tc as tc;
use forebay_units::{Nanos, Rate};

use crate::limit::{MAX_BUFFERED_PACKETS, in_packets, time_as_bytes};
use crate::specification::{
    BuildError, EcnUse, Specification, Terms, WrongSetting, at_most_a_minute,
};
use crate::{BaseAqm, Burst, Discipline, Key, Kind, Profile, Settings};

/// A shallow queue for L4S traffic beside one for classic traffic, coupled.
pub(crate) struct DualPi2;

impl Specification for DualPi2 {
    const NAME: &'static str = "dualpi2";
    const POLICY: Option<&'static [Key]> = Some(&[
        Key::Target,
        Key::Base,
        Key::Range,
        Key::MinThreshold,
        Key::Profile,
        Key::Coupling,
        Key::QueueProtection,
        Key::L4sBurst,
    ]);
    const BOTTLENECK: Option<&'static [Key]> = Some(&[
        Key::Target,
        Key::Base,
        Key::Range,
        Key::MinThreshold,
        Key::Profile,
        Key::Coupling,
        Key::L4sBurst,
    ]);
    const USER_SPACE_KEYS: &'static [(Key, &'static str)] = &[
        (Key::Base, "the kernel's base AQM is PI2"),
        (Key::Range, "the kernel's base AQM is PI2"),
        (Key::MinThreshold, "the kernel's base AQM is PI2"),
        (Key::Profile, "the kernel's has one set of parameters"),
        (Key::Coupling, "the kernel's has its own"),
        (Key::QueueProtection, "the kernel's has no such setting"),
        (Key::L4sBurst, "the kernel's has no such setting"),
    ];
    const ECN: EcnUse = EcnUse::Always;

    fn build<P: Packet + 'static>(
        settings: &Settings,
        terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        Ok(Box::new(forebay_queue::DualPi2::new(config(settings, terms.seed))?))
    }

    fn capacity(settings: &Settings) -> u32 {
        config(settings, None).limit
    }

    fn at_rate(settings: &Settings, rate: Rate) -> Settings {
        // RFC 9332 Figure 2, line 5.
        let limit = settings.limit.or(Some(LimitValue::Time(Nanos::from_millis(250))));
        let l4s_burst = settings.l4s_burst.map(|burst| Burst { rate: Some(rate), ..burst });
        Settings { limit: time_as_bytes(limit, rate), l4s_burst, ..*settings }
    }

    fn check(settings: &Settings) -> Result<(), WrongSetting> {
        at_most_a_minute(Key::Target, settings.target)?;
        at_most_a_minute(Key::Range, settings.range)?;
        at_most_a_minute(Key::MinThreshold, settings.min_threshold)?;
        let base = settings.base.unwrap_or_default();
        for (key, given, with) in [
            (Key::Target, settings.target, BaseAqm::Pi2),
            (Key::Range, settings.range, BaseAqm::CurvyRed),
            (Key::MinThreshold, settings.min_threshold, BaseAqm::CurvyRed),
        ] {
            if given.is_some() && base != with {
                return Err(WrongSetting::new(key, format!("goes with base = \"{with}\"")));
            }
        }
        at_most_a_minute(Key::L4sBurst, settings.l4s_burst.map(|burst| burst.time))?;
        let (least, most) = pi2::COUPLINGS;
        match settings.coupling {
            Some(coupling) if !(least..=most).contains(&coupling) => {
                Err(WrongSetting::new(Key::Coupling, format!("must be from {least} to {most}")))
            }
            _ => Ok(()),
        }
    }

    fn resolve(settings: &Settings) -> Settings {
        let profile = Some(settings.profile.unwrap_or_default());
        let settings = Settings { profile, ..*settings };
        match config(&settings, None).base {
            Base::Pi2(params) => Settings { target: Some(params.target), ..settings },
            Base::CurvyRed(CurvyRed { range, min_threshold, .. }) => {
                Settings { range: Some(range), min_threshold: Some(min_threshold), ..settings }
            }
        }
    }

    fn to_tc(settings: &Settings) -> Option<tc::Discipline> {
        let limit = Some(Self::capacity(settings));
        Some(tc::Discipline::DualPi2 { limit, target: settings.target })
    }
}

/// The parameters of a profile.
fn defaults(profile: Option<Profile>) -> dualpi2::Config {
    match profile.unwrap_or_default() {
        Profile::Rfc => dualpi2::Config::rfc9332(),
        Profile::Paper => dualpi2::Config::paper(),
        Profile::Linux => dualpi2::Config::linux(),
    }
}

/// The queue's own configuration with these settings.
fn config(settings: &Settings, seed: Option<u64>) -> dualpi2::Config {
    let mut config = defaults(settings.profile);
    match settings.limit {
        Some(LimitValue::Bytes(bytes)) => {
            config.limit = MAX_BUFFERED_PACKETS;
            config.bytes = Some(bytes);
        }
        Some(limit) => config.limit = in_packets(limit),
        None => {}
    }
    config.base = match (settings.base.unwrap_or_default(), config.base) {
        (BaseAqm::Pi2, Base::Pi2(params)) => {
            Base::Pi2(pi2::Params { target: settings.target.unwrap_or(params.target), ..params })
        }
        (BaseAqm::Pi2, other) => other,
        (BaseAqm::CurvyRed, _) => {
            let CurvyRed { weight, min_threshold, range } = CurvyRed::default();
            Base::CurvyRed(CurvyRed {
                weight,
                min_threshold: settings.min_threshold.unwrap_or(min_threshold),
                range: settings.range.unwrap_or(range),
            })
        }
    };
    config.coupling = settings.coupling.unwrap_or(config.coupling);
    config.queue_protection = settings.queue_protection.unwrap_or(config.queue_protection);
    if let Some(Burst { time, rate: Some(rate) }) = settings.l4s_burst {
        config.bursts = Some(BurstLimit { rate, burst: time });
    }
    config.seed = seed.unwrap_or(config.seed);
    config
}

/// The classes whose packets go to one of the queues, whatever their ECN field says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// The class of packets for the L queue.
    pub low_latency: Option<u8>,
    /// The class of packets for the C queue.
    pub classic: Option<u8>,
}

impl Discipline {
    /// Returns the longest queue delay that DualPI2 needs to see; `None` for any other discipline.
    ///
    /// It is twice the target with PI2. With Curvy RED it is the delay at which every L4S packet is
    /// marked. Where packets wait elsewhere once the queue holds less than this, the signals never
    /// become strong enough that senders slow down.
    pub fn controlled_delay(&self) -> Option<Nanos> {
        let dualpi2::Config { base, coupling, .. } = config(&self.settings, None);
        let delay = match base {
            Base::Pi2(params) => params.target * 2,
            Base::CurvyRed(red) => {
                red.min_threshold + Nanos((red.range.0 as f64 / coupling) as u64)
            }
        };
        (self.kind == Kind::DualPi2).then_some(delay)
    }

    /// Builds DualPI2 as its own type, for its statistics and with `classes` of its packets; `None`
    /// for any other discipline.
    ///
    /// # Errors
    /// As [`Discipline::build`].
    pub fn build_dualpi2<P: Packet>(
        &self,
        seed: u64,
        classes: Classes,
    ) -> Option<Result<forebay_queue::DualPi2<P>, ConfigError>> {
        if self.kind != Kind::DualPi2 {
            return None;
        }
        Some(forebay_queue::DualPi2::new(dualpi2::Config {
            low_latency_class: classes.low_latency,
            classic_class: classes.classic,
            ..config(&self.settings, Some(seed))
        }))
    }
}
