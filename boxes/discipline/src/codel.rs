//! CoDel on one queue (RFC 8289), and the functions that it shares with `fq_codel`.

use forebay_queue::{Limit, Packet, Qdisc, codel};
use forebay_units::Rate;

use crate::limit::{in_packets, micros};
use crate::specification::{BuildError, EcnUse, Specification, Terms, WrongSetting};
use crate::{Key, Settings};

/// One queue, kept short by CoDel's control law.
pub(crate) struct Codel;

impl Specification for Codel {
    const NAME: &'static str = "codel";
    const POLICY: Option<&'static [Key]> = None;
    const BOTTLENECK: Option<&'static [Key]> =
        Some(&[Key::Target, Key::Interval, Key::L4sThreshold]);
    const IN_TC: bool = true;
    const ECN: EcnUse = EcnUse::Optional { by_default: false };

    fn build<P: Packet + 'static>(
        settings: &Settings,
        _terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        let limit = Limit::packets(Self::capacity(settings));
        let params = params(settings, codel::Params::default());
        Ok(Box::new(forebay_queue::Codel::new(codel::Config { limit, params })?))
    }

    fn capacity(settings: &Settings) -> u32 {
        settings.limit.map_or(Limit::default().packets, in_packets)
    }

    fn check(settings: &Settings) -> Result<(), WrongSetting> {
        check(settings)
    }

    fn resolve(settings: &Settings) -> Settings {
        resolve(settings)
    }

    fn tc_arguments(settings: &Settings, _rate: Rate) -> Option<String> {
        Some(format!("codel limit {} {}", Self::capacity(settings), tc_arguments(settings)))
    }
}

/// CoDel's parameters with these settings; a box's policy marks unless it is told otherwise.
pub(crate) fn params(settings: &Settings, defaults: codel::Params) -> codel::Params {
    codel::Params {
        target: settings.target.unwrap_or(defaults.target),
        interval: settings.interval.unwrap_or(defaults.interval),
        ecn: settings.ecn.unwrap_or(true),
        l4s_threshold: settings.l4s_threshold,
        ..defaults
    }
}

/// Refuses an interval above four seconds, and a target above the interval.
pub(crate) fn check(settings: &Settings) -> Result<(), WrongSetting> {
    let defaults = codel::Params::default();
    let interval = settings.interval.unwrap_or(defaults.interval);
    let above = settings.target.unwrap_or(defaults.target) > interval;
    if settings.target.is_some() && above {
        return Err(WrongSetting::new(Key::Target, "the target is above the interval"));
    }
    if interval > codel::Params::MAX_INTERVAL {
        return Err(WrongSetting::new(Key::Interval, "must be at most 4 s"));
    }
    if above {
        return Err(WrongSetting::new(Key::Interval, "the target is above the interval"));
    }
    Ok(())
}

/// The settings with CoDel's own target and interval in place of what is left out.
pub(crate) fn resolve(settings: &Settings) -> Settings {
    let codel::Params { target, interval, .. } = codel::Params::default();
    Settings {
        target: Some(settings.target.unwrap_or(target)),
        interval: Some(settings.interval.unwrap_or(interval)),
        ..*settings
    }
}

/// Returns the arguments of `tc` for CoDel's settings.
pub(crate) fn tc_arguments(settings: &Settings) -> String {
    let ecn = if settings.ecn == Some(true) { "ecn" } else { "noecn" };
    let (target, interval) = (micros(settings.target), micros(settings.interval));
    format!("target {target}us interval {interval}us {ecn}")
}
