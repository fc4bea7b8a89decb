//! An HTTP server for Prometheus. It is a process of its own, so that no request reaches a box.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay_web::token::Shown;
use forebay_web::{Answer, Hosts, Request, Service, Stop, listen, serve};

use crate::{metrics, read};

/// The time that the boxes have for their answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves the metrics of all boxes in this network namespace, until `stop`. Clients have to call
/// the exporter by one of `hosts`. `ready` is called with the address once it listens.
///
/// # Errors
/// If the address cannot be listened at.
pub fn run(
    address: SocketAddr,
    hosts: Hosts,
    stop: &Stop,
    ready: impl Fn(SocketAddr),
) -> io::Result<()> {
    let listeners = listen(&[address]).map_err(|(_, e)| e)?;
    listeners.iter().filter_map(|listener| listener.local_addr().ok()).for_each(ready);
    serve(Arc::new(Exporter), listeners, None, hosts, stop.receiver())
}

/// The metrics, for everyone who reaches the address.
#[derive(Debug)]
struct Exporter;

impl Service for Exporter {
    /// All clients share the bound of one.
    type Who = ();
    /// There is one route.
    type Route = ();

    fn find(&self, method: &str, path: &str) -> Result<&'static (), Answer> {
        match (method, path) {
            ("GET" | "HEAD", "/metrics") => Ok(&()),
            (_, "/metrics") => {
                Err(Answer::error(405, "method", None, "use GET").with("allow", "GET, HEAD"))
            }
            _ => Err(Answer::error(404, "not_found", None, "the metrics are at /metrics")),
        }
    }

    fn authenticate(&self, (): &(), _: &Shown) -> Result<Option<()>, Answer> {
        Ok(Some(()))
    }

    fn answer(&self, _request: &Request<'_, (), ()>) -> Answer {
        match read(ANSWER_TIMEOUT) {
            Ok(answers) => Answer::text(forebay_metrics::CONTENT_TYPE, metrics::text(&answers)),
            Err(e) => {
                let message = format!("the list of boxes cannot be read: {e}");
                Answer::error(503, "boxes", None, &message)
            }
        }
    }
}
