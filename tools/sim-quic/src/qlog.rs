//! Logs of connections in qlog.

use std::io::Write;

use quinn_proto::{QlogConfig, QlogStream};

use crate::clock::START;

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
