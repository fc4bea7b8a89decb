//! A network as a reader finds it in a file, and the checks that turn it into a [`Topology`].

use std::collections::{BTreeMap, BTreeSet};

use forebay_units::Rate;

use super::{Link, MAX_EDGES, MAX_ROUTERS, Router, RouterId, Topology};

/// A network as a reader finds it in a file.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// The name of the network in the file.
    pub name: String,
    /// Whether an edge has one direction only.
    pub directed: bool,
    /// The routers, by the id that edges use for them.
    pub routers: Vec<DraftRouter>,
    /// The edges between routers.
    pub edges: Vec<DraftEdge>,
}

/// A router as a reader finds it.
#[derive(Clone, Debug, Default)]
pub struct DraftRouter {
    /// The id that edges use for the router.
    pub id: String,
    /// The label, if the router has one.
    pub label: Option<String>,
    /// Whether it belongs to a neighbour and not to the ISP (`Internal 0` in the Topology Zoo).
    pub external: bool,
    /// Whether it stands for a shared medium (`hyperedge 1` in the Topology Zoo).
    pub hyperedge: bool,
    /// The line of the file.
    pub line: usize,
}

/// An edge as a reader finds it.
#[derive(Clone, Debug, Default)]
pub struct DraftEdge {
    /// The id of the router at one end.
    pub from: String,
    /// The id of the router at the other end.
    pub to: String,
    /// The capacity in each direction.
    pub capacity: Option<Rate>,
    /// The metric, which is 1 if the file has none.
    pub metric: Option<u32>,
    /// Whether the edge has one direction only, if the file says so for this edge.
    pub directed: Option<bool>,
    /// The line of the file.
    pub line: usize,
}

/// Why a draft is not a network, and the line with the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line of the file.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl Draft {
    /// Builds the topology.
    ///
    /// Parallel edges become one link with the sum of their capacities, labels that occur twice are
    /// followed by the id, and loops are removed. The notes say what was done.
    ///
    /// # Errors
    /// If an id occurs twice, an edge names an unknown id, or there are no routers or too many.
    pub fn finish(self) -> Result<Topology, Fault> {
        let fault = |line, message| Err(Fault { line, message });
        if self.routers.is_empty() {
            return fault(1, "has no routers: a network needs some".to_owned());
        }
        if self.routers.len() > MAX_ROUTERS || self.edges.len() > MAX_EDGES {
            let message = format!(
                "is larger than {MAX_ROUTERS} routers or {MAX_EDGES} edges: take a part of it"
            );
            return fault(1, message);
        }
        let mut ids = BTreeMap::new();
        for (router, at) in self.routers.iter().zip(0..) {
            if ids.insert(router.id.as_str(), RouterId(at)).is_some() {
                return fault(
                    router.line,
                    format!("the id {} occurs twice: give each router its own", router.id),
                );
            }
        }
        let mut notes = Vec::new();
        let routers = names(&self.routers, &mut notes);
        let mut links = BTreeMap::new();
        let (mut loops, mut parallel) = (0, 0);
        for edge in &self.edges {
            let end = |id: &String| {
                ids.get(id.as_str()).copied().ok_or_else(|| Fault {
                    line: edge.line,
                    message: format!("an edge names the unknown router {id}"),
                })
            };
            let (from, to) = (end(&edge.from)?, end(&edge.to)?);
            if from == to {
                loops += 1;
                continue;
            }
            let metric = edge.metric.unwrap_or(1).max(1);
            parallel +=
                usize::from(!merge(&mut links, Link { from, to, capacity: edge.capacity, metric }));
            if !edge.directed.unwrap_or(self.directed) {
                merge(&mut links, Link { from: to, to: from, capacity: edge.capacity, metric });
            }
        }
        let one_way = links.keys().filter(|(from, to)| !links.contains_key(&(*to, *from))).count();
        let links: Vec<Link> = links.into_values().collect();
        note(&mut notes, loops, "loop was left out", "loops were left out");
        note(
            &mut notes,
            parallel,
            "parallel edge became part of one link, with the sum of their capacities",
            "parallel edges became parts of one link each, with the sum of their capacities",
        );
        note(
            &mut notes,
            one_way,
            "link is directed and has no link back",
            "links are directed and have no link back",
        );
        let topology = Topology::new(self.name, routers, links, notes);
        Ok(with_parts_noted(topology))
    }
}

fn note(notes: &mut Vec<String>, count: usize, one: &str, many: &str) {
    match count {
        0 => {}
        1 => notes.push(format!("1 {one}")),
        n => notes.push(format!("{n} {many}")),
    }
}

/// Returns unique names for all routers, and which of them can have users.
fn names(drafts: &[DraftRouter], notes: &mut Vec<String>) -> Vec<Router> {
    // The Topology Zoo writes "None" where its map shows no name. An id that is a word is a name:
    // networkx has no other.
    let label = |r: &DraftRouter| {
        let label = r.label.as_ref().filter(|l| !l.is_empty() && *l != "None");
        label.or(Some(&r.id).filter(|id| id.starts_with(char::is_alphabetic))).cloned()
    };
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for name in drafts.iter().filter_map(label) {
        *seen.entry(name).or_default() += 1;
    }
    let doubled = drafts.iter().filter_map(label).filter(|l| seen[l] > 1).count();
    note(notes, doubled, "", "routers share their label with another, and are called LABEL#ID");
    let mut taken = BTreeSet::new();
    let routers = drafts.iter().map(|draft| {
        let mut name = match label(draft) {
            Some(label) if seen[&label] == 1 => label,
            Some(label) => format!("{label}#{}", draft.id),
            None => format!("#{}", draft.id),
        };
        // A label may be equal to one that was made unique before.
        while !taken.insert(name.clone()) {
            name.push('\'');
        }
        Router { name, serves: !draft.external && !draft.hyperedge }
    });
    routers.collect()
}

