//! The changes that bring the kernel's routes to the wanted ones, in an order that leaves no prefix
//! without a path.
//!
//! Paths and groups of paths are nexthop objects of Linux, and never change once they exist. A
//! prefix moves by one replacement of its route, from one group to another. So a change makes the
//! new objects, moves the routes, and then breaks the old ones ([`makes`], then [`breaks`]). The
//! kernel's own state is the journal: whatever a crash leaves, the same two functions lead from it
//! to the wanted state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv6Addr;

use ipnet::IpNet;

/// The segments of a path, in the order of travel.
pub type Segments = Vec<Ipv6Addr>;
/// Paths with their weights.
pub type Split = BTreeMap<Segments, u16>;

/// The most nexthop objects of this program.
pub const MAX_OBJECTS: u32 = 16_384;
/// The most routes of this program.
pub const MAX_ROUTES: usize = 100_000;

/// A route: its prefix and its metric.
pub type Key = (IpNet, u32);

/// What the kernel has of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The segments of each path, by its number; none for an object of another kind.
    pub paths: BTreeMap<u32, Segments>,
    /// The paths of each group with their weights, by its number.
    pub groups: BTreeMap<u32, Vec<(u32, u16)>>,
    /// The group of each route; 0 for a route without one.
    pub routes: BTreeMap<Key, u32>,
    /// The numbers of the nexthop objects of others, which are not free.
    pub others: BTreeSet<u32>,
}

/// A route that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The paths of its traffic.
    pub split: Split,
    /// Why they are wanted.
    pub reason: String,
}

/// All routes that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The wanted routes.
    pub routes: BTreeMap<Key, Wanted>,
    /// Why certain prefixes have none.
    pub reasons: BTreeMap<IpNet, String>,
    /// Why any other prefix has none.
    pub otherwise: String,
}

/// One change to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Adds a path.
    AddPath(u32, Segments),
    /// Adds a group of paths with weights.
    AddGroup(u32, Vec<(u32, u16)>),
    /// Adds a route to a group.
    AddRoute(Key, u32),
    /// Moves a route to another group.
    MoveRoute(Key, u32),
    /// Removes a route, so that the next one to its prefix counts.
    RemoveRoute(Key),
    /// Removes a group that no route uses.
    RemoveGroup(u32),
    /// Removes a path that no group uses.
    RemovePath(u32),
}

/// A change with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The object that changes, and how.
    pub action: Action,
    /// Why the change is made.
    pub reason: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::AddPath(id, segments) => {
                write!(f, "add path {id} through {}", joined(segments, ", "))?;
            }
            Action::AddGroup(id, members) => {
                let member = |(path, weight): &(u32, u16)| format!("{weight} of path {path}");
                let members: Vec<String> = members.iter().map(member).collect();
                write!(f, "add group {id}: {}", members.join(", "))?;
            }
            Action::AddRoute((prefix, _), group) => write!(f, "send {prefix} to group {group}")?,
            Action::MoveRoute((prefix, _), group) => write!(f, "move {prefix} to group {group}")?,
            Action::RemoveRoute((prefix, _)) => write!(f, "no longer steer {prefix}")?,
            Action::RemoveGroup(id) => write!(f, "remove group {id}")?,
            Action::RemovePath(id) => write!(f, "remove path {id}")?,
        }
        write!(f, " ({})", self.reason)
    }
}

/// Joins the texts of `items`.
pub fn joined<T: ToString>(items: &[T], with: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(with)
}

impl State {
    /// Applies a change, as the kernel does. Removing a group takes its routes along, and removing
    /// a path leaves its groups without it.
    pub fn apply(&mut self, action: &Action) {
        match action {
            Action::AddPath(id, segments) => drop(self.paths.insert(*id, segments.clone())),
            Action::AddGroup(id, members) => drop(self.groups.insert(*id, members.clone())),
            Action::AddRoute(key, group) | Action::MoveRoute(key, group) => {
                self.routes.insert(*key, *group);
            }
            Action::RemoveRoute(key) => drop(self.routes.remove(key)),
            Action::RemoveGroup(id) => {
                self.groups.remove(id);
                self.routes.retain(|_, group| group != id);
            }
            Action::RemovePath(id) => {
                self.paths.remove(id);
                for members in self.groups.values_mut() {
                    members.retain(|(path, _)| path != id);
                }
            }
        }
    }

