//! The routes that routers report by BMP, and the state of their sessions.
//!
//! This module has no sockets and no clock: [`crate::bmp`] has the connections. All times are in
//! milliseconds since 1970, of a clock that does not step.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use forebay_plan::flows::RouteUsers;
use forebay_plan::input::{self, Learned};
use forebay_plan::topology::{RouterId, Topology};
use forebay_routes::bmp::{Counts, Session};
use forebay_routes::table::Table;
use serde::Serialize;

use crate::clock;
use crate::config::Bmp;
use crate::topology_check::TopologyCheck;

/// The events that are kept; the oldest makes room.
const MAX_EVENTS: usize = 64;
/// Next hops without a router that the state names.
const NAMED: usize = 8;
/// The least time between two log lines about connections of unlisted addresses.
const QUIET: u64 = 60_000;

/// Why routes do not give the prefixes of users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{router} {what} ({all} of the routers of [bmp] do not give all their routes), so prefixes would be \
     missing: check its session, or set `optional = true` in its table"
)]
pub struct NotLearned {
    /// The name of the first such router.
    router: String,
    /// What is wrong with its session.
    what: &'static str,
    /// The number of such routers.
    all: usize,
}

/// The state of a router's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The router has not connected since the start.
    Waiting,
    /// The session is up.
    Up,
    /// The session was cut, and its routes are held.
    Held,
    /// The session was cut, and its routes are gone.
    Down,
}

/// Something that happened to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The time, in UTC.
    at: String,
    /// The name of the router.
    router: String,
    /// What happened to the session.
    what: String,
}

/// A connection of a router. A newer one of the same router takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    router: usize,
    connection: u64,
}

#[derive(Debug)]
struct Router {
    session: Session,
    state: State,
    /// The number of connections so far, which is that of the present one.
    connection: u64,
    /// The time of the last change of `state`.
    since: u64,
    /// The time from which on all routes are there.
    ready: Option<u64>,
    /// The time at which held routes go.
    expires: Option<u64>,
    /// Whether that time was put off once since all routes were there.
    extended: bool,
    /// Why the last session ended.
    ended: Option<String>,
    cuts: u64,
    stuck: u64,
}

#[derive(Debug, Default)]
struct Inner {
    routers: Vec<Router>,
    events: VecDeque<Event>,
    strangers: u64,
    /// The time of the last log line about strangers.
    told: Option<u64>,
}

/// The learned routes.
#[derive(Debug)]
pub struct Learning {
    config: Bmp,
    next_hops: Arc<BTreeMap<IpAddr, RouterId>>,
    table: Arc<RwLock<Table>>,
    inner: Mutex<Inner>,
}

