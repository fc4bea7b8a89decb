//! PIE on one queue (RFC 8033).

use forebay_queue::{Packet, Qdisc, pie};
use forebay_tc as tc;
use forebay_units::{Nanos, Rate};

use crate::limit::{MAX_BUFFERED_PACKETS, micros, of_one_queue};
use crate::specification::{BuildError, EcnUse, Specification, Terms};
use crate::{Key, Profile, Settings};

/// One queue held at a target delay by random drops.
pub(crate) struct Pie;

impl Specification for Pie {
    const NAME: &'static str = "pie";
    const POLICY: Option<&'static [Key]> = Some(&[Key::Target, Key::Ecn]);
    const BOTTLENECK: Option<&'static [Key]> = Some(&[Key::Target, Key::Profile]);
    const IN_TC: bool = true;
    const ECN: EcnUse = EcnUse::Optional { by_default: false };

    fn build<P: Packet + 'static>(
        settings: &Settings,
        terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        let defaults = params(settings.profile);
        let params = pie::Params {
            target: settings.target.unwrap_or(defaults.target),
            tupdate: settings.tupdate.unwrap_or(defaults.tupdate),
            // A box's policy marks unless it is told otherwise.
            ecn: settings.ecn.unwrap_or(true),
            ..defaults
        };
        let limit = of_one_queue(settings.limit, terms.most_packets);
        let seed = terms.seed.unwrap_or(pie::Config::default().seed);
        Ok(Box::new(forebay_queue::Pie::new(pie::Config { limit, params, seed })?))
    }

    fn capacity(settings: &Settings) -> u32 {
        of_one_queue(settings.limit, MAX_BUFFERED_PACKETS).packets
    }

    fn resolve(settings: &Settings) -> Settings {
        let pie::Params { target, tupdate, .. } = params(settings.profile);
        Settings {
            target: Some(settings.target.unwrap_or(target)),
            tupdate: Some(tupdate),
            profile: Some(settings.profile.unwrap_or_default()),
            ..*settings
        }
    }

    fn to_tc(settings: &Settings) -> Option<tc::Discipline> {
        let limit = Self::capacity(settings);
        let (target, ecn) = (settings.target, settings.ecn.unwrap_or(true));
        Some(tc::Discipline::Pie { limit, target, ecn })
    }

    fn tc_arguments(settings: &Settings, _rate: Rate) -> Option<String> {
        let (target, tupdate) = (micros(settings.target), micros(settings.tupdate));
        let ecn = if settings.ecn == Some(true) { "ecn" } else { "noecn" };
        let limit = Self::capacity(settings);
        Some(format!("pie limit {limit} target {target}us tupdate {tupdate}us {ecn}"))
    }
}

/// PIE's parameters of a profile. Linux has the RFC's.
fn params(profile: Option<Profile>) -> pie::Params {
    match profile.unwrap_or_default() {
        Profile::Rfc | Profile::Linux => pie::Params::default(),
        // De Schepper et al., 2017, Table 1.
        Profile::Paper => pie::Params {
            tupdate: Nanos::from_millis(16),
            alpha: 1.0 / 16.0,
            beta: 10.0 / 16.0,
            burst_allowance: Nanos::from_millis(100),
            mark_threshold: 0.25,
            ..pie::Params::default()
        },
    }
}
