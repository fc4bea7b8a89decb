//! The service: its state and its answers. This module has no sockets and no clock.

mod estimated;
mod neighbour;
mod operator;
mod publish;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_plan::hints::Hints;
use forebay_plan::plan::Report;
use forebay_plan::vswitch::{Program, Refusal};
use serde_json::json;

pub(crate) use publish::log_step;
pub use publish::{Done, RoundError};

use crate::answer::Answer;
use crate::collect::Collecting;
use crate::config::Config;
use crate::damping::Penalty;
use crate::events::{Hub, Listener};
use crate::history::History;
use crate::ingress::answer::{Paths, Version};
use crate::inputs::{Core, DemandText, Fixed};
use crate::kafka::Feed;
use crate::learn::{self, Learning};
use crate::limit::Bucket;
use crate::round::Flow;
use crate::routes::{Access, OPENAPI, Op, Route};
use crate::speaker;
use crate::store::{Given, Store, StoreError, Versioned};
use crate::token::Shown;

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A client without a valid credential.
    Anyone,
    /// A neighbour, by its index in the configuration.
    Neighbour(usize),
    /// A router of the ISP.
    Router,
    /// The operator of the service.
    Operator,
}

/// A request for an existing route, from a client that may use it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The operation of the route.
    pub route: &'static Route,
    /// The client that sent it.
    pub who: Who,
    /// The media type of the body, or an empty text.
    pub kind: &'a str,
    /// The body of the request.
    pub body: &'a [u8],
    /// The time of the request, in milliseconds since 1970.
    pub now: u64,
}

/// The counters for Prometheus that the state does not have.
#[derive(Debug, Default)]
pub struct Counters {
    /// The number of answers by route and status, of which there are few.
    pub answers: Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>,
    /// The connections accepted.
    pub connections: AtomicU64,
    /// The connections refused at the limit.
    pub turned_away: AtomicU64,
    /// The times that a half-open connection was closed for a new one.
    pub displaced: AtomicU64,
    /// The requests without a valid token or certificate.
    pub strangers: AtomicU64,
}

/// The state of one neighbour.
#[derive(Debug, Default)]
struct Known {
    program: Option<Versioned<Option<Program>>>,
    /// The version of the program that the last round used.
    used: u64,
    penalty: Penalty,
    bucket: Bucket,
    told: Option<Versioned<Vec<Given>>>,
    /// The programs that were refused since the start.
    refused: u64,
}

/// The result of the last round, and its time.
#[derive(Debug, Default)]
struct Last {
    round: u64,
    at: u64,
    hints: Hints,
    report: Option<Arc<Report>>,
    /// The paths inside the network; `None` before the first round since the start.
    paths: Option<Arc<Paths>>,
    flows: Vec<Flow>,
    core: Option<Arc<Core>>,
    /// The number of demands that were estimated above the measured rate; `None` without a file of
    /// link loads.
    estimated: Option<usize>,
    /// The prefixes that the round learned, if it did.
    learned: Option<learn::Known>,
    lapsed: BTreeMap<u32, Refusal>,
    /// The duration of the round, in milliseconds.
    took: u64,
    /// The error of the round after it, if that failed.
    error: Option<String>,
    announced: Option<Result<speaker::AnnounceOutcome, String>>,
    failures: u64,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    neighbours: Vec<Known>,
    last: Last,
    /// The demands that were used or put last, and their time.
    demands: Option<(DemandText, u64)>,
}

/// The service with its state.
#[derive(Debug)]
pub struct Service {
    config: Config,
    fixed: Fixed,
    /// The provider of each neighbour.
    numbers: Vec<u32>,
    inner: Mutex<Inner>,
    hub: Hub,
    /// The collected flow records, if demands are measured from these.
    collecting: Option<Collecting>,
    /// The history that waits for its database, if there is one.
    history: Option<History>,
    /// The learned routes, if prefixes come from these.
    learning: Option<Arc<Learning>>,
    /// The counters for Prometheus.
    pub counters: Counters,
    started: u64,
}

