//! The discipline PI2 on one queue.

use forebay_queue::{Limit, Packet, Qdisc, pi2};

use crate::limit::in_packets;
use crate::specification::{BuildError, EcnUse, Specification, Terms};
use crate::{Key, Settings};

/// One queue held at a target delay, L4S and classic traffic coupled.
pub(crate) struct Pi2;

impl Specification for Pi2 {
    const NAME: &'static str = "pi2";
    const POLICY: Option<&'static [Key]> = None;
    const BOTTLENECK: Option<&'static [Key]> = Some(&[Key::Target]);
    const ECN: EcnUse = EcnUse::Always;

    fn build<P: Packet + 'static>(
        settings: &Settings,
        terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        let defaults = pi2::Config::default();
        Ok(Box::new(forebay_queue::Pi2::new(pi2::Config {
            limit: Limit::packets(Self::capacity(settings)),
            params: pi2::Params {
                target: settings.target.unwrap_or(defaults.params.target),
                ..defaults.params
            },
            seed: terms.seed.unwrap_or(defaults.seed),
            ..defaults
        })?))
    }

    fn capacity(settings: &Settings) -> u32 {
        settings.limit.map_or(Limit::default().packets, in_packets)
    }

    fn resolve(settings: &Settings) -> Settings {
        let target = settings.target.unwrap_or(pi2::Params::default().target);
        Settings { target: Some(target), ..*settings }
    }
}
