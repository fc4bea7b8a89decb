//! Asking for a bundle's memory before its tick, for who ticks many of them.

use core::mem::offset_of;

use forebay_prefetch::{prefetch, prefetch_first};

use super::ControlLoop;
use crate::min_rtt::MinRtt;

/// What a bundle points to is asked for so many ticks ahead, and the bundle itself, in which it stands
/// where that is, twice as many.
const AHEAD: usize = 2;

/// How much of a bundle a tick needs where nothing is amiss, in bytes from its start.
const NEEDED: usize = offset_of!(ControlLoop, min_rtt) + MinRtt::NEEDED;

impl ControlLoop {
    /// Where many bundles are ticked in turn, number `index` next: asks for the memory that the ticks
    /// after it need, so that it comes while others are computed. `bundle` gives a bundle by its number,
    /// `None` past the last.
    ///
    /// Nothing is changed. Without it every tick waits for memory.
    pub fn prefetch_after<'a>(index: usize, bundle: impl Fn(usize) -> Option<&'a Self>) {
        if let Some(bundle) = bundle(index + 2 * AHEAD) {
            prefetch_first(bundle, NEEDED);
        }
        if let Some(bundle) = bundle(index + AHEAD) {
            prefetch(&*bundle.controller);
            bundle.traffic.prefetch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ControlConfig, ControllerKind};
    use forebay_units::{Bytes, Nanos};
    use std::vec::Vec;

    #[test]
    fn what_a_tick_needs_of_a_bundle_is_few_lines() {
        assert_eq!(align_of::<ControlLoop>(), 64);
        const { assert!(NEEDED <= 16 * 64) };
    }

    #[test]
    fn asking_ahead_ends_with_the_last_bundle_and_changes_nothing() {
        for controller in ControllerKind::ALL {
            let config = ControlConfig { controller, ..ControlConfig::default() };
            let new = |_| ControlLoop::new(config, Nanos::ZERO).unwrap();
            let mut bundles: Vec<_> = (0..5).map(new).collect();
            for tick in 1..10 {
                let before = std::format!("{bundles:?}");
                for index in 0..bundles.len() {
                    ControlLoop::prefetch_after(index, |index| bundles.get(index));
                }
                assert_eq!(std::format!("{bundles:?}"), before);
                for bundle in &mut bundles {
                    let now = Nanos::from_millis(10 * tick);
                    bundle.on_sent(now, Bytes(1500), Some(0));
                    bundle.on_tick(now, Bytes::ZERO);
                }
            }
        }
    }
}
