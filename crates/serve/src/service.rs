//! The service itself: what it knows, and its answers. No socket is in here, and no clock.

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

pub(crate) use publish::say;
pub use publish::{Done, RoundError};

use crate::answer::Answer;
use crate::collect::Collecting;
use crate::config::Config;
use crate::damping::Penalty;
use crate::events::{Hub, Listener};
use crate::inputs::{Core, DemandText, Fixed};
use crate::limit::Bucket;
use crate::round::Flow;
use crate::routes::{Access, OPENAPI, Op, Route};
use crate::speaker;
use crate::store::{Given, Store, StoreError, Versioned};
use crate::token::Shown;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Somebody.
    Anyone,
    /// A neighbour, by its place in the configuration.
    Neighbour(usize),
    /// The operator.
    Operator,
}

/// A request that may be answered: of a route that is there, by somebody who may.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The route.
    pub route: &'static Route,
    /// Who asks.
    pub who: Who,
    /// The media type of the body, or nothing.
    pub kind: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// The time, in milliseconds since 1970.
    pub now: u64,
}

/// What is counted for Prometheus, beside what can be seen.
#[derive(Debug, Default)]
pub struct Counters {
    /// Answers, by route and status. Both are few.
    pub answers: Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>,
    /// Connections that were taken.
    pub connections: AtomicU64,
    /// Connections that were one too many.
    pub turned_away: AtomicU64,
    /// Requests that showed no right token or certificate.
    pub strangers: AtomicU64,
}

/// What is known of one neighbour.
#[derive(Debug, Default)]
struct Known {
    program: Option<Versioned<Option<Program>>>,
    /// The version of the program that the last round took into account.
    used: u64,
    penalty: Penalty,
    bucket: Bucket,
    told: Option<Versioned<Vec<Given>>>,
    /// Programs that were refused since the start.
    refused: u64,
}

/// What the last round came to, and when.
#[derive(Debug, Default)]
struct Last {
    round: u64,
    at: u64,
    hints: Hints,
    report: Option<Arc<Report>>,
    flows: Vec<Flow>,
    core: Option<Arc<Core>>,
    /// How many demands were taken to be more than was measured; `None` if nobody counts on links.
    estimated: Option<usize>,
    lapsed: BTreeMap<u32, Refusal>,
    /// How long it took, in milliseconds.
    took: u64,
    /// Why the round after it failed, if it did.
    error: Option<String>,
    announced: Option<Result<speaker::Told, String>>,
    failures: u64,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    neighbours: Vec<Known>,
    last: Last,
    /// Those that were used or put last, and when.
    demands: Option<(DemandText, u64)>,
}

/// The service.
#[derive(Debug)]
pub struct Service {
    config: Config,
    fixed: Fixed,
    /// The provider of each neighbour.
    numbers: Vec<u32>,
    inner: Mutex<Inner>,
    hub: Hub,
    /// What is collected of flow records, if demands are measured by them.
    collecting: Option<Collecting>,
    /// What is counted.
    pub counters: Counters,
    started: u64,
}

impl Service {
    /// A service with what its database has kept. `now` is in milliseconds since 1970.
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
        let (mut programs, mut told) = (store.programs()?, store.told()?);
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
        // What was planned with last shows the same vSwitch at once. If files have changed since, the first round will
        // say what is wrong with it.
        if let Some((text, _)) = &demands
            && let Ok(read) = fixed.demands("the demands of the last round".as_ref(), text)
        {
            last.core = Some(Arc::new(Core::new(&fixed, read, config.aggregates)));
        }
        let inner = Mutex::new(Inner { store, neighbours, last, demands });
        let (hub, counters) = (Hub::default(), Counters::default());
        let at = i64::try_from(now).unwrap_or(i64::MAX);
        let flows = config.flows.as_ref();
        let collecting = flows.and_then(|flows| Collecting::new(flows, &fixed, at));
        Ok(Self { config, fixed, numbers, inner, hub, collecting, counters, started: now })
    }

    /// What the service was configured with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What is collected of flow records, if demands are measured by them.
    pub fn collecting(&self) -> Option<&Collecting> {
        self.collecting.as_ref()
    }

    /// The listeners for changes.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic leaves nothing half done: what is kept is written first, and then replaced.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who has `shown` this.
    pub fn who(&self, shown: &Shown) -> Option<Who> {
        let operator = std::iter::once(&self.config.operator);
        let all = operator.chain(self.config.neighbours.iter().map(|n| &n.credential));
        shown.find(all).map(|at| match at {
            0 => Who::Operator,
            at => Who::Neighbour(at - 1),
        })
    }

    /// Whether `who` may ask for something of `access`. The operator is no neighbour, and sees theirs in its own way.
    pub fn may(who: Who, access: Access) -> bool {
        match access {
            Access::Anyone => true,
            Access::Neighbour => matches!(who, Who::Neighbour(_)),
            Access::Operator => who == Who::Operator,
        }
    }

    /// Takes one of the requests that a neighbour may make. Nobody else's are counted.
    ///
    /// # Errors
    /// If it has made too many: the answer that says so.
    pub fn admit(&self, who: Who, now: u64) -> Result<(), Answer> {
        let Who::Neighbour(at) = who else { return Ok(()) };
        self.inner().neighbours[at].bucket.take(now).map_err(|wait| {
            let message = "asks too often: ten requests a second, fifty at once";
            Answer::error(429, "too_often", None, message).later(wait)
        })
    }

    /// The answer to a request.
    pub fn answer(&self, request: &Request<'_>) -> Answer {
        match (request.route.op, request.who) {
            (Op::Health, _) => Answer::text("text/plain; charset=utf-8", "ok\n"),
            (Op::OpenApi, _) => Answer::text("application/json", OPENAPI),
            (op, Who::Neighbour(at)) => self.answer_neighbour(op, at, request),
            (op, Who::Operator) => self.answer_operator(op, request),
            (_, Who::Anyone) => Answer::error(401, "unauthorized", None, "show a token"),
        }
    }

    /// A listener of a neighbour.
    ///
    /// # Errors
    /// If it has as many as it may: the answer that says so.
    pub fn listen(&self, at: usize) -> Result<Listener, Answer> {
        let first = self.standing(&self.inner(), at);
        self.hub.listen(at, first).ok_or_else(|| {
            let message = "has four listeners already: close one";
            Answer::error(429, "too_many_listeners", None, message).later(30_000)
        })
    }
}

#[cfg(test)]
mod tests;
