//! Hints as a table for the terminal.

use std::fmt;

use forebay_units::Rate;

use crate::hints::{Hint, Hints, State};
use crate::table::Table;

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = Rate::from_bps_f64;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        writeln!(
            f,
            "{}: {} demand, {} carried; {} with these hints ({} more).",
            if self.network.is_empty() { "network" } else { &self.network },
            rate(self.demand),
            rate(self.before),
            rate(self.after),
            percent(self.gain()),
        )?;
        let mut table =
            Table::new(&["neighbour", "prefix", "enters at", "now", "demand", "sent by", "change"]);
        let now = |hint: &Hint| {
            let names: Vec<_> = hint.before.iter().map(|p| p.entry.as_str()).collect();
            names.join(" + ")
        };
        for neighbour in &self.neighbours {
            let rows = neighbour.hints.iter().map(|h| {
                (
                    h,
                    match h.state {
                        State::New => "new",
                        State::Moved => "moved",
                        State::Kept => "",
                    },
                )
            });
            for (hint, change) in rows.chain(neighbour.withdrawn.iter().map(|h| (h, "withdrawn"))) {
                table.row([
                    neighbour.name.clone(),
                    hint.prefix.to_string(),
                    hint.entry.clone(),
                    now(hint),
                    rate(hint.demand).to_string(),
                    hint.method.map_or("service".to_owned(), |m| m.to_string()),
                    change.to_owned(),
                ]);
            }
        }
        if self.neighbours.iter().all(|n| n.hints.is_empty() && n.withdrawn.is_empty()) {
            writeln!(f, "No hint gains enough.")?;
        } else {
            writeln!(f)?;
            table.fmt(f)?;
            writeln!(f)?;
        }
        for neighbour in &self.neighbours {
            if !neighbour.hints.is_empty() {
                write!(
                    f,
                    "{}: {} would be lost without its hints",
                    neighbour.name,
                    rate(neighbour.gain)
                )?;
                if let Some(followed) = neighbour.followed {
                    write!(f, "; it follows {} of those in force", percent(followed))?;
                }
                writeln!(f, ".")?;
            }
            for note in &neighbour.notes {
                writeln!(f, "{}: {note}.", neighbour.name)?;
            }
        }
        Ok(())
    }
}
