use std::sync::atomic::{AtomicU64, Ordering};

use forebay_units::Nanos;

use super::spec::Window;
use super::wait;
use crate::results::Progress;

/// How often progress is recorded.
const INTERVAL: Nanos = Nanos::from_millis(100);

/// Counts the bytes that flows receive, by interval.
pub(super) struct Meter(Vec<AtomicU64>);

impl Meter {
    /// For `flows` flows.
    pub(super) fn new(flows: usize) -> Self {
        Self((0..flows).map(|_| AtomicU64::new(0)).collect())
    }

    /// The count of one flow.
    pub(super) fn count(&self, flow: usize) -> &AtomicU64 {
        &self.0[flow]
    }

    /// Each flow's count, which its receiver adds to.
    pub(super) fn counts(&self) -> impl Iterator<Item = &AtomicU64> {
        self.0.iter()
    }

    /// Records what was counted every 100 ms until the end of the window; a last interval may be
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