/// Adds a link, or adds the capacity to an existing one. Returns whether the link is new.
fn merge(links: &mut BTreeMap<(RouterId, RouterId), Link>, link: Link) -> bool {
    let mut new = false;
    let entry = links.entry((link.from, link.to)).or_insert_with(|| {
        new = true;
        link
    });
    if !new {
        // A bundle with a member of unknown capacity has an unknown capacity.
        entry.capacity = entry
            .capacity
            .zip(link.capacity)
            .map(|(a, b)| Rate::from_bps(a.as_bps().saturating_add(b.as_bps())));
        entry.metric = entry.metric.min(link.metric);
    }
    new
}

fn with_parts_noted(mut topology: Topology) -> Topology {
    // The part of a router is the lowest router that is connected with it.
    let mut neighbours = vec![Vec::new(); topology.routers.len()];
    for link in &topology.links {
        neighbours[link.from.index()].push(link.to.index());
        neighbours[link.to.index()].push(link.from.index());
    }
    let mut seen = vec![false; topology.routers.len()];
    let mut parts = 0;
    for start in 0..seen.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        parts += 1;
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            for &next in &neighbours[at] {
                if !std::mem::replace(&mut seen[next], true) {
                    open.push(next);
                }
            }
        }
    }
    if parts > 1 {
        topology
            .notes
            .push(format!("it falls into {parts} parts, and no traffic goes from one to another"));
    }
    topology
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(id: &str, label: Option<&str>) -> DraftRouter {
        DraftRouter { id: id.to_owned(), label: label.map(str::to_owned), ..DraftRouter::default() }
    }

    fn edge(from: &str, to: &str, mbps: Option<u64>) -> DraftEdge {
        DraftEdge {
            from: from.to_owned(),
            to: to.to_owned(),
            capacity: mbps.map(Rate::from_mbps),
            line: 7,
            ..DraftEdge::default()
        }
    }

    #[test]
    fn what_is_untidy_is_settled_and_said() {
        let draft = Draft {
            routers: vec![
                router("0", Some("Rome")),
                router("1", Some("Rome")),
                router("2", None),
                router("3", Some("None")),
                router("4", Some("Oslo")),
                router("west", None),
                router("B 2", Some("")),
                router("(0, 1)", None),
            ],
            edges: vec![
                edge("0", "1", Some(10)),
                edge("1", "0", Some(5)),
                edge("0", "2", None),
                edge("4", "4", None),
            ],
            ..Draft::default()
        };
        let topology = draft.finish().unwrap();
        let names: Vec<_> = topology.routers().iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["Rome#0", "Rome#1", "#2", "#3", "Oslo", "west", "B 2", "#(0, 1)"]);
        assert_eq!(topology.links().len(), 4);
        assert_eq!(
            topology.link(topology.leaving(RouterId(1))[0]).capacity,
            Some(Rate::from_mbps(15))
        );
        assert_eq!(
            topology.notes(),
            [
                "2 routers share their label with another, and are called LABEL#ID",
                "1 loop was left out",
                "1 parallel edge became part of one link, with the sum of their capacities",
                "it falls into 6 parts, and no traffic goes from one to another",
            ]
        );
        let expected = "2 directions of links have no capacity, and limit nothing";
        assert_eq!(topology.unlimited().as_deref(), Some(expected));
        let mut given = topology;
        given.set_capacities(|_, _| Some(Rate::from_mbps(1)));
        assert_eq!(given.unlimited(), None);
    }

    #[test]
    fn faults_name_their_line() {
        let unknown = Draft {
            routers: vec![router("0", None)],
            edges: vec![edge("0", "9", None)],
            ..Draft::default()
        };
        let fault = unknown.finish().unwrap_err();
        assert_eq!((fault.line, fault.message.as_str()), (7, "an edge names the unknown router 9"));
        let twice =
            Draft { routers: vec![router("0", None), router("0", None)], ..Draft::default() };
        assert_eq!(
            twice.finish().unwrap_err().message,
            "the id 0 occurs twice: give each router its own"
        );
        assert!(Draft::default().finish().is_err());
    }

    #[test]
    fn edges_may_say_their_direction() {
        let directed =
            |from: &str, to: &str, directed| DraftEdge { directed, ..edge(from, to, Some(1)) };
        let routers = ["0", "1", "2"].map(|id| router(id, None)).to_vec();
        for (all, expected) in [(false, 3), (true, 2)] {
            let edges = vec![directed("0", "1", Some(true)), directed("1", "2", None)];
            let draft =
                Draft { directed: all, routers: routers.clone(), edges, ..Draft::default() };
            let topology = draft.finish().unwrap();
            assert_eq!(topology.links().len(), expected);
            assert!(topology.notes()[0].contains("no link back"), "{:?}", topology.notes());
        }
    }
}
