use alloc::boxed::Box;
use core::fmt;

use crate::config::BundleConfig;
use crate::controller::RateController;
use crate::copa::Copa;
use crate::forebay::Forebay;

/// The rate controllers that there are, by the names that configurations give them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum ControllerKind {
    /// [`Forebay`].
    #[default]
    Forebay,
    /// [`Copa`].
    Copa,
}

impl ControllerKind {
    /// Each once.
    pub const ALL: [Self; 2] = [Self::Forebay, Self::Copa];

    /// Its name in configurations, status and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forebay => "forebay",
            Self::Copa => "copa",
        }
    }

    /// A new controller of this kind, with its parameters in `config`.
    pub(crate) fn build(self, config: &BundleConfig) -> Box<dyn RateController> {
        let BundleConfig { min_rate, max_rate, forebay, copa, .. } = *config;
        match self {
            Self::Forebay => Box::new(Forebay::new(forebay, min_rate, max_rate)),
            Self::Copa => Box::new(Copa::new(copa, min_rate, max_rate)),
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
    fn each_kind_builds_the_controller_of_its_name() {
        for kind in ControllerKind::ALL {
            assert_eq!(kind.build(&BundleConfig::default()).name(), kind.name());
        }
        assert_eq!(std::format!("{}", ControllerKind::default()), "forebay");
    }
}