impl Service {
    /// Creates a service from the state in its database. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// If the database cannot be opened or read.
    pub fn new(
        config: Config,
        fixed: Fixed,
        numbers: Vec<u32>,
        now: u64,
    ) -> Result<Self, StoreError> {
        let store = Store::open(&config.state)?;
        let (mut programs, mut told) = (store.programs()?, store.given_hints()?);
        let penalties = store.penalties()?;
        let known = |name: &str| Known {
            program: programs.remove(name),
            told: told.remove(name),
            penalty: penalties.get(name).copied().unwrap_or_default(),
            ..Known::default()
        };
        let neighbours: Vec<Known> =
            config.neighbours.iter().map(|n| &n.name[..]).map(known).collect();
        let mut last = Last::default();
        if let Some(round) = store.last_round()? {
            (last.round, last.at, last.hints) = (round.version, round.at, round.value);
        }
        let demands = store.demands()?;
        // The demands of the last plan give the same vSwitch at once. If files have changed since,
        // the first round reports what does not match.
        if let Some((text, _)) = &demands
            && let Ok(read) = fixed.demands("the demands of the last round".as_ref(), text)
        {
            // Learned prefixes are not known before the first round.
            if config.bmp.is_none() {
                let prefixes = Arc::clone(&fixed.prefixes);
                last.core = Some(Arc::new(Core::new(&fixed, prefixes, read, config.aggregates)));
            }
        }
        let inner = Mutex::new(Inner { store, neighbours, last, demands });
        let (hub, counters) = (Hub::default(), Counters::default());
        let at = i64::try_from(now).unwrap_or(i64::MAX);
        let flows = config.flows.as_ref();
        let learning = config.bmp.as_ref().map(|bmp| {
            let next_hops = fixed.next_hops.clone().unwrap_or_default();
            Arc::new(Learning::new(bmp.clone(), next_hops, now))
        });
        let feed = config.kafka.as_ref().map(|_| Arc::new(Feed::default()));
        let collecting =
            flows.and_then(|flows| Collecting::new(flows, &fixed, learning.clone(), feed, at));
        let history = config.clickhouse.as_ref().map(|_| History::default());
        Ok(Self {
            config,
            fixed,
            numbers,
            inner,
            hub,
            collecting,
            history,
            learning,
            counters,
            started: now,
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the collected flow records, if demands are measured from these.
    pub fn collecting(&self) -> Option<&Collecting> {
        self.collecting.as_ref()
    }

    /// Returns the history that waits for its database, if there is one.
    pub fn history(&self) -> Option<&History> {
        self.history.as_ref()
    }

    /// Returns the learned routes, if prefixes come from these.
    pub fn learning(&self) -> Option<&Learning> {
        self.learning.as_deref()
    }

    /// Returns the listeners for changes.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic leaves the state consistent: changes are stored first, and then applied at once.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client with the credentials that were `shown`.
    pub fn who(&self, shown: &Shown) -> Option<Who> {
        let operator = std::iter::once(&self.config.operator);
        let neighbours = self.config.neighbours.iter().map(|n| &n.credential);
        let all = operator.chain(neighbours).chain(&self.config.routers);
        shown.find(all).map(|at| match at {
            0 => Who::Operator,
            at if at > self.config.neighbours.len() => Who::Router,
            at => Who::Neighbour(at - 1),
        })
    }

    /// Whether `who` may use a route with this access. The operator is not a neighbour, and has
    /// routes of its own.
    pub fn may(who: Who, access: Access) -> bool {
        match access {
            Access::Anyone => true,
            Access::Neighbour => matches!(who, Who::Neighbour(_)),
            Access::Router => matches!(who, Who::Router | Who::Operator),
            Access::Operator => who == Who::Operator,
        }
    }

    /// Counts a request of a neighbour against its limit; other clients have none.
    ///
    /// # Errors
    /// If there were too many: the answer to send.
    pub fn admit(&self, who: Who, now: u64) -> Result<(), Answer> {
        let Who::Neighbour(at) = who else { return Ok(()) };
        self.inner().neighbours[at].bucket.take(now).map_err(|wait| {
            let message = "too many requests: send at most ten per second, and fifty at once";
            Answer::error(429, "too_often", None, message).later(wait)
        })
    }

    /// Returns the answer to a request.
    pub fn answer(&self, request: &Request<'_>) -> Answer {
        match (request.route.op, request.who) {
            (Op::Health, _) => Answer::text("text/plain; charset=utf-8", "ok\n"),
            (Op::OpenApi, _) => Answer::text("application/json", OPENAPI),
            (Op::Paths | Op::PathsVersion, Who::Router | Who::Operator) => {
                self.paths(request.route.op)
            }
            (op, Who::Neighbour(at)) => self.answer_neighbour(op, at, request),
            (op, Who::Operator) => self.answer_operator(op, request),
            (_, Who::Router) => Answer::error(403, "forbidden", None, "is not for routers"),
            (_, Who::Anyone) => Answer::error(401, "unauthorized", None, "show a token"),
        }
    }

    /// Returns the paths of the last round, or their version.
    fn paths(&self, op: Op) -> Answer {
        let Some(paths) = self.inner().last.paths.clone() else {
            let message = "there was no round yet since the start: ask again";
            return Answer::error(503, "no_round", None, message).later(1000);
        };
        match op {
            Op::Paths => Answer::json(&json!(*paths)),
            _ => Answer::json(&json!(Version { version: paths.version.clone() })),
        }
    }

    /// Adds a listener of a neighbour.
    ///
    /// # Errors
    /// If it has too many: the answer to send.
    pub fn listen(&self, at: usize) -> Result<Listener, Answer> {
        let first = self.event_of(&self.inner(), at);
        self.hub.listen(at, first).ok_or_else(|| {
            let message = "has four listeners already: close one";
            Answer::error(429, "too_many_listeners", None, message).later(30_000)
        })
    }
}

#[cfg(test)]
mod tests;
