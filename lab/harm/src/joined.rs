//! Maps read from JSON, and one map from those of parts of the paths.

use std::ops::RangeInclusive;

use serde::Deserialize;

use crate::families::draw;
use crate::figures::Figures;
use crate::map::{HarmMap, Judged};
use crate::verdict::Verdict;

/// Why maps do not make one map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// No map was given.
    #[error("there is no map to join")]
    Empty,
    /// Maps differ in what the paths or their seeds are.
    #[error("the maps differ in their seed, seeds, further seeds or engine")]
    Different,
    /// A path is in two maps.
    #[error("path {0} is in two maps")]
    Twice(u32),
}

#[derive(Deserialize)]
struct MapOfJson {
    seed: u64,
    seeds: u32,
    confirm: u32,
    engine: String,
    cells: Vec<JudgedOfJson>,
}

#[derive(Deserialize)]
struct JudgedOfJson {
    number: u32,
    seeds: [u32; 2],
    verdict: Verdict,
    control_worse: bool,
    status_quo: Figures,
    control: Figures,
    in_network: Figures,
    forebay: Figures,
    decisions: Vec<String>,
}

impl JudgedOfJson {
    fn judged(self, seed: u64) -> Judged {
        let [first, last] = self.seeds;
        Judged {
            // The seed and the number say everything about a path.
            cell: draw(seed, self.number),
            seeds: RangeInclusive::new(first, last),
            status_quo: self.status_quo,
            control: self.control,
            in_network: self.in_network,
            forebay: self.forebay,
            verdict: self.verdict,
            control_worse: self.control_worse,
            decisions: self.decisions,
        }
    }
}

impl HarmMap {
    /// Reads a map that [`HarmMap::json`] wrote.
    ///
    /// # Errors
    /// If it is none.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let MapOfJson { seed, seeds, confirm, engine, cells } = serde_json::from_str(text)?;
        let cells = cells.into_iter().map(|cell| cell.judged(seed)).collect();
        Ok(Self { seed, seeds, confirm, engine, cells })
    }

    /// Makes one map from those of different paths, in any order.
    ///
    /// # Errors
    /// If there is none, or they are not parts of one map.
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Result<Self, JoinError> {
        let mut parts = parts.into_iter();
        let mut whole = parts.next().ok_or(JoinError::Empty)?;
        for part in parts {
            let what = |map: &Self| (map.seed, map.seeds, map.confirm);
            if what(&part) != what(&whole) || part.engine != whole.engine {
                return Err(JoinError::Different);
            }
            whole.cells.extend(part.cells);
        }
        whole.cells.sort_by_key(|judged| judged.cell.number);
        let pairs = whole.cells.windows(2);
        let numbers = pairs.map(|pair| (pair[0].cell.number, pair[1].cell.number));
        match { numbers }.find(|(one, next)| one == next) {
            Some((number, _)) => Err(JoinError::Twice(number)),
            None => Ok(whole),
        }
    }
}
