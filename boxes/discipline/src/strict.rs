//! Strict priority of classes.

use forebay_queue::{Packet, Qdisc, StrictPriority};

use crate::specification::{BuildError, Specification, Terms};
use crate::{Key, Settings};

/// Classes of which a more urgent one always goes first, each with a discipline of its own.
pub(crate) struct Strict;

impl Specification for Strict {
    const NAME: &'static str = "strict";
    const BOTTLENECK: Option<&'static [Key]> = None;
    const CLASSFUL: bool = true;

    /// Fails: without classes there is nothing to build. Whoever knows the classes builds each of
    /// them and puts them together.
    fn build<P: Packet + 'static>(
        _settings: &Settings,
        _terms: Terms,
    ) -> Result<Box<dyn Qdisc<P>>, BuildError> {
        Ok(Box::new(StrictPriority::new(Vec::<Box<dyn Qdisc<P>>>::new())?))
    }

    fn capacity(_settings: &Settings) -> u32 {
        0
    }
}
