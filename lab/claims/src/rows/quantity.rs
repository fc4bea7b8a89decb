//! Quantities that are computed from a claim's rows.

use std::collections::BTreeMap;

use forebay_outcome::{Labels, Row, SEED};

use crate::figure::{Over, Value};

/// A cell: the repetitions of one run.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The labels without [`SEED`].
    pub labels: Labels,
    /// A row for each seed.
    pub rows: Vec<&'a Row>,
}

impl Cell<'_> {
    /// The median of `measure` over the repetitions; `None` where none has it.
    pub fn median(&self, measure: &str) -> Option<f64> {
        let values = self.rows.iter().filter_map(|row| row.values.get(measure).copied());
        Some(forebay_guest::zd::median(values)).filter(|m| !m.is_nan())
    }
}

/// Groups rows into cells, in the order of their first rows.
pub fn cells<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Cell<'a>> {
    let mut cells: Vec<Cell<'a>> = Vec::new();
    for row in rows {
        let mut labels = row.labels.clone();
        labels.remove(SEED);
        match cells.iter_mut().find(|cell| cell.labels == labels) {
            Some(cell) => cell.rows.push(row),
            None => cells.push(Cell { labels, rows: vec![row] }),
        }
    }
    cells
}

/// Selects cells: for each label, the values that it may have.
pub type Selection = BTreeMap<String, Vec<String>>;

/// Whether `selection` takes a cell with these labels.
pub fn is_of(labels: &Labels, selection: &Selection) -> bool {
    selection.iter().all(|(key, values)| labels.get(key).is_some_and(|own| values.contains(own)))
}

/// A quantity that is computed from rows.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// The key of the measure in [`MEASURES`](super::catalogue::MEASURES).
    pub measure: String,
    /// The cells that count.
    pub of: Selection,
    /// The divisor of each cell: the cell with these labels, and otherwise the same.
    pub to: Option<Selection>,
    /// How several cells are combined.
    pub over: Over,
}

impl Quantity {
    /// The value over all seeds, with the lowest and the highest value of a single seed; `None` if
    /// there is nothing to measure.
    pub fn of(&self, rows: &[Row]) -> Option<Value> {
        let value = self.once(rows.iter())?;
        let mut seeds: Vec<_> = rows.iter().filter_map(Row::seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let alone = seeds
            .into_iter()
            .filter_map(|seed| self.once(rows.iter().filter(move |row| row.seed() == Some(seed))));
        let (min, max) = alone.fold((value, value), |(min, max), v| (v.min(min), v.max(max)));
        Some(Value { value, min, max })
    }

    fn once<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Option<f64> {
        let cells = cells(rows);
        let mine = cells.iter().filter(|cell| is_of(&cell.labels, &self.of));
        let values: Vec<f64> = mine
            .filter_map(|cell| {
                let own = cell.median(&self.measure)?;
                let Some(to) = &self.to else { return Some(own) };
                let other = partner(&cells, cell, to)?.median(&self.measure)?;
                (other != 0.0).then_some(own / other)
            })
            .collect();
        self.over.of(&values)
    }
}

/// The cell whose labels are those of `cell`, except for the labels of `to`.
fn partner<'a, 'b>(cells: &'b [Cell<'a>], cell: &Cell<'a>, to: &Selection) -> Option<&'b Cell<'a>> {
    let rest = |labels: &Labels| -> Labels {
        let others = labels.iter().filter(|(key, _)| !to.contains_key(*key));
        others.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let own = rest(&cell.labels);
    cells.iter().find(|other| is_of(&other.labels, to) && rest(&other.labels) == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |mode: &str, flows: u32, seed: u32, drops: f64| {
            Row::new(&[("mode", &mode), ("flows", &flows), (SEED, &seed)], &[("drops", drops)])
        };
        vec![
            row("linux", 10, 1, 8.0),
            row("zd", 10, 1, 2.0),
            row("linux", 10, 2, 12.0),
            row("zd", 10, 2, 2.0),
            row("linux", 20, 1, 30.0),
            row("zd", 20, 1, 3.0),
            row("zd", 40, 1, 0.0),
        ]
    }

    fn only(key: &str, value: &str) -> Selection {
        Selection::from([(key.to_owned(), vec![value.to_owned()])])
    }

    fn quantity(of: Selection, to: Option<Selection>, over: Over) -> Quantity {
        Quantity { measure: "drops".to_owned(), of, to, over }
    }

    #[test]
    fn rows_are_grouped_into_cells_in_the_order_of_the_runs() {
        let rows = rows();
        let cells = cells(&rows);
        let sizes: Vec<_> = cells.iter().map(|cell| cell.rows.len()).collect();
        assert_eq!(sizes, [2, 2, 1, 1, 1]);
        assert_eq!(cells[0].median("drops"), Some(10.0));
        assert_eq!(cells[0].median("nothing"), None);
    }

    #[test]
    fn a_ratio_divides_cells_that_differ_only_in_the_labels_of_to() {
        let of = quantity(only("mode", "linux"), Some(only("mode", "zd")), Over::Min);
        // 10 over 2, and 30 over 3; with seed 1 alone 8 over 2, with seed 2 alone 12 over 2.
        let value = of.of(&rows()).unwrap();
        assert_eq!((value.value, value.min, value.max), (5.0, 4.0, 6.0));
        let of = quantity(only("mode", "linux"), Some(only("mode", "zd")), Over::Max);
        assert_eq!(of.of(&rows()).unwrap().value, 10.0);
    }

    #[test]
    fn a_ratio_without_a_divisor_has_no_value() {
        let zero = quantity(only("flows", "40"), Some(only("mode", "zd")), Over::Min);
        assert!(zero.of(&rows()).is_none());
        assert!(quantity(only("flows", "50"), None, Over::Min).of(&rows()).is_none());
        assert!(quantity(only("size", "50"), None, Over::Min).of(&rows()).is_none());
    }

    #[test]
    fn a_label_may_have_one_of_several_values() {
        let several = Selection::from([
            ("mode".to_owned(), vec!["zd".to_owned()]),
            ("flows".to_owned(), vec!["20".to_owned(), "40".to_owned()]),
        ]);
        assert_eq!(quantity(several, None, Over::Max).of(&rows()).unwrap().value, 3.0);
    }
}
