//! Tables for the terminal.

use std::fmt::{self, Display, Write};

/// A table whose first column is aligned to the left and the others, numbers, to the right.
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(head: &[&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)] }
    }

    pub(crate) fn row(&mut self, row: [String; N]) {
        self.rows.push(row);
    }
}

impl<const N: usize> Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
                match at {
                    0 => write!(line, "{cell:width$}")?,
                    _ => write!(line, "  {cell:>width$}")?,
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