    /// Whether the kernel has nothing of this program.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.groups.is_empty() && self.routes.is_empty()
    }

    /// Returns the paths of a route as they are; `None` if it has none.
    pub fn split(&self, key: &Key) -> Option<Split> {
        self.members(*self.routes.get(key)?)
    }

    fn members(&self, group: u32) -> Option<Split> {
        let members = self.groups.get(&group)?;
        let of = |(path, weight): &(u32, u16)| Some((self.paths.get(path)?.clone(), *weight));
        members.iter().map(of).collect::<Option<Split>>().filter(|split| !split.is_empty())
    }
}

/// Returns the changes that add what is wanted and lacking, and move routes there. The numbers of
/// new objects begin at `first`. Routes for which there is no number left are left out, and
/// returned beside.
pub fn makes(state: &State, target: &Target, first: u32) -> (Vec<Change>, Vec<Key>) {
    let mut paths: BTreeMap<&Segments, u32> = BTreeMap::new();
    for (id, segments) in state.paths.iter().rev() {
        paths.insert(segments, *id);
    }
    let mut groups: BTreeMap<Split, u32> = BTreeMap::new();
    for id in state.groups.keys().rev() {
        groups.extend(state.members(*id).map(|split| (split, *id)));
    }
    let used = |id: &u32| {
        state.paths.contains_key(id) || state.groups.contains_key(id) || state.others.contains(id)
    };
    let mut free = (first..first.saturating_add(MAX_OBJECTS)).filter(|id| !used(id));
    let (mut objects, mut routes, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    'routes: for (key, wanted) in &target.routes {
        let reason = || wanted.reason.clone();
        let group = match groups.get(&wanted.split) {
            Some(group) => *group,
            None => {
                let mut members = Vec::new();
                for (segments, weight) in &wanted.split {
                    let path = match paths.get(segments) {
                        Some(path) => *path,
                        None => {
                            let Some(id) = free.next() else {
                                left_out.push(*key);
                                continue 'routes;
                            };
                            let action = Action::AddPath(id, segments.clone());
                            objects.push(Change { action, reason: reason() });
                            paths.insert(segments, id);
                            id
                        }
                    };
                    members.push((path, *weight));
                }
                let Some(id) = free.next() else {
                    left_out.push(*key);
                    continue;
                };
                objects.push(Change { action: Action::AddGroup(id, members), reason: reason() });
                groups.insert(wanted.split.clone(), id);
                id
            }
        };
        let action = match state.routes.get(key) {
            Some(present) if *present == group => continue,
            Some(_) => Action::MoveRoute(*key, group),
            None => Action::AddRoute(*key, group),
        };
        routes.push(Change { action, reason: reason() });
    }
    objects.extend(routes);
    (objects, left_out)
}

/// Returns the changes that remove what is not wanted and not in use.
pub fn breaks(state: &State, target: &Target) -> Vec<Change> {
    let gone = state.routes.keys().filter(|key| !target.routes.contains_key(key));
    let mut changes: Vec<Change> = gone
        .map(|key| {
            let reason = target.reasons.get(&key.0).unwrap_or(&target.otherwise).clone();
            Change { action: Action::RemoveRoute(*key), reason }
        })
        .collect();
    let stays = state.routes.iter().filter(|(key, _)| target.routes.contains_key(key));
    let groups: BTreeSet<u32> = stays.map(|(_, group)| *group).collect();
    let members = |id: &u32| state.groups.get(id).into_iter().flatten().map(|(path, _)| *path);
    let paths: BTreeSet<u32> = groups.iter().flat_map(members).collect();
    let unused = |action| Change { action, reason: "it is no longer used".to_owned() };
    let idle = state.groups.keys().filter(|id| !groups.contains(id));
    changes.extend(idle.map(|id| unused(Action::RemoveGroup(*id))));
    let idle = state.paths.keys().filter(|id| !paths.contains(id));
    changes.extend(idle.map(|id| unused(Action::RemovePath(*id))));
    changes
}

/// Returns all changes from `state` to `target`, as they would be if none failed.
pub fn changes(state: &State, target: &Target, first: u32) -> Vec<Change> {
    let (mut changes, _) = makes(state, target, first);
    let mut made = state.clone();
    changes.iter().for_each(|change| made.apply(&change.action));
    changes.extend(breaks(&made, target));
    changes
}

#[cfg(test)]
mod tests;
