//! The hints that are in force, read from the file that keeps them.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_config::ConfigError;
use ipnet::IpNet;

use crate::hints::divide::Piece;
use crate::hints::steering::{Aggregate, Steering};
use crate::hints::{Hint, Hints, Setting, VERSION};
use crate::input::json_message;
use crate::topology::RouterId;

/// The most hints in a file.
const MAX_HINTS: usize = 1_000_000;

/// Reads hints from the JSON `text` of `file`, which this program has written.
///
/// # Errors
/// If the text is not such a file or of another version; with the line.
pub fn read(file: &Path, text: &str) -> Result<Hints, ConfigError> {
    let fail = |line: usize, message: String| ConfigError {
        file: file.to_owned(),
        line: Some(line.max(1)),
        key: String::new(),
        message: message.replace(['\n', '\r'], " "),
    };
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    // The format of another version is unknown, so the version is checked first.
    let json = |e: serde_json::Error| {
        let what = json_message(&e);
        fail(e.line(), format!("{what}: give the file that `forebay plan hints --write` wrote"))
    };
    let version = serde_json::from_str::<Version>(text).map_err(json)?.version;
    if version != VERSION {
        let message = format!("is of version {version}, but this program reads version {VERSION}");
        return Err(fail(
            1,
            format!("{message}: withdraw the hints with the program that wrote them"),
        ));
    }
    let hints: Hints = serde_json::from_str(text).map_err(json)?;
    let parts = |h: &Hint| h.before.iter().all(|p| (0.0..=1.0).contains(&p.part));
    let inside = |h: &Hint| h.of.contains(&h.prefix) && h.prefix == h.prefix.trunc();
    let all = || hints.neighbours.iter().flat_map(|n| &n.hints);
    if let Some(bad) = all().find(|h| !parts(h) || !inside(h)) {
        // The line of the prefix is the nearest known place.
        let quoted = format!("\"{}\"", bad.prefix);
        let line = text.lines().position(|l| l.contains(&quoted)).map_or(1, |at| at + 1);
        let message = format!(
            "{} is not a valid hint: a part is not from 0 to 1, or the prefix is not within `of`",
            bad.prefix
        );
        return Err(fail(line, message));
    }
    if all().count() > MAX_HINTS {
        return Err(fail(1, format!("has more than {MAX_HINTS} hints")));
    }
    Ok(hints)
}

/// The hints in force that are still possible in the network as it is now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InForce {
    pieces: BTreeMap<Aggregate, Vec<Piece>>,
    /// The parts by entry of each aggregate before there were hints.
    was: BTreeMap<Aggregate, Vec<f64>>,
    /// The hints, by provider, that are no longer possible: the network has changed, the provider
    /// no longer participates, or it avoids the entry.
    lost: BTreeMap<u32, Vec<Hint>>,
    /// The hints of providers that are no longer in the file, by name.
    gone: BTreeMap<String, Vec<Hint>>,
}

impl InForce {
    pub(crate) fn of(
        setting: &Setting<'_>,
        behind: &BTreeMap<RouterId, Vec<(IpNet, f64)>>,
        last: &Hints,
    ) -> Self {
        let network = setting.network;
        let numbers: BTreeMap<&str, u32> =
            network.providers.iter().zip(0..).map(|(p, n)| (p.name.as_str(), n)).collect();
        let routers = network.topology.by_name();
        let mut out = Self::default();
        for neighbour in &last.neighbours {
            let Some(&number) = numbers.get(neighbour.name.as_str()) else {
                out.gone.entry(neighbour.name.clone()).or_default().extend(neighbour.hints.clone());
                continue;
            };
            let provider = &network.providers[number as usize];
            let entry = |name: &str| {
                let router = routers.get(name)?;
                provider.entries.iter().position(|e| e.router == *router)
            };
            for hint in &neighbour.hints {
                let piece = || {
                    let users = setting.prefixes.get(&hint.of)?;
                    let egress = setting.map.boundary[users.router.index()]?;
                    let share = behind.get(&egress)?.iter().find(|(p, _)| *p == hint.of)?.1;
                    let halved = hint.prefix.prefix_len().checked_sub(hint.of.prefix_len())?;
                    let share = share * 0.5f64.powi(i32::from(halved));
                    let hinted = Some(entry(&hint.entry)?);
                    if network.avoided.contains(&(number, hinted? as u32, egress)) {
                        return None;
                    }
                    let mut was = vec![0.0; provider.entries.len()];
                    for part in &hint.before {
                        was[entry(&part.entry)?] += part.part;
                    }
                    Some((
                        egress,
                        Piece { prefix: hint.prefix, of: hint.of, share, entry: hinted },
                        was,
                    ))
                };
                match piece().filter(|_| provider.participates) {
                    Some((egress, piece, was)) => {
                        out.pieces.entry((number, egress)).or_default().push(piece);
                        out.was.entry((number, egress)).or_insert(was);
                    }
                    None => out.lost.entry(number).or_default().push(hint.clone()),
                }
            }
        }
        out.pieces.values_mut().for_each(|p| p.sort_by_key(|p| p.prefix));
        out
    }

    /// Returns the providers with hints that are still possible.
    pub(crate) fn providers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.pieces.keys().map(|a| a.0).collect();
        numbers.dedup();
        numbers
    }

    /// Returns the aggregates of a provider with hints, each with its parts by entry before them.
    pub(crate) fn before(&self, number: u32) -> impl Iterator<Item = (Aggregate, &[f64])> {
        let own = self.was.iter().filter(move |(a, _)| a.0 == number);
        own.map(|(a, was)| (*a, was.as_slice()))
    }

    /// Returns the parts by entry of an aggregate before there were hints for it.
    pub(crate) fn was(&self, aggregate: Aggregate) -> Option<&[f64]> {
        self.was.get(&aggregate).map(Vec::as_slice)
    }

    /// Returns the prefixes of an aggregate that have hints, in order.
    pub(crate) fn pieces(&self, aggregate: Aggregate) -> &[Piece] {
        self.pieces.get(&aggregate).map_or(&[], Vec::as_slice)
    }

    /// Returns all prefixes of a provider that have hints.
    pub(crate) fn all(&self, number: u32) -> impl Iterator<Item = (Aggregate, Piece)> {
        let own = self.pieces.iter().filter(move |(a, _)| a.0 == number);
        own.flat_map(|(a, pieces)| pieces.iter().map(|p| (*a, *p)))
    }

    /// Returns the hints of a provider that are no longer possible.
    pub(crate) fn lost(&self, number: u32) -> &[Hint] {
        self.lost.get(&number).map_or(&[], Vec::as_slice)
    }

    /// Returns the hints of providers that are no longer in the file, by name.
    pub(crate) fn gone(&self) -> &BTreeMap<String, Vec<Hint>> {
        &self.gone
    }

    /// Returns the part of the traffic with hints that comes in where they say, given where it is
    /// `measured` to come in.
    pub(crate) fn followed(&self, number: u32, measured: &Steering) -> Option<f64> {
        let (mut asked, mut came) = (0.0, 0.0);
        for (aggregate, pieces) in self.pieces.iter().filter(|(a, _)| a.0 == number) {
            let Some(measured) = measured.get(*aggregate) else { continue };
            let hinted = crate::hints::divide::parts(pieces, measured.len());
            asked += hinted.iter().sum::<f64>();
            came += hinted.iter().zip(measured).map(|(h, m)| h.min(*m)).sum::<f64>();
        }
        (asked > 0.0).then(|| (came / asked).min(1.0))
    }
}