fn time(now: u64) -> Duration {
    Duration::from_millis(now)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Learning {
    /// Creates an empty table for the routers of `config`.
    pub fn new(config: Bmp, next_hops: BTreeMap<IpAddr, RouterId>, now: u64) -> Self {
        let router = |router: &crate::config::BmpRouter| Router {
            session: Session::new(&router.name, time(now)),
            state: State::Waiting,
            connection: 0,
            since: now,
            ready: None,
            expires: None,
            extended: false,
            ended: None,
            cuts: 0,
            stuck: 0,
        };
        let routers = config.routers.iter().map(router).collect();
        Self {
            table: Arc::new(RwLock::new(Table::new(config.limits))),
            next_hops: Arc::new(next_hops),
            inner: Mutex::new(Inner { routers, ..Inner::default() }),
            config,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until all routes may be there.
    pub fn first(&self) -> Duration {
        self.config.settle
    }

    /// Returns the users behind the routes, as they are at each moment.
    pub fn users(&self) -> RouteUsers {
        let (table, next_hops) = (Arc::clone(&self.table), Arc::clone(&self.next_hops));
        RouteUsers { table, next_hops }
    }

    fn event(&self, inner: &mut Inner, router: usize, now: u64, what: impl fmt::Display) {
        let name = &self.config.routers[router].name;
        tracing::info!("BMP: {name}: {what}");
        if inner.events.len() == MAX_EVENTS {
            inner.events.pop_front();
        }
        let (at, router) = (clock::text(now), name.clone());
        inner.events.push_back(Event { at, router, what: what.to_string() });
    }

    /// Takes a connection from `address`. Returns `None` if it is no router's; the connection must
    /// then be closed.
    pub fn connect(&self, address: IpAddr, now: u64) -> Option<Ticket> {
        let address = address.to_canonical();
        let mut inner = self.inner();
        let Some(at) = self.config.routers.iter().position(|r| r.address == address) else {
            inner.strangers += 1;
            if inner.told.is_none_or(|told| now.saturating_sub(told) >= QUIET) {
                inner.told = Some(now);
                tracing::warn!("BMP: {address} is no router of [bmp]: its connection is closed");
            }
            return None;
        };
        if inner.routers[at].state == State::Up {
            self.cut(&mut inner, at, now, "the router opened another connection");
        }
        let router = &mut inner.routers[at];
        router.connection += 1;
        router.session.connect(time(now));
        (router.state, router.since) = (State::Up, now);
        // A router that connects again and again does not keep old routes for ever.
        if router.expires.is_some() && !std::mem::replace(&mut router.extended, true) {
            router.expires = Some(now + millis(self.config.hold));
        }
        let ticket = Ticket { router: at, connection: router.connection };
        self.event(&mut inner, at, now, "connected");
        Some(ticket)
    }

    /// Whether a connection is still the router's, so that it should stay open.
    pub fn is_current(&self, ticket: Ticket) -> bool {
        let inner = self.inner();
        let router = &inner.routers[ticket.router];
        router.connection == ticket.connection && router.state == State::Up
    }

    /// Takes octets of a connection. Returns whether it should stay open.
    pub fn receive(&self, ticket: Ticket, octets: &[u8], now: u64) -> bool {
        let mut inner = self.inner();
        let router = &mut inner.routers[ticket.router];
        if router.connection != ticket.connection || router.state != State::Up {
            return false;
        }
        let before = router.session.counts().malformed;
        let result = router.session.receive(time(now), octets, &mut self.table());
        let malformed = router.session.counts().malformed - before;
        if malformed > 0 && before == 0 {
            let what =
                format!("{malformed} messages cannot be read; further ones are only counted");
            self.event(&mut inner, ticket.router, now, what);
        }
        self.note_loaded(&mut inner, ticket.router, now);
        if let Err(why) = result {
            self.cut(&mut inner, ticket.router, now, &why.to_string());
            return false;
        }
        true
    }

    /// Takes note of the end of a connection.
    pub fn end(&self, ticket: Ticket, why: &str, now: u64) {
        let mut inner = self.inner();
        let router = &inner.routers[ticket.router];
        if router.connection == ticket.connection && router.state == State::Up {
            self.cut(&mut inner, ticket.router, now, why);
        }
    }

    fn note_loaded(&self, inner: &mut Inner, at: usize, now: u64) {
        let router = &mut inner.routers[at];
        if router.state != State::Up || router.ready.is_some() {
            return;
        }
        let settled = now.saturating_sub(router.since) >= millis(self.config.settle);
        let loaded = router.session.is_loaded();
        if loaded || (settled && router.session.peers() > 0) {
            router.ready = Some(now);
            let how = if loaded { "its first routes have all come" } else { "it has settled" };
            self.event(inner, at, now, how);
        }
    }

    fn cut(&self, inner: &mut Inner, at: usize, now: u64, why: &str) {
        let router = &mut inner.routers[at];
        if router.expires.is_none() || router.session.is_loaded() {
            (router.expires, router.extended) = (Some(now + millis(self.config.hold)), false);
        }
        router.session.cut(&mut self.table());
        (router.state, router.since) = (State::Held, now);
        router.cuts += 1;
        router.ended = Some(why.to_owned());
        let hold = router.expires.unwrap_or(now).saturating_sub(now) / 1000;
        self.event(inner, at, now, format!("cut: {why}; its routes stay for {hold} s"));
    }

    /// Does what is due: cuts sessions that are stuck, and withdraws routes that were held.
    pub fn tick(&self, now: u64) {
        let mut inner = self.inner();
        for at in 0..inner.routers.len() {
            self.note_loaded(&mut inner, at, now);
            let router = &mut inner.routers[at];
            let silence = self.config.silence;
            if router.state == State::Up && router.session.is_stuck(time(now), silence) {
                router.stuck += 1;
                let why = format!("stuck: nothing was heard for {} s", silence.as_secs());
                self.cut(&mut inner, at, now, &why);
            }
            let router = &mut inner.routers[at];
            if router.expires.is_some_and(|expires| now >= expires) {
                router.expires = None;
                let before = self.table().routes();
                router.session.expire(&mut self.table());
                let gone = before - self.table().routes();
                if router.state == State::Held {
                    (router.state, router.since) = (State::Down, now);
                }
                // Routes may be missing until the router has sent all of them again.
                router.ready = None;
                let what = format!("{gone} routes that were held are gone");
                self.event(&mut inner, at, now, what);
                self.note_loaded(&mut inner, at, now);
            }
        }
    }

    /// Returns the prefixes of users, if every router that is not optional gives all its routes.
    ///
    /// # Errors
    /// If one does not: prefixes would be missing.
    pub fn prefixes(&self) -> Result<Learned, NotLearned> {
        self.ready()?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        Ok(input::learned(&table, &self.next_hops))
    }

    /// Compares the topology with what routers report, of which a round learned `learned`.
    pub fn check(&self, topology: &Topology, learned: &Learned) -> TopologyCheck {
        let sessions = {
            let inner = self.inner();
            let all = self.config.routers.iter().zip(&inner.routers);
            let ready = all.filter(|(_, router)| router.ready.is_some());
            ready.map(|(config, _)| config.name.as_str()).collect()
        };
        let used = learned.prefixes.values().map(|users| users.router).collect();
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        TopologyCheck::new(topology, &sessions, &used, table.graph(), &self.next_hops)
    }

    /// Returns the time from which on all routes were there.
    ///
    /// # Errors
    /// If a router that is not optional does not give all its routes.
    pub fn ready(&self) -> Result<u64, NotLearned> {
        let inner = self.inner();
        let all = self.config.routers.iter().zip(&inner.routers);
        let needed: Vec<_> = all.filter(|(config, _)| !config.optional).collect();
        let mut missing = needed.iter().filter(|(_, router)| router.ready.is_none());
        if let Some((config, router)) = missing.next() {
            let what = match router.state {
                State::Waiting => "has not connected",
                State::Up => "has not sent all its routes yet",
                State::Held | State::Down => "has no session, and its routes are gone",
            };
            return Err(NotLearned { router: config.name.clone(), what, all: missing.count() + 1 });
        }
        Ok(needed.iter().filter_map(|(_, router)| router.ready).max().unwrap_or(0))
    }

    /// Returns what the operator may see.
    pub fn report(&self, now: u64) -> LearnReport {
        let inner = self.inner();
        let sessions = self.config.routers.iter().zip(&inner.routers).map(|(config, router)| {
            let connected = router.connection > 0;
            let heard = millis(router.session.last());
            SessionReport {
                router: config.name.clone(),
                address: config.address,
                optional: config.optional,
                state: router.state,
                seconds: now.saturating_sub(router.since) / 1000,
                heard: connected.then(|| now.saturating_sub(heard) / 1000),
                complete: router.ready.is_some(),
                peers: router.session.peers(),
                routes: 0,
                counts: router.session.counts(),
                cuts: router.cuts,
                stuck: router.stuck,
                ended: router.ended.clone(),
            }
        });
        let mut sessions: Vec<SessionReport> = sessions.collect();
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        for (_, peer) in table.peers() {
            if let Some(session) = sessions.iter_mut().find(|s| s.router == peer.router) {
                session.routes += peer.routes;
            }
        }
        LearnReport {
            routes: table.routes(),
            refused: table.refused(),
            strangers: inner.strangers,
            sessions,
            events: inner.events.iter().cloned().collect(),
        }
    }
}

/// The state of one router's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionReport {
    /// The name of the router.
    pub router: String,
    /// The address that it connects from.
    pub address: IpAddr,
    /// Whether rounds go on without its routes.
    pub optional: bool,
    /// The state of the session.
    pub state: State,
    /// The time since the last change of `state`, in seconds.
    pub seconds: u64,
    /// The time since the router was heard, in seconds.
    pub heard: Option<u64>,
    /// Whether all routes of the router are in the table.
    pub complete: bool,
    /// The peers of the router that are up.
    pub peers: usize,
    /// The routes in the table, with those that are held.
    pub routes: usize,
    /// What the session has done.
    #[serde(flatten)]
    pub counts: Counts,
    /// How often the session was cut.
    pub cuts: u64,
    /// How often it was cut since the router was silent.
    pub stuck: u64,
    /// Why it was cut last.
    pub ended: Option<String>,
}

/// The learned routes and their sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LearnReport {
    /// The routes in the table.
    pub routes: usize,
    /// The routes for which the table had no room.
    pub refused: u64,
    /// The connections of addresses that are no routers.
    pub strangers: u64,
    /// The sessions, in the order of the configuration.
    pub sessions: Vec<SessionReport>,
    /// The last events, the oldest first.
    pub events: Vec<Event>,
}

/// The prefixes that a round learned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Known {
    /// The number of prefixes of users.
    pub prefixes: usize,
    /// The prefixes beyond the limit, which are left out.
    pub left_out: usize,
    /// The number of next hops that are at no router, as those of other networks.
    pub unknown_hops: usize,
    /// Those of them with the most prefixes, each with its number of prefixes.
    pub hops: Vec<(String, usize)>,
    /// Where the file of the topology and the reports of routers differ.
    pub topology: TopologyCheck,
}

impl Known {
    /// Returns what is known of `learned`.
    pub fn of(learned: &Learned) -> Self {
        let mut unknown: Vec<_> = learned.unknown.iter().collect();
        unknown.sort_by_key(|(_, prefixes)| std::cmp::Reverse(**prefixes));
        let hops = unknown.iter().take(NAMED).map(|(hop, prefixes)| {
            (hop.map_or("none".to_owned(), |hop| hop.to_string()), **prefixes)
        });
        Self {
            prefixes: learned.prefixes.len(),
            left_out: learned.left_out,
            unknown_hops: unknown.len(),
            hops: hops.collect(),
            topology: TopologyCheck::default(),
        }
    }
}

#[cfg(test)]
mod tests;
