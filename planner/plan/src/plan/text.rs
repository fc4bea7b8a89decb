//! A plan as text for the terminal.

use std::fmt::{self, Display};

use forebay_picture::number::rate;

use crate::plan::Report;
use crate::table::Table;

/// The number of links with the highest load in the text.
const LINKS: usize = 10;

fn percent(part: f64) -> String {
    // Adding zero turns minus zero into zero.
    format!("{:.1} %", (part * 1000.0).round() / 10.0 + 0.0)
}

impl Report {
    /// Says how many aggregates move, and how much of their traffic.
    pub(super) fn moves(&self) -> String {
        let (moved, more) = self.moved();
        format!(
            "{moved} of {} aggregates move: {} of their traffic takes other paths or another split.",
            self.routing.len(),
            rate(more)
        )
    }
}

impl Display for Report {
    /// Formats what operators need first: totals, results by provider, the fullest links, and
    /// changes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["", "before", "after"]);
        table.row([String::new() + "carried", rate(self.before.total), rate(self.after.total)]);
        let served =
            |total: f64| percent(if self.demand > 0.0 { total / self.demand } else { 1.0 });
        table.row([
            "of the demand".to_owned(),
            served(self.before.total),
            served(self.after.total),
        ]);
        table.row([
            "unfairness (WFI)".to_owned(),
            format!("{:.4}", self.before.wfi),
            format!("{:.4}", self.after.wfi),
        ]);
        table.row([
            "fullest link".to_owned(),
            percent(self.before.most_used),
            percent(self.after.most_used),
        ]);
        writeln!(
            f,
            "{}: {} demand; {} more is carried\n",
            self.network,
            rate(self.demand),
            percent(self.gain())
        )?;
        table.fmt(f)?;

        let mut table =
            Table::new(&["provider", "demand", "before", "after", "satisfied before", "after"]);
        for provider in &self.providers {
            let name = if provider.participates {
                provider.name.clone()
            } else {
                format!("{} (no hints)", provider.name)
            };
            table.row([
                name,
                rate(provider.demand),
                rate(provider.before),
                rate(provider.after),
                percent(provider.satisfaction_before),
                percent(provider.satisfaction_after),
            ]);
        }
        writeln!(f)?;
        table.fmt(f)?;

        let mut links: Vec<_> = self.links.iter().filter(|l| l.capacity > 0.0).collect();
        links.sort_by(|a, b| (b.before / b.capacity).total_cmp(&(a.before / a.capacity)));
        let mut table = Table::new(&["fullest links", "capacity", "before", "after"]);
        for link in links.into_iter().take(LINKS) {
            table.row([
                format!("{} > {}", link.from, link.to),
                rate(link.capacity),
                percent(link.before / link.capacity),
                percent(link.after / link.capacity),
            ]);
        }
        writeln!(f)?;
        table.fmt(f)?;

        writeln!(f, "\n{}", self.moves())?;
        if self.unreachable > 0.0 {
            writeln!(f, "{} cannot reach its users from its entries.", rate(self.unreachable))?;
        }
        for note in &self.notes {
            writeln!(f, "Topology: {note}.")?;
        }
        Ok(())
    }
}
