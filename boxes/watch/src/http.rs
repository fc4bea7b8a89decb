//! The page over HTTP.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_records::Status;
use forebay_web::events::{Hub, Listener, event};
use forebay_web::token::{Credential, Shown};
use forebay_web::{Answer, Request};
use serde_json::json;

use crate::page::{SCRIPT, View, style};
use crate::query::value;
use crate::recorder::Recorder;
use crate::series::Range;

/// The most peers that are told apart for updates; further ones are updated when they are loaded.
const MAX_PEERS: usize = 1024;

/// A route of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Page,
    Style,
    Script,
    Stream,
    Status,
    History,
    Health,
}

const ROUTES: [(&str, Route); 7] = [
    ("/", Route::Page),
    ("/style.css", Route::Style),
    ("/page.js", Route::Script),
    ("/stream", Route::Stream),
    ("/status.json", Route::Status),
    ("/history.json", Route::History),
    ("/healthz", Route::Health),
];

/// Everything that the page may load comes from the service itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The page with its history.
#[derive(Debug)]
pub(crate) struct Site {
    recorder: Mutex<Recorder>,
    /// The last answers of the boxes.
    status: Mutex<Arc<Vec<Status>>>,
    hub: Hub,
    /// The names of peers with listeners, by number.
    peers: Mutex<Vec<String>>,
    /// What a client has to show; `None` lets everyone in who reaches the address.
    credential: Option<Credential>,
    host: String,
    /// Returns the time in milliseconds since 1970.
    clock: fn() -> u64,
}

impl Site {
    pub(crate) fn new(
        recorder: Recorder,
        credential: Option<Credential>,
        host: String,
        clock: fn() -> u64,
    ) -> Self {
        Self {
            recorder: Mutex::new(recorder),
            status: Mutex::default(),
            hub: Hub::default(),
            peers: Mutex::default(),
            credential,
            host,
            clock,
        }
    }

    pub(crate) fn recorder(&self) -> MutexGuard<'_, Recorder> {
        // A panic leaves the history consistent: each change is one transaction.
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the answers of all boxes, and tells listeners; with `all` the charts too.
    pub(crate) fn take(&self, answers: Vec<forebay_status::Answer>, all: bool) {
        let now = (self.clock)();
        self.recorder().record(now, &answers);
        let status = answers.into_iter().filter_map(|answer| answer.status.ok()).collect();
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(status);
        for group in self.hub.groups() {
            let (range, peer) = self.group(group);
            let text = self.update(range, peer.as_deref(), all);
            self.hub.send(group, &text);
        }
    }

    fn update(&self, range: Range, peer: Option<&str>, all: bool) -> String {
        let now = (self.clock)() / 1000;
        let mut recorder = self.recorder();
        if all {
            recorder.write(now);
        }
        let view = View { recorder: &recorder, range, peer, now, host: &self.host };
        // A history that cannot be read now shows no new charts; the notices are of the last time.
        let parts = view.parts(all).or_else(|_| view.parts(false)).unwrap_or_default();
        event("parts", &now.to_string(), &json!(parts).to_string())
    }

    /// Returns the number of a group of listeners.
    fn group_of(&self, range: Range, peer: Option<&str>) -> Option<usize> {
        let range = range as usize;
        let Some(peer) = peer else { return Some(range) };
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let index = peers.iter().position(|name| name == peer).or_else(|| {
            (peers.len() < MAX_PEERS).then(|| {
                peers.push(peer.to_owned());
                peers.len() - 1
            })
        })?;
        Some(Range::ALL.len() * (index + 1) + range)
    }

    fn group(&self, number: usize) -> (Range, Option<String>) {
        let (index, range) = (number / Range::ALL.len(), Range::ALL[number % Range::ALL.len()]);
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        (range, index.checked_sub(1).and_then(|index| peers.get(index).cloned()))
    }

