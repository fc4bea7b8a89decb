//! A study as JSON lines: each line is an object with its kind, so that a run that ends early
//! leaves what it measured.

use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::findings::Finding;
use crate::measure::Outcome;
use crate::study::Results;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// The machine, and the command.
    Study {
        /// The kernel and the machine in a sentence.
        machine: String,
        /// The command that makes the like again.
        command: String,
        /// What a reader must know about this study.
        notes: Vec<String>,
    },
    /// A check of the machine.
    Check(Check),
    /// A measured point.
    Point(Box<Outcome>),
    /// A finding of the study.
    Finding(Finding),
}

/// Writes lines as text.
///
/// # Errors
/// If a number cannot be written.
pub fn lines(lines: &[Line]) -> serde_json::Result<String> {
    let mut text = String::new();
    for line in lines {
        text += &serde_json::to_string(line)?;
        text.push('\n');
    }
    Ok(text)
}

/// A study that was read from JSON lines.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The kernel and the machine in a sentence.
    pub machine: String,
    /// The command that made it.
    pub command: String,
    /// What a reader must know about it.
    pub notes: Vec<String>,
    /// The points and the checks.
    pub results: Results,
}

/// Reads the text of [`lines`]. Findings are left out, since they are computed from the points.
///
/// # Errors
/// The number of the line that is wrong, and why.
pub fn read(text: &str) -> Result<Stored, String> {
    let mut stored = Stored::default();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line).map_err(|e| format!("line {number}: {e}"))? {
            Line::Study { machine, command, notes } => {
                (stored.machine, stored.command, stored.notes) = (machine, command, notes);
            }
            Line::Check(check) => stored.results.checks.push(check),
            Line::Point(outcome) => stored.results.outcomes.push(*outcome),
            Line::Finding(_) => {}
        }
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measured;
    use crate::point::tests::point;

    #[test]
    fn a_study_is_read_as_it_was_written() {
        let outcome = Outcome { point: point(7), measured: Measured::default() };
        let finding = Finding { id: "a".into(), of: "b".into(), seen: true, text: "c".into() };
        let all = [
            Line::Study { machine: "m".into(), command: "c".into(), notes: vec!["n".into()] },
            Line::Point(Box::new(outcome.clone())),
            Line::Finding(finding),
        ];
        let text = lines(&all).unwrap();
        assert_eq!(text.lines().count(), 3);
        let stored = read(&text).unwrap();
        assert_eq!((stored.machine.as_str(), stored.command.as_str()), ("m", "c"));
        assert_eq!(stored.results.outcomes, [outcome]);
        assert!(read("\n{}").unwrap_err().starts_with("line 2: "));
    }
}
