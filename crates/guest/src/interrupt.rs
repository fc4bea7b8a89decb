//! How a run is asked to end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The wish to end a run early, which a signal handler may express. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
    outer: Option<Arc<Self>>,
}

impl Interrupt {
    /// Asks the run to clean up and end.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked, here or of the interrupt that this is within.
    pub fn is_raised(&self) -> bool {
        let outer = self.outer.as_ref().is_some_and(|outer| outer.is_raised());
        outer || self.raised.load(Ordering::Relaxed)
    }

    /// One that is raised with this one, and whose own raising this one does not see: for a part of
    /// the work that may have to end by itself.
    #[must_use]
    pub fn within(&self) -> Self {
        Self { raised: Arc::default(), outer: Some(Arc::new(self.clone())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_interrupt_is_raised_with_the_outer_and_not_the_other_way() {
        let outer = Interrupt::default();
        let (one, two) = (outer.within(), outer.within());
        one.raise();
        assert!(one.within().is_raised() && !two.is_raised() && !outer.is_raised());
        outer.clone().raise();
        assert!(two.within().is_raised());
    }
}
