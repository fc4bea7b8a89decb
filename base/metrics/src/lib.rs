//! Metrics in Prometheus' text format, of values that are known when they are asked for.
//!
//! [`Families`] collects the metrics of one answer. Whole numbers are written without a fraction.

#![forbid(unsafe_code)]

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// The media type of the text.
pub use prometheus_text::CONTENT_TYPE;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count that only rises while the process runs.
    Counter,
    /// A value that rises and falls.
    Gauge,
}

impl From<Kind> for MetricType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Counter => Self::Counter,
            Kind::Gauge => Self::Gauge,
        }
    }
}

/// One time series and its value.
#[derive(Debug)]
pub struct Sample {
    labels: Vec<(&'static str, String)>,
    value: f64,
}

/// Makes a series with these labels.
pub fn sample(labels: &[(&'static str, &str)], value: f64) -> Sample {
    let labels = labels.iter().map(|(key, text)| (*key, (*text).to_owned()));
    Sample { labels: labels.collect(), value }
}

impl Sample {
    fn encode(&self, kind: Kind, encoder: MetricEncoder<'_>) -> fmt::Result {
        // Whole numbers are written without a fraction.
        let whole = (self.value.fract() == 0.0 && (0.0..2f64.powi(53)).contains(&self.value))
            .then_some(self.value as u64);
        match (kind, whole) {
            (Kind::Counter, Some(value)) => ConstCounter::new(value).encode(encoder),
            (Kind::Counter, None) => ConstCounter::new(self.value).encode(encoder),
            (_, Some(value)) => ConstGauge::new(value).encode(encoder),
            (_, None) => ConstGauge::new(self.value).encode(encoder),
        }
    }
}

/// All series of one metric.
#[derive(Debug)]
struct Family {
    kind: Kind,
    /// The name without the prefix, and for counters without the suffix `_total`.
    name: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

/// The metrics of one answer, in the order in which they are shown.
#[derive(Debug)]
pub struct Families {
    prefix: &'static str,
    all: Vec<Family>,
}

impl Families {
    /// Makes an empty answer. The names of its metrics begin with `prefix`.
    pub const fn new(prefix: &'static str) -> Self {
        Self { prefix, all: Vec::new() }
    }

    /// Adds a metric with all its series. A metric without series is shown with its help.
    pub fn add(
        &mut self,
        kind: Kind,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        self.all.push(Family { kind, name, help, samples: samples.into_iter().collect() });
    }

    /// Adds a metric with one series, which has no labels.
    pub fn one(&mut self, kind: Kind, name: &'static str, help: &'static str, value: f64) {
        self.add(kind, name, help, [sample(&[], value)]);
    }
}

impl Families {
    /// Returns all metrics as text of the type [`CONTENT_TYPE`].
    pub fn text(self) -> String {
        let mut registry = Registry::with_prefix(self.prefix);
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_text::encode(&mut out, &registry);
        out
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.all {
            let mut metric =
                encoder.encode_descriptor(family.name, family.help, None, family.kind.into())?;
            for sample in &family.samples {
                sample.encode(family.kind, metric.encode_family(&sample.labels)?)?;
            }
        }
        Ok(())
    }
}
