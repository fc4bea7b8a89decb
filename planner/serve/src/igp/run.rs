//! Compares the routers' metrics with the wanted ones, and changes them one at a time.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use forebay_config::ConfigError;
use forebay_plan::network::Network;
use forebay_plan::topology::{LinkId, Topology};
use forebay_plan::weights::{Fullest, Order, Range, Step, order};

use super::config::{Config, Igp, Router};
use super::damped;
use super::frr::{Frr, Interface, Setting, Wanted};
use super::journal::Journal;
use super::metrics::{Instance, Metrics};
use super::possible::possible;
use crate::command::CommandError;
use crate::damping::CHANGE;
use crate::lock::Lock;

/// The time that a start waits for another process that ends.
const START_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval at which a stop is noticed.
const POLL: Duration = Duration::from_millis(50);

/// Why metrics cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration does not fit the topology.
    #[error("{file}: {message}", file = .0.display(), message = .1)]
    Unfit(PathBuf, String),
    /// A router's metrics cannot be read or changed.
    #[error("{0}: {1}")]
    Router(String, CommandError),
    /// A router has another metric than the one that was set.
    #[error("{router}: {interface} has {found} instead of {wanted} after the change")]
    NotTaken {
        /// The name of the router.
        router: String,
        /// The name of its interface.
        interface: String,
        /// What the router says.
        found: String,
        /// What was set.
        wanted: String,
    },
    /// A step would overload a link.
    #[error(
        "after {step} the link {link} would have {load:.0} % of its capacity, more than before the \
         first change and after the last: use --anyway to do it nevertheless"
    )]
    Overload {
        /// The change in words.
        step: String,
        /// Both ends of the link.
        link: String,
        /// The offered load in percent.
        load: f64,
    },
    /// The metrics were changed too often.
    #[error(
        "the metrics were changed too often within a short time: try again in {} min, or use \
         --anyway to do it nevertheless", .0.as_secs().div_ceil(60)
    )]
    Damped(Duration),
    /// Another process changes the same metrics.
    #[error("{0} is in use by another running forebay process: stop that first")]
    InUse(PathBuf),
    /// The journal cannot be written.
    #[error("cannot write {0}: {1}")]
    Journal(PathBuf, io::Error),
    /// The operator stopped the command.
    #[error(
        "stopped after {0} of {1} changes: --apply goes on, --withdraw brings the earlier back"
    )]
    Stopped(usize, usize),
}

/// What the routers have, and what would change.
#[derive(Debug)]
pub struct Looked {
    /// The changes, in their order, with the loads of links.
    pub order: Order,
    /// Links whose metric at the router differs from that of the topology, in words. The order
    /// starts from the router's.
    pub differing: Vec<String>,
    pub(super) present: BTreeMap<LinkId, Interface>,
}

/// How changes are made.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// The reason for the change, which the journal keeps.
    pub reason: &'a str,
    /// Whether changes that overload a link in between are made, and changes that come too often.
    pub anyway: bool,
    /// The present time, in milliseconds since 1970.
    pub now: u64,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The change in words, with its reason.
    pub text: String,
    /// Its number, from 1.
    pub number: usize,
    /// The number of all changes.
    pub of: usize,
}

/// The parts that all functions need.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// The routers with their interfaces.
    pub config: &'a Config,
    /// The topology, and the traffic by which changes are ordered.
    pub network: &'a Network,
}

