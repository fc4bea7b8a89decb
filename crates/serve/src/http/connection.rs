//! Serves the requests of one connection.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::body::Answered;
use super::slots::{Admitted, Slot};
use crate::answer::Answer;
use crate::clock;
use crate::routes::{self, Access, Miss, Op, Route};
use crate::service::{self, Service, Who};
use crate::token::{Hash, Shown, from_header};

/// The time limit for the headers of a request, and for the start of the next request.
const HEADERS: Duration = Duration::from_secs(5);
/// The most bytes of all headers of a request.
const HEADER_BYTES: usize = 16 * 1024;
/// The most headers of a request.
const MOST_HEADERS: usize = 64;
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
struct Link {
    shared: Arc<Shared>,
    /// The hash of the peer's certificate.
    certificate: Option<Hash>,
    slot: Slot,
    /// Whether a request has shown a valid token or certificate.
    known: AtomicBool,
    listens: AtomicBool,
}

/// Serves a connection until it ends or is closed for another one, and holds its slot until then.
pub(super) async fn serve(stream: TcpStream, admitted: Admitted, shared: Arc<Shared>) {
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

async fn accept(stream: TcpStream, slot: Slot, shared: Arc<Shared>) {
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

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    certificate: Option<Hash>,
    slot: Slot,
    shared: Arc<Shared>,
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
            .max_headers(MOST_HEADERS)
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

async fn respond(request: Request<Incoming>, link: &Link) -> Response<Answered> {
    let route = match routes::find(request.method().as_str(), request.uri().path()) {
        Ok(route) => route,
        Err(Miss::Path) => {
            let answer =
                Answer::error(404, "not_found", None, "there is no such path: see /openapi.json");
            return finish(None, answer, link);
        }
        Err(Miss::Method(methods)) => {
            let message = "the path does not have this method: see /openapi.json";
            let answer =
                Answer::error(405, "method", None, message).with("allow", methods.join(", "));
            return finish(None, answer, link);
        }
    };
    match attend(route, request, link).await {
        Ok(answered) => answered,
        Err(answer) => finish(Some(route), answer, link),
    }
}

async fn attend(
    route: &'static Route,
    request: Request<Incoming>,
    link: &Link,
) -> Result<Response<Answered>, Answer> {
    let service = &link.shared.service;
    let who = authenticate(route, &request, link)?;
    if who != Who::Anyone {
        if !link.slot.belongs_to(who) {
            let message = "too many connections of this client: close some";
            return Err(
                Answer::error(429, "connections", None, message).with("connection", "close")
            );
        }
        link.known.store(true, Ordering::Relaxed);
    }
    let now = clock::now();
    service.admit(who, now)?;
    let kind = media_type(request.headers().get(CONTENT_TYPE));
    let body = match route.largest {
        0 => Vec::new(),
        largest => read(request.into_body(), largest).await?,
    };
    let answer = match (route.op, who) {
        (Op::Events, Who::Neighbour(at)) => {
            let listener = service.listen(at)?;
            link.listens.store(true, Ordering::Relaxed);
            count(Some(route), 200, service);
            let mut response = Response::new(Answered::events(listener));
            head(&mut response, "text/event-stream", &[]);
            return Ok(response);
        }
        (Op::Round, Who::Operator) => {
            let rounds = link.shared.rounds.clone();
            spawn_blocking(move || run_round(&rounds)).await
        }
        _ => {
            let service = Arc::clone(service);
            spawn_blocking(move || {
                service.answer(&service::Request { route, who, kind: &kind, body: &body, now })
            })
            .await
        }
    };
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

fn run_round(rounds: &crate::rounds::Rounds) -> Answer {
    match rounds.run() {
        Ok(done) => Answer::json(&json!({
            "round": done.round,
            "before": done.before,
            "after": done.after,
            "hints": done.hints,
            "changed": done.changed,
            "announced": done.announced.map(|outcome| json!({"done": outcome.done, "failed": outcome.failed})),
        })),
        Err(why) => Answer::error(503, "round", None, &why).later(1000),
    }
}

/// Returns who sent a request, if it has access to the route.
fn authenticate(route: &Route, request: &Request<Incoming>, link: &Link) -> Result<Who, Answer> {
    if route.access == Access::Anyone {
        return Ok(Who::Anyone);
    }
    let token = request.headers().get(AUTHORIZATION).and_then(|h| from_header(h.as_bytes()));
    // A browser sends stored credentials with requests of any page, so they are accepted for GET
    // only.
    let token = token.filter(|(_, basic)| !basic || request.method() == Method::GET);
    let shown = Shown::new(token.as_ref().map(|t| t.0.as_slice()), link.certificate);
    let who = link.shared.service.who(&shown);
    match who {
        Some(who) if Service::may(who, route.access) => Ok(who),
        Some(_) => Err(Answer::error(403, "forbidden", None, "this route is for another role")),
        None => {
            link.shared.service.counters.strangers.fetch_add(1, Ordering::Relaxed);
            let scheme = match route.op {
                Op::Page => "Basic realm=\"forebay\", charset=\"UTF-8\"",
                _ => "Bearer",
            };
            let message = "show a valid token: Authorization: Bearer TOKEN";
            Err(Answer::error(401, "unauthorized", None, message).with("www-authenticate", scheme))
        }
    }
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

fn finish(route: Option<&'static Route>, answer: Answer, link: &Link) -> Response<Answered> {
    count(route, answer.status, &link.shared.service);
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

fn count(route: Option<&'static Route>, status: u16, service: &Service) {
    let (method, path) = route.map_or(("", ""), |r| (r.method, r.path));
    let mut answers = service.counters.answers.lock().unwrap_or_else(PoisonError::into_inner);
    *answers.entry((method, path, status)).or_default() += 1;
}
