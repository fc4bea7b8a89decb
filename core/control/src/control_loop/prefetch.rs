//! Prefetching of a bundle's memory, for callers that tick many bundles in turn.

use core::mem::offset_of;

use forebay_prefetch::{prefetch, prefetch_first};

use super::ControlLoop;
use super::guard::Guard;
use crate::min_rtt::MinRtt;

/// Number of ticks between the prefetch and the use of what a bundle points to. The bundle itself,
/// which holds these pointers, is prefetched twice as many ticks ahead.
const AHEAD: usize = 2;

/// Number of bytes at the start of a bundle that a normal tick uses.
const NEEDED: usize = offset_of!(ControlLoop, min_rtt) + MinRtt::NEEDED;

impl ControlLoop {
    /// Prefetches the memory that the ticks after number `index` use, while others are computed.
    ///
    /// Call it before ticking bundle `index` of many. `bundle` returns a bundle by its number and
    /// `None` past the last. This changes no state; without it every tick waits for memory.
    pub fn prefetch_after<'a>(index: usize, bundle: impl Fn(usize) -> Option<&'a Self>) {
        if let Some(bundle) = bundle(index + 2 * AHEAD) {
            prefetch_first(bundle, NEEDED);
        }
        if let Some(bundle) = bundle(index + AHEAD) {
            prefetch(&*bundle.controller);
            bundle.traffic.prefetch();
            if let Some(guard) = &bundle.guard {
                prefetch_first(&**guard, Guard::NEEDED);
            }
            if let Some(cross) = &bundle.cross {
                prefetch(cross);
            }
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
    fn a_tick_touches_few_cache_lines_of_a_bundle() {
        assert_eq!(align_of::<ControlLoop>(), 64);
        const { assert!(NEEDED <= 16 * 64) };
    }

    #[test]
    fn prefetching_stops_at_the_last_bundle_and_changes_nothing() {
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
                    bundle.on_sent(now, Bytes(1500), Some(0), None);
                    bundle.on_tick(now, Bytes::ZERO);
                }
            }
        }
    }
}
