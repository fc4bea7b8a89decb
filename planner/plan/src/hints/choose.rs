//! Derives hints from a plan: selects the prefixes, and the neighbours whose hints gain enough.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::hints::divide::{Piece, divide, parts};
use crate::hints::in_force::InForce;
use crate::hints::steering::{Aggregate, Steering, moved};
use crate::hints::{Config, Hint, Hints, Neighbour, Part, Profile, Setting, State, VERSION};
use crate::lp::SolveError;
use crate::network::Network;
use crate::paths::PathCache;
use crate::plan::Routing;
use crate::topology::RouterId;

/// The least part of an aggregate that a hint moves: demands are not known more exactly.
const MIN_MOVE: f64 = 0.05;
/// The part of an aggregate above which an entry counts as having all of it.
const ALL: f64 = 0.999;

/// The hints that one provider could get.
#[derive(Clone, Debug, Default, PartialEq)]
struct Candidate {
    /// For each aggregate with a change: the prefixes with hints, and the parts by entry if they
    /// are followed.
    aggregates: BTreeMap<Aggregate, (Vec<Piece>, Vec<f64>)>,
    notes: Vec<String>,
}

struct Chooser<'a> {
    setting: Setting<'a>,
    /// The prefixes behind each boundary router, with their parts of its traffic.
    behind: BTreeMap<RouterId, Vec<(IpNet, f64)>>,
    in_force: InForce,
    measured: Steering,
    /// The parts by entry if the hints in force are followed.
    base: Steering,
}

/// Returns `setting`'s network with its demands at the entries where they come in if the hints in
/// `told` are followed, and no others.
pub fn followed(setting: Setting<'_>, told: &Hints) -> Network {
    Chooser::new(setting, told).base.apply(setting.network)
}

/// Computes hints for the neighbours that participate; `last` are the hints in force.
///
/// Hints in force count as followed. Whether a neighbour follows them is shown beside them, and is
/// no reason to give them again. The same input gives the same hints.
///
/// # Errors
/// If the solver fails.
pub fn hints(
    setting: Setting<'_>,
    paths: &mut PathCache,
    config: &Config,
    last: &Hints,
) -> Result<Hints, SolveError> {
    let chooser = Chooser::new(setting, last);
    let network = chooser.base.apply(setting.network);
    let present = Routing::present(&network, paths, &config.plan.method)?;
    let proposed = Routing::proposed(&network, paths, &config.plan, &present)?;
    let target = Steering::proposed(&network, &proposed);
    let mut carried = |steering: &Steering| -> Result<f64, SolveError> {
        let network = steering.apply(setting.network);
        Ok(Routing::inside(&network, paths, &config.plan, &present)?.total())
    };
    let before = carried(&chooser.base)?;
    let mut candidates: BTreeMap<u32, Candidate> = BTreeMap::new();
    for (provider, number) in setting.network.providers.iter().zip(0..) {
        if provider.participates && provider.entries.len() > 1 {
            candidates.insert(number, chooser.candidate(number, &target));
        }
    }

    // Start with all changes, then drop the neighbours with the least gain one after the other.
    let mut steering = chooser.base.clone();
    let changing: Vec<u32> =
        candidates.iter().filter(|(_, c)| !c.aggregates.is_empty()).map(|(n, _)| *n).collect();
    for number in &changing {
        for (aggregate, (_, parts)) in &candidates[number].aggregates {
            steering.set(*aggregate, parts.clone());
        }
    }
    let mut after = if changing.is_empty() { before } else { carried(&steering)? };
    let mut order = Vec::new();
    for number in changing {
        let without = chooser.without(&steering, &candidates[&number]);
        order.push((after - carried(&without)?, number));
    }
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut gains: BTreeMap<u32, f64> = BTreeMap::new();
    for (_, number) in order {
        let without = chooser.without(&steering, &candidates[&number]);
        let left = carried(&without)?;
        if after - left < config.gain * before {
            (steering, after) = (without, left);
        } else {
            gains.insert(number, after - left);
        }
    }
    // Together, changes may gain less than each does beside the others. In that case nothing
    // changes.
    if !gains.is_empty() && after - before < config.gain * before {
        (steering, after) = (chooser.base.clone(), before);
        gains.clear();
    }

    let mut lapsed = Vec::new();
    for number in chooser.in_force.providers() {
        if gains.contains_key(&number) {
            continue;
        }
        let mut without = steering.clone();
        for (aggregate, was) in chooser.in_force.before(number) {
            without.set(aggregate, was.to_vec());
        }
        let left = carried(&without)?;
        if after - left <= config.release * before {
            lapsed.push(number);
            (steering, after) = (without, left);
        } else {
            gains.insert(number, after - left);
            candidates.entry(number).or_default().aggregates.clear();
        }
    }
    let neighbours = (0..setting.network.providers.len() as u32).filter_map(|number| {
        let candidate = candidates.remove(&number).unwrap_or_default();
        chooser.neighbour(number, &candidate, gains.get(&number).copied(), lapsed.contains(&number))
    });
    let gone = chooser.in_force.gone().iter().map(|(name, hints)| Neighbour {
        name: name.clone(),
        gain: 0.0,
        followed: None,
        hints: Vec::new(),
        withdrawn: hints.clone(),
        notes: vec!["is no longer in the file of providers".to_owned()],
    });
    let neighbours = neighbours.chain(gone);
    Ok(Hints {
        version: VERSION,
        network: setting.network.topology.name().to_owned(),
        demand: setting.network.demands.iter().map(|d| d.rate.as_bps() as f64).sum(),
        before,
        after,
        neighbours: neighbours.collect(),
    })
}

