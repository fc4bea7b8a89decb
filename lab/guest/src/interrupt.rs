//! A request to end a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to end a run early, for example by a signal handler. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
    outer: Option<Arc<Self>>,
}

impl Interrupt {
    /// Requests that the run cleans up and ends.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Whether an end was requested, on this interrupt or on the outer one.
    pub fn is_raised(&self) -> bool {
        let outer = self.outer.as_ref().is_some_and(|outer| outer.is_raised());
        outer || self.raised.load(Ordering::Relaxed)
    }

    /// Creates an inner interrupt, which is raised with this one but does not raise it: for a part
    /// of the work that may have to end alone.
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
