use std::sync::atomic::{AtomicU64, Ordering};

use forebay_units::Nanos;

use super::spec::Window;
use super::wait;
use crate::results::Progress;

/// The interval of progress records.
const INTERVAL: Nanos = Nanos::from_millis(100);

/// Counters of the bytes that flows receive, per interval.
pub(super) struct Meter(Vec<AtomicU64>);

impl Meter {
    /// Creates counters for `flows` flows.
    pub(super) fn new(flows: usize) -> Self {
        Self((0..flows).map(|_| AtomicU64::new(0)).collect())
    }

    /// The counter of one flow.
    pub(super) fn count(&self, flow: usize) -> &AtomicU64 {
        &self.0[flow]
    }

    /// The counters of all flows, to which the receivers add.
    pub(super) fn counts(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter()
    }

    /// Records the counters every 100 ms until the end of the window; the last interval may be
    /// shorter.
    pub(super) fn record(&self, traffic: &str, window: Window) -> Vec<Progress> {
        let mut progress = Vec::new();
        let mut time = window.begin;
        while time < window.end {
            time = time.saturating_add(INTERVAL).min(window.end);
            wait::sleep_until(time);
            progress.extend(self.0.iter().zip(0..).map(|(count, flow)| Progress {
                traffic: traffic.to_owned(),
                flow,
                time: time.0,
                bytes: count.swap(0, Ordering::Relaxed),
            }));
        }
        progress
    }
}
