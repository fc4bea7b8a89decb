//! The service over HTTP: who may use which route, and what is counted. [`forebay_web`] has the
//! connections and their limits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use forebay_web::events::Listener;
use forebay_web::token::Shown;
use forebay_web::{Answer, Connection};
use serde_json::json;

pub use forebay_web::{
    MAX_CONNECTIONS, MAX_HALF_OPEN, MAX_HALF_OPEN_PER_HOST, MAX_PER_CLIENT, tls,
};

use crate::clock;
use crate::rounds::Rounds;
use crate::routes::{self, Access, Miss, Op, Route};
use crate::service::{Request, Service, Who};

/// The service with what its answers need beside its state.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) service: Arc<Service>,
    pub(crate) rounds: Rounds,
}

impl forebay_web::Service for Http {
    type Who = Who;
    type Route = Route;

    fn find(&self, method: &str, path: &str) -> Result<&'static Route, Answer> {
        routes::find(method, path).map_err(|miss| match miss {
            Miss::Path => {
                Answer::error(404, "not_found", None, "there is no such path: see /openapi.json")
            }
            Miss::Method(methods) => {
                let message = "the path does not have this method: see /openapi.json";
                Answer::error(405, "method", None, message).with("allow", methods.join(", "))
            }
        })
    }

    fn largest(&self, route: &Route) -> usize {
        route.largest
    }

    fn authenticate(&self, route: &Route, shown: &Shown) -> Result<Option<Who>, Answer> {
        if route.access == Access::Anyone {
            return Ok(None);
        }
        match self.service.who(shown) {
            Some(who) if Service::may(who, route.access) => Ok(Some(who)),
            Some(_) => Err(Answer::error(403, "forbidden", None, "this route is for another role")),
            None => {
                self.service.counters.strangers.fetch_add(1, Ordering::Relaxed);
                Err(Answer::unauthorized(route.op == Op::Page))
            }
        }
    }

    fn admit(&self, who: Option<Who>) -> Result<(), Answer> {
        self.service.admit(who.unwrap_or(Who::Anyone), clock::now())
    }

    fn listen(
        &self,
        route: &Route,
        who: Option<Who>,
        _query: &str,
    ) -> Result<Option<Listener>, Answer> {
        match (route.op, who) {
            (Op::Events, Some(Who::Neighbour(at))) => self.service.listen(at).map(Some),
            _ => Ok(None),
        }
    }

    fn answer(&self, request: &forebay_web::Request<'_, Route, Who>) -> Answer {
        let forebay_web::Request { route, who, kind, body, .. } = *request;
        match (route.op, who) {
            (Op::Round, Some(Who::Operator)) => run_round(&self.rounds),
            (_, who) => {
                let who = who.unwrap_or(Who::Anyone);
                self.service.answer(&Request { route, who, kind, body, now: clock::now() })
            }
        }
    }

    fn count(&self, route: Option<&'static Route>, status: u16) {
        let (method, path) = route.map_or(("", ""), |r| (r.method, r.path));
        let answers = &self.service.counters.answers;
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry((method, path, status)).or_default() += 1;
    }

    fn count_connection(&self, connection: Connection) {
        let counters = &self.service.counters;
        let (accepted, other) = match connection {
            Connection::Accepted => (1, None),
            Connection::Displaced => (1, Some(&counters.displaced)),
            Connection::TurnedAway => (0, Some(&counters.turned_away)),
        };
        counters.connections.fetch_add(accepted, Ordering::Relaxed);
        if let Some(counter) = other {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        self.service.hub().end();
    }
}

fn run_round(rounds: &Rounds) -> Answer {
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
