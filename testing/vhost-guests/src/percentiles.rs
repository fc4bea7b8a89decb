//! Exact percentiles of measured samples.

use serde_json::{Value, json};

/// Computes percentiles in milliseconds, by nearest rank, of samples in nanoseconds.
pub(crate) fn of(mut samples: Vec<u64>) -> Value {
    samples.sort_unstable();
    let at = |share: f64| {
        let rank = (samples.len() as f64 * share).ceil() as usize;
        samples.get(rank.max(1) - 1).map(|ns| *ns as f64 / 1e6)
    };
    json!({
        "count": samples.len(),
        "p50": at(0.5),
        "p99": at(0.99),
        "p999": at(0.999),
        "p9999": at(0.9999),
        "max": at(1.0),
    })
}
