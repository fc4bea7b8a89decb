use alloc::boxed::Box;
use core::fmt;

use crate::basic_delay::BasicDelay;
use crate::bbr::Bbr;
use crate::config::{ControlConfig, Detection};
use crate::controller::RateController;
use crate::copa::Copa;
use crate::forebay::Forebay;

/// The rate controllers, with their names in configurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum ControllerKind {
    /// Forebay's own controller, [`Forebay`].
    #[default]
    Forebay,
    /// Copa as Bundler ran it, [`Copa`].
    Copa,
    /// The delay control of Nimbus, [`BasicDelay`].
    BasicDelay,
    /// BBR for an aggregate, [`Bbr`].
    Bbr,
}

impl ControllerKind {
    /// Every kind once.
    pub const ALL: [Self; 4] = [Self::Forebay, Self::Copa, Self::BasicDelay, Self::Bbr];

    /// Returns the name in configurations, status and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forebay => "forebay",
            Self::Copa => "copa",
            Self::BasicDelay => "basic_delay",
            Self::Bbr => "bbr",
        }
    }

    /// Returns whether a bundle with this controller, and this detection of elastic cross traffic,
    /// can have a guard: only what is not published can.
    pub fn takes_guard(self, cross_traffic: Detection) -> bool {
        self == Self::Forebay && cross_traffic == Detection::Ignore
    }

    /// Creates a controller of this kind with its parameters in `config`.
    pub(crate) fn build(self, config: &ControlConfig) -> Box<dyn RateController> {
        let (least, most) = (config.min_rate, config.max_rate);
        match self {
            Self::Forebay => Box::new(Forebay::new(config.forebay, least, most)),
            Self::Copa => Box::new(Copa::new(config.copa, least, most)),
            Self::BasicDelay => Box::new(BasicDelay::new(config.basic_delay, least, most)),
            Self::Bbr => Box::new(Bbr::new(config.bbr, least, most)),
        }
    }
}

impl fmt::Display for ControllerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_builds_the_controller_with_its_name() {
        for kind in ControllerKind::ALL {
            assert_eq!(kind.build(&ControlConfig::default()).name(), kind.name());
        }
        assert_eq!(std::format!("{}", ControllerKind::default()), "forebay");
    }
}
