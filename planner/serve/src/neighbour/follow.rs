//! What a provider does with the hints of an ISP. This module has no sockets, files or clocks.
//!
//! The answers come from another company, so nothing in them is trusted: hints outside of the
//! accepted prefixes, or at unknown entries, are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use forebay_plan::hints::bgp::Announcement;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::config::{Config, Entry};
pub use crate::store::Given;

/// The most hints that are taken.
pub const MAX_HINTS: usize = 1_000_000;
/// The local preference of routes that follow a hint, above the usual 100.
const PREFERENCE: u32 = 200;

/// The hints of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// The provider's name at the service.
    pub neighbour: String,
    /// The version, which grows when hints change.
    pub version: u64,
    /// The time of the last change, as the service says it.
    pub at: String,
    /// The entry for the traffic to each prefix.
    pub hints: Vec<Given>,
}

/// A prefix whose traffic moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The prefix whose traffic moves.
    pub prefix: IpNet,
    /// The entry of the hint in force, if there is one.
    pub from: Option<String>,
    /// The entry of the new hint; `None` if there is none any more.
    pub to: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, from, to } = self;
        match (from, to) {
            (Some(from), Some(to)) => write!(f, "move {prefix} from {from} to {to}"),
            (None, Some(to)) => write!(f, "send {prefix} through {to}"),
            (Some(from), None) => write!(f, "no longer send {prefix} through {from}"),
            (None, None) => write!(f, "leave {prefix}"),
        }
    }
}

/// A hint that is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    /// The hint as the service gave it.
    pub hint: Given,
    /// Why it is not followed.
    pub why: &'static str,
}

/// The hints that are followed, and those that are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// The hints that are followed.
    pub hints: Vec<Given>,
    /// Their routes, if they are fed to GoBGP.
    pub routes: Vec<Announcement>,
    /// The hints that are not followed.
    pub declined: Vec<Declined>,
}

/// Reads the answer to `GET /v1/hints`.
///
/// # Errors
/// If it is not one.
pub fn hints(answer: &Value) -> Result<Hints, String> {
    let hints = Hints::deserialize(answer).map_err(|e| format!("the hints cannot be read: {e}"))?;
    if hints.hints.len() > MAX_HINTS {
        return Err(format!("there are more than {MAX_HINTS} hints"));
    }
    Ok(hints)
}

/// Returns what changes from the hints in force to the new ones.
pub fn changes(last: &[Given], now: &[Given]) -> Vec<Change> {
    let by_prefix = |all: &[Given]| -> BTreeMap<IpNet, String> {
        all.iter().map(|g| (g.prefix, g.entry.clone())).collect()
    };
    let (last, now) = (by_prefix(last), by_prefix(now));
    let all: BTreeSet<IpNet> = last.keys().chain(now.keys()).copied().collect();
    let change = |prefix: IpNet| Change {
        prefix,
        from: last.get(&prefix).cloned(),
        to: now.get(&prefix).cloned(),
    };
    all.into_iter().map(change).filter(|change| change.from != change.to).collect()
}

/// Decides which hints are followed, and returns their routes.
pub fn follow(hints: &Hints, config: &Config) -> Followed {
    let mut followed = Followed::default();
    let mut seen = BTreeSet::new();
    for hint in &hints.hints {
        match allowed(hint, config, &mut seen) {
            Err(why) => followed.declined.push(Declined { hint: hint.clone(), why }),
            Ok(route) => {
                followed.hints.push(hint.clone());
                followed.routes.extend(route);
            }
        }
    }
    followed
}