    /// Returns the range and the peer of a query, if there is such a peer.
    fn asked(&self, query: &str) -> Result<(Range, Option<String>), Answer> {
        let range = value(query, "range");
        let range = range.as_deref().unwrap_or(Range::Hour.word());
        let Some(range) = Range::ALL.into_iter().find(|known| known.word() == range) else {
            let message = "write range=minutes, range=hour or range=day";
            return Err(Answer::error(400, "range", Some("range"), message));
        };
        let peer = value(query, "peer");
        if let Some(peer) = &peer
            && !self.recorder().live().iter().any(|live| live.series.name == *peer)
        {
            let message = "no box that runs here has such a peer";
            return Err(Answer::error(404, "peer", Some("peer"), message));
        }
        Ok((range, peer))
    }

    fn page(&self, query: &str) -> Result<Answer, Answer> {
        let (range, peer) = self.asked(query)?;
        let now = (self.clock)() / 1000;
        let mut recorder = self.recorder();
        recorder.write(now);
        let peer = peer.as_deref();
        let view = View { recorder: &recorder, range, peer, now, host: &self.host };
        let page = view.page().map_err(|e| failed(&e))?;
        Ok(Answer::text("text/html; charset=utf-8", page)
            .with("content-security-policy", POLICY)
            .with("referrer-policy", "no-referrer"))
    }

    fn history(&self, query: &str) -> Result<Answer, Answer> {
        let (range, peer) = self.asked(query)?;
        let now = (self.clock)() / 1000;
        let mut recorder = self.recorder();
        recorder.write(now);
        let mut all = Vec::new();
        for (series, _) in recorder.store().series().map_err(|e| failed(&e))? {
            if peer.as_ref().is_none_or(|peer| series.name == *peer) {
                let rows = recorder.store().rows(&series, range, now).map_err(|e| failed(&e))?;
                all.push(json!({"series": series, "rows": rows}));
            }
        }
        Ok(Answer::json(&all))
    }
}

fn failed(error: &crate::store::StoreError) -> Answer {
    Answer::error(503, "history", None, &format!("the history cannot be read: {error}"))
}

impl forebay_web::Service for Site {
    /// Whoever may see the page.
    type Who = ();
    type Route = (&'static str, Route);

    fn find(&self, method: &str, path: &str) -> Result<&'static Self::Route, Answer> {
        let route = ROUTES.iter().find(|(name, _)| *name == path);
        let Some(route) = route else {
            return Err(Answer::error(404, "not_found", None, "the page is at /"));
        };
        if method != "GET" {
            let answer = Answer::error(405, "method", None, "use GET");
            return Err(answer.with("allow", "GET"));
        }
        Ok(route)
    }

    fn authenticate(&self, (_, route): &Self::Route, shown: &Shown) -> Result<Option<()>, Answer> {
        match &self.credential {
            _ if *route == Route::Health => Ok(None),
            Some(credential) if shown.find([credential]).is_some() => Ok(Some(())),
            Some(_) => Err(Answer::unauthorized(true)),
            None => Ok(Some(())),
        }
    }

    fn listen(
        &self,
        (_, route): &Self::Route,
        _who: Option<()>,
        query: &str,
    ) -> Result<Option<Listener>, Answer> {
        if *route != Route::Stream {
            return Ok(None);
        }
        let (range, peer) = self.asked(query)?;
        let full = || Answer::error(429, "too_many_listeners", None, "close another page first");
        let group = self.group_of(range, peer.as_deref()).ok_or_else(full)?;
        let first = self.update(range, peer.as_deref(), false);
        self.hub.listen(group, first).map(Some).ok_or_else(full)
    }

    fn answer(&self, request: &Request<'_, Self::Route, ()>) -> Answer {
        let answer = match request.route.1 {
            Route::Page => self.page(request.query),
            Route::History => self.history(request.query),
            Route::Style => Ok(Answer::text("text/css; charset=utf-8", style())),
            Route::Script => Ok(Answer::text("text/javascript; charset=utf-8", SCRIPT)),
            Route::Health => Ok(Answer::text("text/plain; charset=utf-8", "ok\n")),
            Route::Status => {
                let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Ok(Answer::json(&*status))
            }
            // A stream has a listener.
            Route::Stream => Err(Answer::error(404, "not_found", None, "the page is at /")),
        };
        answer.unwrap_or_else(|error| error)
    }

    fn end(&self) {
        self.hub.end();
    }
}

#[cfg(test)]
mod tests;
