//! Classes with weights, guaranteed rates and ceilings.

use forebay_queue::{Packet, Qdisc, Weighted as WeightedClasses};

use crate::specification::{BuildError, Specification, Terms};
use crate::{Key, Settings};

/// Classes that share the rate by weight and by guaranteed rates, each with a discipline of its
/// own.
pub(crate) struct Weighted;

impl Specification for Weighted {
    const NAME: &'static str = "weighted";
    const BOTTLENECK: Option<&'static [Key]> = None;
    const CLASSFUL: bool = true;

    /// Fails, as strict priority does: without classes there is nothing to build.
    fn build<P: Packet + 'static>(
        _settings: &Settings,
        _terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        Ok(Box::new(WeightedClasses::<P>::new(Vec::new())?))
    }

    fn capacity(_settings: &Settings) -> u32 {
        0
    }
}