/// Returns the route of a hint, if routes are wanted, or why the hint is not followed.
fn allowed(
    hint: &Given,
    config: &Config,
    seen: &mut BTreeSet<IpNet>,
) -> Result<Option<Announcement>, &'static str> {
    if hint.prefix != hint.prefix.trunc() {
        return Err("it has bits set after its length");
    }
    if config.accept.as_ref().is_some_and(|all| !all.iter().any(|net| net.contains(&hint.prefix))) {
        return Err("it is outside of the prefixes of `accept`");
    }
    if !seen.insert(hint.prefix) {
        return Err("it is the second one for its prefix");
    }
    if config.entries.is_empty() {
        return Ok(None);
    }
    let Some(entry) = config.entries.get(&hint.entry) else {
        return Err("its entry has no [[entry]]");
    };
    if !entry.usable {
        return Err("its entry is not usable");
    }
    let Some(gobgp) = &config.gobgp else { return Ok(None) };
    let Some(next_hop) = next_hop(entry, hint.prefix) else {
        return Err("its entry has no next hop of that IP version");
    };
    Ok(Some(Announcement {
        neighbour: "own routes".to_owned(),
        // A speaker has one route of its own to a prefix, whatever its next hop.
        peer: Ipv4Addr::UNSPECIFIED.into(),
        entry: hint.entry.clone(),
        speaker: Some(gobgp.speaker.clone()),
        prefix: hint.prefix,
        next_hop: Some(next_hop),
        med: None,
        prepends: 0,
        asn: None,
        community: None,
        local_preference: Some(PREFERENCE),
    }))
}

fn next_hop(entry: &Entry, prefix: IpNet) -> Option<IpAddr> {
    let own = entry.next_hop.filter(|hop| hop.is_ipv4() == prefix.addr().is_ipv4());
    let v6 = entry.next_hop_v6.filter(|_| prefix.addr().is_ipv6());
    v6.map(IpAddr::from).or(own)
}

/// Returns the names of usable entries, if the configuration has entries.
pub fn usable_entries(config: &Config) -> Option<BTreeSet<&str>> {
    let usable = config.entries.iter().filter(|(_, entry)| entry.usable);
    (!config.entries.is_empty()).then(|| usable.map(|(name, _)| name.as_str()).collect())
}

/// Returns the program that tells the service which of its inputs to avoid, all but the `usable`
/// ones; `None` if it knows that already. What the present program wishes stays.
///
/// # Errors
/// If an answer of the service cannot be read.
pub fn program(
    view: &Value,
    present: &Value,
    usable: &BTreeSet<&str>,
) -> Result<Option<Value>, String> {
    let list = |key: &str| {
        view[key].as_array().ok_or_else(|| format!("the vSwitch has no {key}: it cannot be read"))
    };
    let (inputs, outputs) = (list("inputs")?, list("outputs")?);
    let names = inputs.iter().map(|i| i.as_str().ok_or("an input has no name".to_owned()));
    let names: Vec<&str> = names.collect::<Result<_, _>>()?;
    let avoided: Vec<&str> = names.iter().copied().filter(|name| !usable.contains(name)).collect();
    let old = &present["program"];
    // Outputs of another view may have other numbers.
    let current = old["view"].is_null() || old["view"] == view["view"];
    let wishes = old["wishes"].as_array().filter(|_| current).cloned().unwrap_or_default();
    let pair =
        |value: &Value| Some((value["output"].as_u64()?, value["input"].as_str()?.to_owned()));
    let known: BTreeSet<(u64, String)> = match old["avoid"].as_array().filter(|_| current) {
        Some(all) => all.iter().filter_map(pair).collect(),
        None => BTreeSet::new(),
    };
    // The service must be left a way for each output.
    let all = avoided.len() == names.len();
    let wanted: BTreeSet<(u64, String)> = match all {
        true => BTreeSet::new(),
        false => (0..outputs.len() as u64)
            .flat_map(|output| avoided.iter().map(move |input| (output, (*input).to_owned())))
            .collect(),
    };
    if wanted == known {
        return Ok(None);
    }
    let avoid: Vec<Value> =
        wanted.iter().map(|(output, input)| json!({"output": output, "input": input})).collect();
    Ok(Some(json!({"view": view["view"], "wishes": wishes, "avoid": avoid})))
}

/// The time without an answer of the service, after which its hints are no longer followed.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    hold: Duration,
    /// The time of the last answer, or of the start.
    last: Duration,
    /// Whether the end of the time was told since then.
    told: bool,
}

impl Silence {
    /// Starts at `now`, on any clock.
    pub fn new(hold: Duration, now: Duration) -> Self {
        Self { hold, last: now, told: false }
    }

    /// Takes note of an answer.
    pub fn answered(&mut self, now: Duration) {
        (self.last, self.told) = (now, false);
    }

    /// Whether the time is over; only once after each answer.
    pub fn is_over(&mut self, now: Duration) -> bool {
        let over = now.saturating_sub(self.last) >= self.hold;
        over && !std::mem::replace(&mut self.told, over)
    }
}

#[cfg(test)]
mod tests;
