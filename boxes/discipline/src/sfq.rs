//! Stochastic fairness queueing.

use forebay_queue::{Packet, Qdisc, sfq};
use forebay_tc as tc;
use forebay_units::Rate;

use crate::limit::{in_packets, time_as_bytes};
use crate::specification::{BuildError, Specification, Terms};
use crate::{Key, Settings};

/// SFQ, which hashes flows into queues and serves these in turn.
pub(crate) struct Sfq;

/// Packets of one flow that the kernel's SFQ can hold (`SFQ_MAX_DEPTH`).
const KERNEL_DEPTH: u32 = 127;

impl Specification for Sfq {
    const NAME: &'static str = "sfq";
    const POLICY: Option<&'static [Key]> = Some(&[Key::Perturb]);
    const IN_TC: bool = true;

    fn build<P: Packet + 'static>(
        settings: &Settings,
        terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        let defaults = sfq::Config::default();
        let limit = Self::capacity(settings);
        Ok(Box::new(forebay_queue::Sfq::new(sfq::Config {
            limit,
            depth: limit,
            perturb: settings.perturb.or(defaults.perturb),
            seed: terms.seed.unwrap_or(defaults.seed),
            ..defaults
        })?))
    }

    fn capacity(settings: &Settings) -> u32 {
        settings.limit.map_or(sfq::Config::default().limit, in_packets)
    }

    fn at_rate(settings: &Settings, rate: Rate) -> Settings {
        Settings { limit: time_as_bytes(settings.limit, rate), ..*settings }
    }

    fn to_tc(settings: &Settings) -> Option<tc::Discipline> {
        let perturb = settings.perturb.or(sfq::Config::default().perturb);
        Some(tc::Discipline::Sfq { limit: Self::capacity(settings), perturb })
    }

    fn tc_arguments(settings: &Settings, _rate: Rate) -> Option<String> {
        let limit = Self::capacity(settings);
        let depth = limit.min(KERNEL_DEPTH);
        Some(format!(
            "sfq limit {limit} depth {depth} flows 1024 divisor 1024 quantum 1514 perturb 10"
        ))
    }
}
