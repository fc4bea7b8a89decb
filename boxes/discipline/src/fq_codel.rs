//! Flow queueing with CoDel (RFC 8290).

use forebay_queue::{Packet, Qdisc, fq_codel};
use forebay_tc as tc;
use forebay_units::Rate;

use crate::codel;
use crate::limit::{in_packets, time_as_bytes};
use crate::specification::{BuildError, EcnUse, Specification, Terms, WrongSetting};
use crate::{Key, Settings};

/// FQ-CoDel, which hashes flows into queues and runs CoDel on each queue.
pub(crate) struct FqCodel;

impl Specification for FqCodel {
    const NAME: &'static str = "fq_codel";
    const POLICY: Option<&'static [Key]> = Some(&[Key::Target, Key::Interval, Key::Ecn]);
    const BOTTLENECK: Option<&'static [Key]> =
        Some(&[Key::Target, Key::Interval, Key::L4sThreshold]);
    const IN_TC: bool = true;
    const ECN: EcnUse = EcnUse::Optional { by_default: true };

    fn build<P: Packet + 'static>(
        settings: &Settings,
        terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        let defaults = fq_codel::Config::default();
        Ok(Box::new(forebay_queue::FqCodel::new(fq_codel::Config {
            limit: Self::capacity(settings),
            codel: codel::params(settings, defaults.codel),
            seed: terms.seed.unwrap_or(defaults.seed),
            ..defaults
        })?))
    }

    fn capacity(settings: &Settings) -> u32 {
        settings.limit.map_or(fq_codel::Config::default().limit, in_packets)
    }

    fn at_rate(settings: &Settings, rate: Rate) -> Settings {
        Settings { limit: time_as_bytes(settings.limit, rate), ..*settings }
    }

    fn check(settings: &Settings) -> Result<(), WrongSetting> {
        codel::check(settings)
    }

    fn resolve(settings: &Settings) -> Settings {
        codel::resolve(settings)
    }

    fn to_tc(settings: &Settings) -> Option<tc::Discipline> {
        let Settings { target, interval, ecn, .. } = *settings;
        let (limit, ecn) = (Self::capacity(settings), ecn.unwrap_or(true));
        Some(tc::Discipline::FqCodel { limit, target, interval, ecn })
    }

    fn tc_arguments(settings: &Settings, _rate: Rate) -> Option<String> {
        let (limit, codel) = (Self::capacity(settings), codel::tc_arguments(settings));
        Some(format!("fq_codel limit {limit} flows 1024 quantum 1514 {codel}"))
    }
}