impl<'a> Chooser<'a> {
    fn new(setting: Setting<'a>, last: &Hints) -> Self {
        let mut behind: BTreeMap<RouterId, Vec<(IpNet, f64)>> = BTreeMap::new();
        for (prefix, users) in setting.prefixes {
            if let Some(boundary) = setting.map.boundary[users.router.index()] {
                behind.entry(boundary).or_default().push((*prefix, users.share));
            }
        }
        for prefixes in behind.values_mut() {
            let all: f64 = prefixes.iter().map(|p| p.1).sum();
            prefixes.iter_mut().for_each(|p| p.1 /= all);
        }
        let in_force = InForce::of(&setting, &behind, last);
        let measured = Steering::of(setting.network);
        let mut base = measured.clone();
        for number in in_force.providers() {
            for (aggregate, was) in in_force.before(number) {
                if measured.get(aggregate).is_some() {
                    base.set(aggregate, spread(in_force.pieces(aggregate), was));
                }
            }
        }
        Self { setting, behind, in_force, measured, base }
    }

    /// Returns the hints with which the traffic of provider `number` comes in as `target` says.
    fn candidate(&self, number: u32, target: &Steering) -> Candidate {
        let profile = &self.setting.profiles[number as usize];
        let mut out = Candidate::default();
        if !profile.can_receive_hints() {
            out.notes.push(
                "cannot receive hints: it has no BGP session and does not read the service"
                    .to_owned(),
            );
            return out;
        }
        let mut budget = profile.accepts.prefixes;
        let (mut silent, mut unknown, mut over) = (0, 0, 0);
        for (egress, prefixes) in &self.behind {
            let aggregate = (number, *egress);
            let (Some(base), Some(target)) = (self.base.get(aggregate), target.get(aggregate))
            else {
                continue;
            };
            let force = self.in_force.pieces(aggregate);
            if moved(base, target) < MIN_MOVE {
                budget = budget.saturating_sub(self.cost(profile, force));
                continue;
            }
            let was = self.in_force.was(aggregate).or(self.measured.get(aggregate)).unwrap_or(base);
            let home = was.iter().position(|part| *part >= ALL);
            let pieces = prefixes.iter().map(|(prefix, share)| {
                let own = force.iter().find(|p| p.prefix == *prefix).and_then(|p| p.entry);
                Piece { prefix: *prefix, of: *prefix, share: *share, entry: own.or(home) }
            });
            let mut halvings = profile.accepts.prefixes;
            let may_halve = |prefix: &IpNet| {
                let fits =
                    prefix.prefix_len() < profile.longest(prefix) && !self.holds_others(prefix);
                fits && halvings.checked_sub(1).map(|left| halvings = left).is_some()
            };
            let mut told = divide(pieces, target, may_halve);
            told.retain(|p| p.entry != home || home.is_none());
            // The largest prefixes come first, within the neighbour's limit.
            told.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.prefix.cmp(&b.prefix)));
            told.retain(|piece| {
                match profile.method(&piece.prefix, piece.prefix == piece.of, self.setting.asn) {
                    _ if profile.accepts.api => true,
                    Some((_, cost)) if cost <= budget => {
                        budget -= cost;
                        true
                    }
                    Some(_) => {
                        over += 1;
                        false
                    }
                    None => {
                        silent += 1;
                        false
                    }
                }
            });
            told.sort_by_key(|p| p.prefix);
            let parts = spread(&told, was);
            if told == force || moved(base, &parts) < MIN_MOVE / 2.0 {
                continue;
            }
            out.aggregates.insert(aggregate, (told, parts));
        }
        for demand in self.setting.network.demands.iter().filter(|d| d.provider == number) {
            unknown += usize::from(!self.behind.contains_key(&demand.egress));
        }
        let mut note = |count: usize, text: &str| {
            if count > 0 {
                out.notes.push(format!("{count} {text}"));
            }
        };
        note(
            silent,
            "prefixes that BGP cannot carry a hint for: longer than it accepts, or `asn` is missing",
        );
        note(over, "prefixes beyond its limit");
        note(unknown, "aggregates to routers without a known prefix");
        out
    }

    fn cost(&self, profile: &Profile, pieces: &[Piece]) -> usize {
        let cost = |p: &Piece| profile.method(&p.prefix, p.prefix == p.of, self.setting.asn);
        pieces.iter().filter_map(|p| cost(p).map(|c| c.1)).sum()
    }

    /// Whether the file has another prefix within the prefix that `part` belongs to: halves could
    /// overlap it.
    fn holds_others(&self, part: &IpNet) -> bool {
        // In the order of prefixes, those inside a prefix follow it directly.
        let next = self.setting.prefixes.range(part..).find(|(p, _)| *p != part);
        next.is_some_and(|(p, _)| part.contains(p))
    }

    /// Returns `steering` without the candidate's changes.
    fn without(&self, steering: &Steering, candidate: &Candidate) -> Steering {
        let mut without = steering.clone();
        for aggregate in candidate.aggregates.keys() {
            if let Some(base) = self.base.get(*aggregate) {
                without.set(*aggregate, base.to_vec());
            }
        }
        without
    }

    fn neighbour(
        &self,
        number: u32,
        candidate: &Candidate,
        gain: Option<f64>,
        lapsed: bool,
    ) -> Option<Neighbour> {
        let new = gain.is_some() && !candidate.aggregates.is_empty();
        let mut hints = Vec::new();
        let mut withdrawn = self.in_force.lost(number).to_vec();
        let old: Vec<(Aggregate, Piece)> = self.in_force.all(number).collect();
        if !lapsed {
            let replaced = |a: &Aggregate| new && candidate.aggregates.contains_key(a);
            for (aggregate, piece) in old.iter().filter(|(a, _)| !replaced(a)) {
                hints.extend(self.hint(*aggregate, piece, State::Kept));
            }
        }
        if new {
            for (aggregate, (pieces, _)) in &candidate.aggregates {
                for piece in pieces {
                    let was = old.iter().find(|(_, p)| p.prefix == piece.prefix).map(|(_, p)| p);
                    let state = match was {
                        None => State::New,
                        Some(was) if was.entry == piece.entry => State::Kept,
                        Some(_) => State::Moved,
                    };
                    hints.extend(self.hint(*aggregate, piece, state));
                }
            }
        }
        for (aggregate, piece) in &old {
            if !hints.iter().any(|h| h.prefix == piece.prefix) {
                withdrawn.extend(self.hint(*aggregate, piece, State::Kept));
            }
        }
        hints.sort_by_key(|h| h.prefix);
        if hints.is_empty() && withdrawn.is_empty() && candidate.notes.is_empty() {
            return None;
        }
        Some(Neighbour {
            name: self.setting.network.providers[number as usize].name.clone(),
            gain: if hints.is_empty() { 0.0 } else { gain.unwrap_or(0.0) },
            followed: self.in_force.followed(number, &self.measured),
            hints,
            withdrawn,
            notes: candidate.notes.clone(),
        })
    }

    fn hint(&self, aggregate: Aggregate, piece: &Piece, state: State) -> Option<Hint> {
        let (number, egress) = aggregate;
        let network = self.setting.network;
        let entries = &network.providers[number as usize].entries;
        let name = |router: RouterId| network.topology.routers()[router.index()].name.clone();
        let was = self.in_force.was(aggregate).or(self.measured.get(aggregate)).unwrap_or(&[]);
        let before = was.iter().zip(entries).filter(|(part, _)| **part > 0.0);
        let asked = network.demands.iter().filter(|d| (d.provider, d.egress) == aggregate);
        let profile = &self.setting.profiles[number as usize];
        // A neighbour that reads the service needs no BGP attribute.
        let bgp = !profile.accepts.api;
        let method = profile.method(&piece.prefix, piece.prefix == piece.of, self.setting.asn);
        Some(Hint {
            prefix: piece.prefix,
            of: piece.of,
            entry: name(entries[piece.entry?].router),
            router: name(egress),
            before: before.map(|(part, e)| Part { entry: name(e.router), part: *part }).collect(),
            demand: asked.map(|d| d.rate.as_bps() as f64).sum::<f64>() * piece.share,
            method: method.filter(|_| bgp).map(|m| m.0),
            state,
        })
    }
}

/// Returns the parts by entry if `told` are followed and the rest comes in as it `was`.
fn spread(told: &[Piece], was: &[f64]) -> Vec<f64> {
    let mut parts = parts(told, was.len());
    let rest = (1.0 - told.iter().map(|p| p.share).sum::<f64>()).max(0.0);
    for (part, was) in parts.iter_mut().zip(was) {
        *part += rest * was;
    }
    parts
}
