//! Serves the requests of one connection.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::body::Answered;
use super::slots::{Admitted, Slot};
use crate::answer::Answer;
use crate::token::{Hash, Shown, from_header};
use crate::{Request, Service};

/// The time limit for the headers of a request, and for the start of the next request.
const HEADERS: Duration = Duration::from_secs(5);
/// The most bytes of all headers of a request.
const HEADER_BYTES: usize = 16 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 64;
/// The time limit for the body of a request.
const BODY: Duration = Duration::from_secs(20);
/// The time limit for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The longest life of a connection without a valid token or certificate.
const HALF_OPEN: Duration = Duration::from_secs(15);
/// The longest life of a connection.
const LIFE: Duration = Duration::from_secs(300);
/// The longest life of a connection that listens for events.
const LISTENING: Duration = Duration::from_secs(3600);
/// The time limit for the acknowledgement of sent data (`TCP_USER_TIMEOUT`, tcp(7)).
const ACKNOWLEDGED: Duration = Duration::from_secs(30);

/// What the requests of a connection share.
struct Link<S: Service> {
    shared: Arc<Shared<S>>,
    /// The hash of the peer's certificate.
    certificate: Option<Hash>,
    slot: Slot<S::Who>,
    /// Whether a request has shown a valid token or certificate.
    known: AtomicBool,
    listens: AtomicBool,
}

/// Serves a connection until it ends or is closed for another one, and holds its slot until then.
pub(super) async fn serve<S: Service>(
    stream: TcpStream,
    admitted: Admitted<S::Who>,
    shared: Arc<Shared<S>>,
) {
    let socket = SockRef::from(&stream);
    // Without these options the connection works, but is slower or is held longer.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_user_timeout(Some(ACKNOWLEDGED));
    let Admitted { slot, closed, .. } = admitted;
    let mut served = pin!(accept(stream, slot, shared));
    let mut closed = pin!(closed);
    poll_fn(|context| match closed.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => served.as_mut().poll(context),
    })
    .await;
}

async fn accept<S: Service>(stream: TcpStream, slot: Slot<S::Who>, shared: Arc<Shared<S>>) {
    match &shared.tls {
        None => talk(stream, None, slot, Arc::clone(&shared)).await,
        Some(acceptor) => {
            if let Ok(Some((stream, certificate))) =
                timeout(HANDSHAKE, acceptor.accept(stream)).await
            {
                talk(stream, certificate, slot, Arc::clone(&shared)).await;
            }
        }
    }
}

async fn talk<S: Service>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    certificate: Option<Hash>,
    slot: Slot<S::Who>,
    shared: Arc<Shared<S>>,
) {
    let (known, listens) = (AtomicBool::new(false), AtomicBool::new(false));
    let link = Arc::new(Link { shared, certificate, slot, known, listens });
    let requests = Arc::clone(&link);
    let answer = service_fn(move |request| {
        let link = Arc::clone(&requests);
        async move { Ok::<_, Infallible>(respond(request, &link).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .max_buf_size(HEADER_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), answer)
    );
    // Each part of its life begins only if the connection may live on.
    let parts = [
        (HALF_OPEN, &link.known),
        (LIFE.saturating_sub(HALF_OPEN), &link.listens),
        (LISTENING.saturating_sub(LIFE), &link.listens),
    ];
    for (life, lives_on) in parts {
        let mut end = pin!(sleep(life));
        let over = poll_fn(|context| match connection.as_mut().poll(context) {
            // Errors of the connection are the client's concern.
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending => end.as_mut().poll(context).map(|()| false),
        });
        if over.await || !lives_on.load(Ordering::Relaxed) {
            return;
        }
    }
}

async fn respond<S: Service>(
    request: hyper::Request<Incoming>,
    link: &Link<S>,
) -> Response<Answered> {
    let Shared { service, hosts, tls, .. } = &*link.shared;
    if tls.is_none()
        && let Err(answer) = hosts.check(&request)
    {
        return finish(None, answer, link);
    }
    let route = match service.find(request.method().as_str(), request.uri().path()) {
        Ok(route) => route,
        Err(answer) => return finish(None, answer, link),
    };
    match attend(route, request, link).await {
        Ok(answered) => answered,
        Err(answer) => finish(Some(route), answer, link),
    }
}

async fn attend<S: Service>(
    route: &'static S::Route,
    request: hyper::Request<Incoming>,
    link: &Link<S>,
) -> Result<Response<Answered>, Answer> {
    let service = &link.shared.service;
    let who = service.authenticate(route, &shown(&request, link))?;
    if let Some(who) = who {
        if !link.slot.belongs_to(who) {
            let message = "too many connections of this client: close some";
            return Err(
                Answer::error(429, "connections", None, message).with("connection", "close")
            );
        }
        link.known.store(true, Ordering::Relaxed);
    }
    service.admit(who)?;
    let query = request.uri().query().unwrap_or_default().to_owned();
    if let Some(listener) = service.listen(route, who, &query)? {
        link.listens.store(true, Ordering::Relaxed);
        service.count(Some(route), 200);
        let mut response = Response::new(Answered::events(listener));
        head(&mut response, "text/event-stream", &[]);
        return Ok(response);
    }
    let kind = media_type(request.headers().get(CONTENT_TYPE));
    let body = match service.largest(route) {
        0 => Vec::new(),
        largest => read(request.into_body(), largest).await?,
    };
    let answering = Arc::clone(service);
    let answer = spawn_blocking(move || {
        answering.answer(&Request { route, who, query: &query, kind: &kind, body: &body })
    })
    .await;
    let answer = answer.map_err(|_| {
        Answer::error(
            500,
            "failed",
            None,
            "the answer failed: the log of the service has the cause",
        )
    })?;
    Ok(finish(Some(route), answer, link))
}

/// Returns the credentials of a request.
fn shown<S: Service>(request: &hyper::Request<Incoming>, link: &Link<S>) -> Shown {
    let token = request.headers().get(AUTHORIZATION).and_then(|h| from_header(h.as_bytes()));
    // A browser sends stored credentials with requests of any page, so they are accepted for GET
    // only.
    let token = token.filter(|(_, basic)| !basic || request.method() == Method::GET);
    Shown::new(token.as_ref().map(|t| t.0.as_slice()), link.certificate)
}

/// Reads a body of at most `largest` bytes.
async fn read(body: Incoming, largest: usize) -> Result<Vec<u8>, Answer> {
    let too_large = || {
        let message = format!("the body is larger than {largest} bytes");
        Answer::error(413, "too_large", None, &message)
    };
    if body.size_hint().lower() > largest as u64 {
        return Err(too_large());
    }
    match timeout(BODY, Limited::new(body, largest).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes().to_vec()),
        Ok(Err(e)) if e.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Answer::error(400, "body", None, "the body is incomplete")),
        Err(_) => Err(Answer::error(408, "too_slow", None, "the body did not come in time")),
    }
}

/// Returns a media type in lower case and without its parameters.
fn media_type(header: Option<&HeaderValue>) -> String {
    let text = header.and_then(|h| h.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn finish<S: Service>(
    route: Option<&'static S::Route>,
    answer: Answer,
    link: &Link<S>,
) -> Response<Answered> {
    link.shared.service.count(route, answer.status);
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(Answered::whole(answer.body));
    *response.status_mut() = status;
    head(&mut response, answer.kind, &answer.headers);
    response
}

fn head(response: &mut Response<Answered>, kind: &'static str, more: &[(&'static str, String)]) {
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(kind));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    for (name, value) in more {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(*name, value);
        }
    }
}
