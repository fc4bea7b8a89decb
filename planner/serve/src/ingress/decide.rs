//! Decides what an ingress router steers at each moment. This module has no sockets, files or
//! clocks.
//!
//! What the service plans is steered as long as the service answers and the IGP reaches every
//! segment. Otherwise traffic returns to the IGP's routes, at once. What is steered again after
//! that, or changes, is damped as routes that flap are (RFC 2439).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use ipnet::IpNet;

use super::answer::{Flow, Paths, Way};
use super::change::{MAX_ROUTES, Segments, Split, Target, Wanted};
use super::config::{Config, Segment};
use crate::damping::{CHANGE, Penalty};

/// Shares that change by less than this, in percent, stay as they are.
const SAME: u16 = 5;
/// The most segments of a path. Each adds 16 octets to a packet.
pub const MAX_SEGMENTS: usize = 8;

/// The routers that a path is sent through, its end included, with the path's share in percent.
type Shares = BTreeMap<Vec<String>, u16>;

/// What is known of the traffic to one boundary router.
#[derive(Clone, Debug, Default)]
struct Known {
    /// What is steered, if anything is.
    steered: Option<(Shares, String)>,
    penalty: Penalty,
}

/// The state of an ingress router.
#[derive(Debug)]
pub struct Controller {
    config: Config,
    plan: Paths,
    /// The time of the last answer, or of the start.
    last: u64,
    answered: bool,
    known: BTreeMap<String, Known>,
}

impl Controller {
    /// Creates a controller at `now`, in milliseconds on any clock that does not go back.
    pub fn new(config: Config, now: u64) -> Self {
        let (plan, known) = (Paths::default(), BTreeMap::new());
        Self { config, plan, last: now, answered: false, known }
    }

    /// Returns the version of the plan; none before the first.
    pub fn version(&self) -> &str {
        &self.plan.version
    }

    /// Takes note that the service answered at `now` that the plan is the same.
    pub fn confirm(&mut self, now: u64) {
        (self.last, self.answered) = (now, true);
    }

    /// Takes a new plan at `now`.
    pub fn take(&mut self, plan: Paths, now: u64) {
        self.plan = plan;
        self.confirm(now);
    }

    /// Returns the time at which the present answer no longer counts.
    pub fn expiry(&self) -> u64 {
        let hold = u64::try_from(self.config.hold.as_millis()).unwrap_or(u64::MAX);
        self.last.saturating_add(hold)
    }

    /// Returns all segments that the plan uses, whose reachability counts.
    pub fn segments(&self) -> BTreeSet<Ipv6Addr> {
        let own = self.plan.flows.iter().filter(|flow| flow.entry == self.config.router);
        let routers = own.flat_map(|flow| {
            let via = flow.ways.iter().filter_map(|way| way.via.as_ref()).flatten();
            via.chain(std::iter::once(&flow.router))
        });
        let segments = routers.filter_map(|name| self.config.segments.get(name));
        segments.flat_map(Segment::addresses).collect()
    }

    /// Returns the wanted routes at `now`; `None` while neither an answer nor the end of the hold
    /// time came.
    pub fn target(&mut self, reachable: &BTreeSet<Ipv6Addr>, now: u64) -> Option<Target> {
        if now >= self.expiry() {
            for known in self.known.values_mut() {
                known.steered = None;
            }
            let hold = self.config.hold.as_millis();
            let otherwise = format!("the service gave no answer for {hold} ms");
            return Some(Target { otherwise, ..Target::default() });
        }
        if !self.answered {
            return None;
        }
        let otherwise = format!("round {} does not plan it", self.plan.round);
        let mut target = Target { otherwise, ..Target::default() };
        let all: BTreeSet<Ipv6Addr> =
            self.config.segments.values().flat_map(Segment::addresses).collect();
        let own = self.plan.flows.iter().filter(|flow| flow.entry == self.config.router);
        let flows: BTreeMap<&String, &Flow> = own.map(|flow| (&flow.router, flow)).collect();
        for (router, known) in &mut self.known {
            if !flows.contains_key(router) {
                known.steered = None;
            }
        }
        self.known.retain(|router, known| {
            let flaps = known.penalty.decayed(&self.config.damping, now).value >= 1.0;
            flaps || flows.contains_key(router)
        });
        let outputs: BTreeMap<&String, &[IpNet]> =
            self.plan.outputs.iter().map(|output| (&output.router, &output.prefixes[..])).collect();
        for (router, flow) in flows {
            let prefixes = outputs.get(router).copied().unwrap_or_default();
            let known = self.known.entry(router.clone()).or_default();
            match choose(flow, known, &self.config, self.plan.round, reachable, now) {
                Ok((families, reason)) => {
                    for prefix in prefixes {
                        let split = &families[usize::from(matches!(prefix, IpNet::V6(_)))];
                        add(&mut target, *prefix, split, &reason, (self.config.metric, &all));
                    }
                }
                Err(why) => {
                    known.steered = None;
                    target.reasons.extend(prefixes.iter().map(|prefix| (*prefix, why.clone())));
                }
            }
        }
        Some(target)
    }
}

/// The segments of a flow's paths in one family, or why that family is not steered.
type Family = Result<Split, String>;

