//! The table `[kafka]`: flow records that another collector relays.

use forebay_config::{ConfigError, Source, Spanned};
use forebay_plan::flows::relayed::Relay;
use serde::Deserialize;

use super::{File, MAX_ADDRESSES};

/// The most characters of a topic's name, as Kafka limits it.
const MAX_TOPIC: usize = 249;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KafkaTable {
    brokers: Spanned<Vec<Spanned<String>>>,
    topic: Spanned<String>,
    collector: Spanned<String>,
    start: Option<Start>,
}

/// Where reading of a topic begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// With messages that come after the start of the service.
    #[default]
    Latest,
    /// With the oldest message that the brokers have.
    Earliest,
}

/// How flow records are read from Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kafka {
    /// Some of the brokers: a host and a port each.
    pub brokers: Vec<String>,
    /// The name of the topic.
    pub topic: String,
    /// The collector that writes the messages.
    pub relay: Relay,
    /// Where reading begins.
    pub start: Start,
}

impl File {
    /// Reads the table `[kafka]`.
    pub(super) fn kafka(&self, source: &Source) -> Result<Option<Kafka>, ConfigError> {
        let Some(table) = &self.kafka else { return Ok(None) };
        if cfg!(not(feature = "kafka")) {
            let message = "this program was built without Kafka: build it with `--features kafka`";
            return Err(source.error_at(table.span(), "kafka", message));
        }
        if self.flows.is_none() {
            let message = "write [flows] with the table of exporters, whose records Kafka relays";
            return Err(source.error_at(table.span(), "kafka", message));
        }
        let table = table.get_ref();
        let mut brokers = Vec::new();
        for broker in table.brokers.get_ref() {
            let port = broker.get_ref().rsplit_once(':').and_then(|(host, port)| {
                (!host.is_empty()).then(|| port.parse::<u16>().ok())?.filter(|p| *p > 0)
            });
            if port.is_none() {
                let message = "write a host and a port, as in \"kafka1.example.net:9092\"";
                return Err(source.error_at(broker.span(), "kafka.brokers", message));
            }
            brokers.push(broker.get_ref().clone());
        }
        if brokers.is_empty() || brokers.len() > MAX_ADDRESSES {
            let message = format!("write 1 to {MAX_ADDRESSES} brokers");
            return Err(source.error_at(table.brokers.span(), "kafka.brokers", message));
        }
        let topic = table.topic.get_ref();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if topic.is_empty() || topic.len() > MAX_TOPIC || !topic.chars().all(allowed) {
            let message = "write a name of up to 249 letters, digits, `.`, `_` and `-`";
            return Err(source.error_at(table.topic.span(), "kafka.topic", message));
        }
        let relay = table.collector.get_ref().parse().map_err(|message: String| {
            source.error_at(table.collector.span(), "kafka.collector", message)
        })?;
        let start = table.start.unwrap_or_default();
        Ok(Some(Kafka { brokers, topic: topic.clone(), relay, start }))
    }
}
