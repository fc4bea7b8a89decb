//! An HTTP server for Prometheus. It is a process of its own, so that no request reaches a box.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::{metrics, read};

/// The time that the boxes have for their answers.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time limit for the headers of a request, and for the start of the next one.
const HEADERS: Duration = Duration::from_secs(60);
/// The longest life of a connection.
const LIFE: Duration = Duration::from_secs(3600);
/// The most connections at a time; others wait.
const MOST: usize = 16;
/// The most bytes of all headers of a request.
const HEADER_BYTES: usize = 16 * 1024;

/// Serves the metrics of all boxes in this network namespace, until the process ends. `ready` is
/// called with the address once it listens.
///
/// # Errors
/// If the address cannot be listened at.
pub fn run(listen: SocketAddr, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        ready(listener.local_addr()?);
        let slots = Arc::new(Semaphore::new(MOST));
        loop {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return Ok(()) };
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(async move {
                        // The end of its life and errors are the client's concern.
                        let _ = timeout(LIFE, talk(stream)).await;
                        drop(slot);
                    });
                }
                // For example too many open files: the next one may work.
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    })
}

async fn talk(stream: TcpStream) -> hyper::Result<()> {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let plain = |status, text: &'static str| {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    if request.uri().path() != "/metrics" {
        return Ok(plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n"));
    }
    let text = spawn_blocking(|| read(PATIENCE).map(|answers| metrics::text(&answers))).await;
    let Ok(Ok(text)) = text else {
        let text = "the list of boxes cannot be read\n";
        return Ok(plain(StatusCode::INTERNAL_SERVER_ERROR, text));
    };
    let mut response = Response::new(Full::from(text));
    let kind = HeaderValue::from_static(forebay_metrics::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
