//! Simulated time as `quinn-proto` expects it.

use std::io::Write;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use forebay_units::Nanos;
use quinn_proto::{QlogConfig, QlogStream};

/// The instant that stands for the start of every simulation. Only differences matter.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the instant that stands for a simulated time.
pub fn instant(time: Nanos) -> Instant {
    *START + Duration::from_nanos(time.0)
}

/// Returns the simulated time for which an instant stands.
pub(crate) fn simulated(instant: Instant) -> Nanos {
    let since = instant.saturating_duration_since(*START);
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Returns a stream for [`quinn_proto::TransportConfig::qlog_stream`] that writes a qlog of
/// connections in simulated time, as a JSON text sequence (`.sqlog`).
///
/// `None` means that the head of the log could not be written. Later events that cannot be written
/// are missing from the log.
pub fn qlog(title: &str, writer: impl Write + Send + Sync + 'static) -> Option<QlogStream> {
    let mut config = QlogConfig::default();
    config.writer(Box::new(writer)).title(Some(title.to_owned())).start_time(*START);
    config.into_stream()
}