/// Adds the route of a prefix to the target, with this metric, or the reason why it has none. No
/// prefix with one of `all` segments is steered.
fn add(
    target: &mut Target,
    prefix: IpNet,
    split: &Family,
    reason: &str,
    (metric, all): (u32, &BTreeSet<Ipv6Addr>),
) {
    let has_segment = match prefix {
        IpNet::V4(_) => false,
        IpNet::V6(net) => all.range(net.network()..=net.broadcast()).next().is_some(),
    };
    let result = match split {
        Err(why) => Err(why.clone()),
        Ok(_) if target.routes.len() >= MAX_ROUTES => {
            Err(format!("there are {MAX_ROUTES} routes already"))
        }
        Ok(_) if has_segment => {
            Err("it contains a segment, whose packets would be steered again and again".to_owned())
        }
        Ok(split) => Ok(Wanted { split: split.clone(), reason: reason.to_owned() }),
    };
    match result {
        Ok(wanted) => drop(target.routes.insert((prefix, metric), wanted)),
        Err(why) => drop(target.reasons.insert(prefix, why)),
    }
}

/// Chooses between the planned paths of a flow and those that are steered at present. Returns their
/// segments for IPv4 and IPv6.
fn choose(
    flow: &Flow,
    known: &mut Known,
    config: &Config,
    round: u64,
    reachable: &BTreeSet<Ipv6Addr>,
    now: u64,
) -> Result<([Family; 2], String), String> {
    let families = |shares: &Shares| -> Result<[Family; 2], String> {
        let of = |v6| split(shares, &config.segments, v6, reachable);
        Ok([of(false)?, of(true)?])
    };
    let planned = shares(flow)?;
    let wanted = families(&planned)?;
    let penalty = known.penalty.decayed(&config.damping, now);
    let is_damped = penalty.refused_for(&config.damping, now).is_some();
    if let Some((shares, reason)) = &known.steered
        && (is_close(shares, &planned) || is_damped)
        && let Ok(present) = families(shares)
    {
        return Ok((present, reason.clone()));
    }
    if is_damped {
        return Err(format!("its paths to {} changed too often, and are damped", flow.router));
    }
    known.penalty = penalty.after(CHANGE, &config.damping, now);
    let reason = format!("round {round}, to {}: {}", flow.router, words(flow));
    known.steered = Some((planned, reason.clone()));
    Ok((wanted, reason))
}

/// Describes the paths of a flow.
fn words(flow: &Flow) -> String {
    let total: f64 = flow.ways.iter().map(|way| way.rate).sum();
    let way = |way: &Way| format!("{:.0} % {}", 100.0 * way.rate / total, way.path.join(" - "));
    flow.ways.iter().map(way).collect::<Vec<_>>().join(", ")
}

/// Returns the shares of a flow's paths in whole percents. Paths with less than half a percent are
/// left out.
fn shares(flow: &Flow) -> Result<Shares, String> {
    let total: f64 = flow.ways.iter().map(|way| way.rate).sum();
    let mut shares = Shares::new();
    for way in &flow.ways {
        let share = (100.0 * way.rate / total).round();
        // Also false for no number, which the plan never has.
        if !(1.0..=100.0).contains(&share) {
            continue;
        }
        let via = way.via.as_ref().ok_or_else(|| {
            let why = way.why.as_deref().unwrap_or("the service gives none");
            format!("the path {} has no segments: {why}", way.path.join(" - "))
        })?;
        let through = via.iter().chain(std::iter::once(&flow.router)).cloned().collect();
        *shares.entry(through).or_default() += share as u16;
    }
    if shares.is_empty() {
        return Err(format!("the plan has no traffic to {}", flow.router));
    }
    Ok(shares)
}

fn is_close(present: &Shares, planned: &Shares) -> bool {
    present.keys().eq(planned.keys())
        && present.values().zip(planned.values()).all(|(a, b)| a.abs_diff(*b) < SAME)
}

/// Returns the segments of paths for one family, with their shares. A family whose last segment is
/// not configured is not steered.
///
/// # Errors
/// If another segment is not configured, or one cannot be reached: then both families return to the
/// IGP.
fn split(
    shares: &Shares,
    segments: &BTreeMap<String, Segment>,
    v6: bool,
    reachable: &BTreeSet<Ipv6Addr>,
) -> Result<Family, String> {
    let mut split = Split::new();
    for (through, share) in shares {
        let Some((last, via)) = through.split_last() else { continue };
        let mut list = Segments::new();
        for router in via {
            let end = segments.get(router).and_then(|s| s.end);
            list.push(end.ok_or_else(|| format!("{router} has no segment `end` here"))?);
        }
        let decapsulate = segments.get(last).and_then(|s| if v6 { s.end_dt6 } else { s.end_dt4 });
        let Some(decapsulate) = decapsulate else {
            let family = if v6 { "IPv6" } else { "IPv4" };
            return Ok(Err(format!("no segment decapsulates {family} at {last}")));
        };
        list.push(decapsulate);
        if list.len() > MAX_SEGMENTS {
            return Err(format!("a path has more than {MAX_SEGMENTS} segments"));
        }
        if let Some(lost) = list.iter().find(|segment| !reachable.contains(segment)) {
            return Err(format!("segment {lost} cannot be reached"));
        }
        split.insert(list, *share);
    }
    Ok(Ok(split))
}

#[cfg(test)]
mod tests;