impl Session<'_> {
    pub(super) fn topology(&self) -> &Topology {
        &self.network.topology
    }

    pub(super) fn names(&self, link: LinkId) -> (&str, &str) {
        let link = self.topology().link(link);
        let name = |router: forebay_plan::topology::RouterId| {
            self.topology().routers()[router.index()].name.as_str()
        };
        (name(link.from), name(link.to))
    }

    /// Returns the router and the interface of a link, if the configuration has it.
    pub(super) fn find(&self, link: LinkId) -> Option<(&Router, &str)> {
        let (from, to) = self.names(link);
        let router = self.config.routers.get(from)?;
        Some((router, router.interfaces.get(to)?))
    }

    /// Describes a step with the loads that it leads to.
    pub fn words(&self, step: &Step) -> String {
        let (from, to) = self.names(step.link);
        let interface = self.find(step.link).map_or("?", |found| found.1);
        let Step { from: old, to: new, .. } = step;
        format!("{from} to {to} ({interface}): {old} to {new}; {}", self.fullest(&step.fullest))
    }

    /// Describes the fullest link.
    pub fn fullest(&self, fullest: &Fullest) -> String {
        match fullest.link {
            None => "no link with a capacity has traffic".to_owned(),
            Some(link) => {
                let (from, to) = self.names(link);
                format!("the fullest link has {:.0} % ({from} - {to})", fullest.load * 100.0)
            }
        }
    }

    fn unfit(&self, message: String) -> Error {
        Error::Unfit(self.config.file.clone(), message)
    }

    /// Reads the interfaces of all links that the configuration has.
    fn read(&self) -> Result<BTreeMap<LinkId, Interface>, Error> {
        let mut by_router: BTreeMap<&str, BTreeMap<String, Interface>> = BTreeMap::new();
        for (name, router) in &self.config.routers {
            let read = Frr::new(router).read();
            by_router.insert(name, read.map_err(|e| Error::Router(name.clone(), e))?);
        }
        let links = (0..self.topology().links().len() as u32).map(LinkId);
        let mut present = BTreeMap::new();
        for link in links {
            let Some((router, interface)) = self.find(link) else { continue };
            let (from, to) = self.names(link);
            let found = by_router.get(from).and_then(|all| all.get(interface)).copied();
            let metrics = found.map(|found| found.metrics).unwrap_or_default();
            if let Some(lacks) = router.igp.lacks(&metrics) {
                let message =
                    format!("{interface} of {from}, to {to}, has no {lacks} at the router");
                return Err(self.unfit(message));
            }
            present.extend(found.map(|found| (link, found)));
        }
        Ok(present)
    }

    /// Reads the journal, whose metrics must be of the routers' protocol.
    fn journal(&self) -> Result<Journal, Error> {
        let path = &self.config.journal;
        let journal = Journal::read(path)?;
        for ((name, _), metrics) in journal.earlier() {
            let Some(router) = self.config.routers.get(name) else { continue };
            let of_ospf = metrics.v2.is_some();
            if of_ospf != matches!(router.igp, Igp::Ospf { .. }) {
                let igp = if of_ospf { "ospf" } else { "isis" };
                return Err(self.unfit(format!(
                    "has another `igp` than {}: use --withdraw with igp = {igp:?} first",
                    path.display()
                )));
            }
        }
        Ok(journal)
    }

    /// Checks that the configuration has no router or link that the topology lacks.
    fn check(&self) -> Result<(), Error> {
        let routers = self.topology().by_name();
        let unfit = |message: String| Err(self.unfit(message));
        for (name, router) in &self.config.routers {
            let Some(from) = routers.get(name.as_str()) else {
                return unfit(format!("the topology has no router {name:?}"));
            };
            for to in router.interfaces.keys() {
                let is =
                    |id: &LinkId| routers.get(to.as_str()) == Some(&self.topology().link(*id).to);
                match self.topology().leaving(*from).iter().filter(|id| is(id)).count() {
                    1 => {}
                    0 => return unfit(format!("the topology has no link from {name} to {to}")),
                    _ => {
                        return unfit(format!(
                            "the topology has several links from {name} to {to}: make them one"
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the metrics that all links of the configuration take. Routers with IS-IS are asked for
/// the style of their metrics.
///
/// # Errors
/// If the configuration does not fit the topology, or a router does not answer.
pub fn range(session: &Session<'_>) -> Result<Range, Error> {
    let is_isis = |router: &Router| matches!(router.igp, Igp::Isis { .. });
    if !session.config.routers.values().any(is_isis) {
        return Ok(Range::OSPF);
    }
    session.check()?;
    let present = session.read()?;
    Ok(present.values().map(|found| found.range).fold(Range::WIDE, Range::and))
}

/// Reads the routers' metrics, and returns what would change to `wanted`; changes nothing.
///
/// # Errors
/// If the configuration lacks a link that changes or does not fit the topology, a router does not
/// answer, or a change is not possible.
pub fn look(session: &Session<'_>, wanted: &[(LinkId, u32)]) -> Result<Looked, Error> {
    let looked = compare(session, wanted)?;
    possible(session, &looked).map_err(|message| session.unfit(message))?;
    Ok(looked)
}

/// Returns what would change to `wanted`, whether it is possible or not.
fn compare(session: &Session<'_>, wanted: &[(LinkId, u32)]) -> Result<Looked, Error> {
    session.check()?;
    let present = session.read()?;
    let mut network = session.network.clone();
    let mut differing = Vec::new();
    for (link, found) in &present {
        let old = network.topology.link(*link).metric;
        let Some((router, _)) = session.find(*link) else { continue };
        let Some(value) = router.igp.metric(&found.metrics) else { continue };
        let (from, to) = session.names(*link);
        differing.extend(
            router.igp.unequal(&found.metrics).map(|what| format!("{from} to {to} {what}")),
        );
        if value != old {
            differing.push(format!("{from} to {to} has {value}, and {old} in the topology"));
            // IS-IS takes 0 too, which the planner does not.
            network.topology.set_metric(*link, value.max(1));
        }
    }
    Ok(Looked { order: order(&network, wanted), differing, present })
}

/// Makes the changes of `looked`, one at a time, with the time to settle between them. `tell` gets
/// a line for each.
///
/// Each call that changes something counts as one change for damping.
///
/// # Errors
/// If a link would be overloaded, if there were too many changes before, or if a change fails: the
/// rest is not made then.
pub fn apply(
    session: &Session<'_>,
    looked: &Looked,
    how: How<'_>,
    stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Made),
) -> Result<(), Error> {
    if let (Some(step), false) = (looked.order.overloads().first(), how.anyway) {
        let link = step.fullest.link.map_or(("?", "?"), |link| session.names(link));
        return Err(Error::Overload {
            step: session.words(step),
            link: format!("{} - {}", link.0, link.1),
            load: step.fullest.load * 100.0,
        });
    }
    let _lock = lock(session)?;
    let mut journal = session.journal()?;
    let of = looked.order.steps.len();
    if of > 0 {
        count_change(session, how)?;
    }
    for (step, number) in looked.order.steps.iter().zip(1..) {
        if stopped() {
            return Err(Error::Stopped(number - 1, of));
        }
        let Some((router, interface)) = session.find(step.link) else { continue };
        let name = session.names(step.link).0;
        let Some(present) = looked.present.get(&step.link) else { continue };
        let (mut changed, mut settings) = (Metrics::default(), Vec::new());
        for instance in router.igp.instances(&present.metrics) {
            changed.put(instance, present.metrics.get(instance));
            settings.push(Setting { instance, wanted: Wanted::Metric(step.to) });
        }
        journal
            .note(name, interface, changed)
            .map_err(|e| Error::Journal(session.config.journal.clone(), e))?;
        set(name, router, interface, &settings)?;
        tell(Made { text: format!("{}; {}", session.words(step), how.reason), number, of });
        if number < of {
            settle(session.config.settle, stopped);
        }
    }
    Ok(())
}

/// Brings back the metrics that routers had before the first change, in a safe order. A router that
/// the configuration lacks now is an error.
///
/// # Errors
/// If a change fails: the rest is not made then, and can be tried again.
pub fn withdraw(
    session: &Session<'_>,
    stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Made),
) -> Result<(), Error> {
    let _lock = lock(session)?;
    let mut journal = session.journal()?;
    let links = (0..session.topology().links().len() as u32).map(LinkId);
    let mut earlier: BTreeMap<LinkId, Metrics> = BTreeMap::new();
    for link in links {
        if let Some((_, interface)) = session.find(link) {
            let key = (session.names(link).0.to_owned(), interface.to_owned());
            earlier.extend(journal.earlier().get(&key).map(|metrics| (link, *metrics)));
        }
    }
    if earlier.len() < journal.earlier().len() {
        let message = format!(
            "lacks some of the {} interfaces that {} has",
            journal.earlier().len(),
            session.config.journal.display()
        );
        return Err(Error::Unfit(session.config.file.clone(), message));
    }
    let wanted = |(link, metrics): (&LinkId, &Metrics)| {
        let (router, _) = session.find(*link)?;
        Some((*link, router.igp.metric(metrics)?))
    };
    let wanted: Vec<(LinkId, u32)> = earlier.iter().filter_map(wanted).collect();
    let steps = compare(session, &wanted)?.order.steps;
    // Links that have the metric already may have it in their configuration only since then.
    let moved: Vec<LinkId> = steps.iter().map(|step| step.link).collect();
    let same = earlier.keys().filter(|link| !moved.contains(link)).map(|link| (*link, None));
    let all: Vec<(LinkId, Option<Step>)> =
        steps.iter().map(|step| (step.link, Some(*step))).chain(same).collect();
    let of = all.len();
    for ((link, step), number) in all.into_iter().zip(1..) {
        if stopped() {
            return Err(Error::Stopped(number - 1, of));
        }
        let (Some((router, interface)), Some(metrics)) = (session.find(link), earlier.get(&link))
        else {
            continue;
        };
        let name = session.names(link).0;
        set(name, router, interface, &before(metrics))?;
        journal
            .forget(name, interface)
            .map_err(|e| Error::Journal(session.config.journal.clone(), e))?;
        let text = match &step {
            Some(step) => session.words(step),
            None => format!("{name} ({interface}) as it was configured"),
        };
        tell(Made { text: format!("{text}; the operator withdraws everything"), number, of });
        if number < of && step.is_some() {
            settle(session.config.settle, stopped);
        }
    }
    Ok(())
}

/// Returns what makes the configuration what it was.
fn before(metrics: &Metrics) -> Vec<Setting> {
    let setting = |instance| {
        let metric = metrics.get(instance)?;
        let wanted = if metric.configured { Wanted::Metric(metric.value) } else { Wanted::Usual };
        Some(Setting { instance, wanted })
    };
    Instance::ALL.into_iter().filter_map(setting).collect()
}

/// Sets the metrics of an interface, and reads them again.
fn set(name: &str, router: &Router, interface: &str, settings: &[Setting]) -> Result<(), Error> {
    let frr = Frr::new(router);
    let fail = |e| Error::Router(name.to_owned(), e);
    frr.set(interface, settings).map_err(fail)?;
    let interfaces = frr.read().map_err(fail)?;
    for Setting { instance, wanted } in settings.iter().copied() {
        let found = interfaces.get(interface).and_then(|found| found.metrics.get(instance));
        let taken = match (wanted, found) {
            (Wanted::Metric(wanted), Some(found)) => found.value == wanted,
            (Wanted::Usual, Some(found)) => !found.configured,
            (_, None) => false,
        };
        if !taken {
            return Err(Error::NotTaken {
                router: name.to_owned(),
                interface: interface.to_owned(),
                found: found.map_or("no metric".to_owned(), |m| m.value.to_string()),
                wanted: match wanted {
                    Wanted::Metric(metric) => metric.to_string(),
                    Wanted::Usual => "its usual metric".to_owned(),
                },
            });
        }
    }
    Ok(())
}

/// Returns the time until changes are accepted again; `None` if they are accepted now.
///
/// # Errors
/// If the record of earlier changes cannot be read.
pub fn damped_for(session: &Session<'_>, now: u64) -> Result<Option<Duration>, Error> {
    let penalty = damped::read(&damped::path(&session.config.journal))?;
    let wait = penalty.refused_for(&damped::limits(session.config.half_life), now);
    Ok(wait.map(Duration::from_millis))
}

/// Takes note of a change that begins, if it may.
fn count_change(session: &Session<'_>, how: How<'_>) -> Result<(), Error> {
    if let (Some(wait), false) = (damped_for(session, how.now)?, how.anyway) {
        return Err(Error::Damped(wait));
    }
    let path = damped::path(&session.config.journal);
    let limits = damped::limits(session.config.half_life);
    let penalty = damped::read(&path)?.after(CHANGE, &limits, how.now);
    damped::write(&path, &penalty).map_err(|e| Error::Journal(path, e))
}

fn lock(session: &Session<'_>) -> Result<Lock, Error> {
    let path = &session.config.journal;
    Lock::of(path, START_TIMEOUT).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::InUse(path.clone()),
        _ => Error::Journal(path.clone(), e),
    })
}

/// Waits until routers have learned of a change, or the command is stopped.
fn settle(time: Duration, stopped: &dyn Fn() -> bool) {
    let end = Instant::now() + time;
    while !stopped() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(POLL.min(left));
    }
}

#[cfg(test)]
mod tests;
