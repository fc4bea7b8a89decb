//! Bands of a history: stretches of one mode, each with its reason.

use crate::event::LogEvent;
use crate::series::{Mode, Range, Row, Series};

/// What a bundle was in for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The boxes did not understand each other.
    Trouble,
    /// The boxes did, and the bundle was in this mode.
    In(Mode),
}

impl Condition {
    fn of(row: &Row) -> Option<Self> {
        match row.sample.mode {
            _ if row.sample.trouble => Some(Self::Trouble),
            mode => mode.map(Self::In),
        }
    }

    /// Returns the word for screens.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::In(mode) => mode.word(),
        }
    }

    /// Returns the class of the style sheet.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::In(Mode::Open) => "open",
            Self::In(Mode::DelayControl) => "delay",
            Self::In(Mode::PassThrough) => "pass",
            Self::In(Mode::Other) => "other",
        }
    }
}

/// A stretch of one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    /// The condition of the stretch.
    pub(crate) condition: Condition,
    /// The start in seconds since 1970.
    pub(crate) from: u64,
    /// The end in seconds since 1970.
    pub(crate) to: u64,
    /// The reason, if it is in the log.
    pub(crate) why: Option<String>,
    /// The rows of the band: the first, and the one after the last.
    pub(crate) rows: (usize, usize),
}

impl Band {
    /// Returns the length in seconds.
    pub(crate) fn seconds(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// Returns the bands of these rows; a gap of some rows ends a band. `events` are those of the
/// bundle, the oldest first.
pub(crate) fn bands(rows: &[Row], range: Range, events: &[LogEvent]) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let Some(condition) = Condition::of(row) else { continue };
        let end = row.at + range.step();
        match bands.last_mut() {
            Some(band) if band.condition == condition && row.at <= band.to + 5 * range.step() => {
                band.to = end;
                band.rows.1 = index + 1;
            }
            _ => bands.push(Band {
                condition,
                from: row.at,
                to: end,
                why: None,
                rows: (index, index + 1),
            }),
        }
    }
    for band in &mut bands {
        // A state is read up to a second after the decision, and a minute has one mode.
        let slack = 3 * range.step() * 1000;
        let kind = match band.condition {
            Condition::Trouble => "trouble_began",
            Condition::In(_) => "mode_changed",
        };
        let fits = |event: &&LogEvent| {
            event.kind == kind
                && event.at_ms <= band.from * 1000 + slack
                && match band.condition {
                    Condition::Trouble => true,
                    Condition::In(mode) => changed_to(event) == Some(mode),
                }
        };
        // The last change into this mode before, even if it is long ago.
        band.why = events.iter().rev().find(fits).map(|event| reason(&event.text).to_owned());
    }
    bands
}

/// Returns the mode after a change of mode.
fn changed_to(event: &LogEvent) -> Option<Mode> {
    match event.values.get("to") {
        Some(forebay_records::Value::Name(name)) => Some(Mode::of(name)),
        _ => None,
    }
}

/// Returns the reason in the text of a change of mode.
pub(crate) fn reason(text: &str) -> &str {
    match text.strip_prefix("mode ").and_then(|rest| rest.split_once(": ")) {
        Some((_, reason)) => reason,
        None => text,
    }
}

/// Returns the events of a bundle.
pub(crate) fn of_series(events: &[LogEvent], series: &Series) -> Vec<LogEvent> {
    let is_its = |event: &&LogEvent| {
        event.place == series.place
            && event.peer == series.name
            && event.direction == Some(series.direction)
    };
    events.iter().filter(is_its).cloned().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use forebay_records::Value;

    use super::*;
    use crate::event::EVENT_VERSION;
    use crate::series::{Direction, Sample};

    pub(crate) fn changed(at_ms: u64, to: &str, why: &str) -> LogEvent {
        LogEvent {
            version: EVENT_VERSION,
            at_ms,
            place: "site at wan0".to_owned(),
            peer: "branch".to_owned(),
            direction: Some(Direction::To),
            number: Some(1),
            kind: "mode_changed".to_owned(),
            values: [("to".to_owned(), Value::Name(to.to_owned()))].into(),
            text: format!("mode x -> {to}: {why}"),
        }
    }

    #[test]
    fn stretches_of_a_mode_have_their_reason() {
        let row = |at: u64| {
            let mode =
                if (200..300).contains(&at) { Mode::PassThrough } else { Mode::DelayControl };
            let sample =
                Sample { mode: Some(mode), trouble: (350..360).contains(&at), ..Sample::default() };
            Row { at, sample }
        };
        // Nothing ran from 401 to 499.
        let rows: Vec<Row> = (100..=400).chain(500..=510).map(row).collect();
        let events = [
            changed(50_000, "delay control", "first: measured"),
            changed(200_400, "pass-through", "others take what is left"),
            changed(300_100, "delay control", "the queue is gone"),
        ];
        let bands = bands(&rows, Range::Hour, &events);
        let short: Vec<_> = bands
            .iter()
            .map(|b| (b.condition.word(), b.from, b.seconds(), b.why.as_deref()))
            .collect();
        let gone = Some("the queue is gone");
        assert_eq!(
            short,
            [
                ("delay control", 100, 100, Some("first: measured")),
                ("pass-through", 200, 100, Some("others take what is left")),
                ("delay control", 300, 50, gone),
                ("trouble", 350, 10, None),
                ("delay control", 360, 41, gone),
                ("delay control", 500, 11, gone),
            ]
        );
        assert_eq!(bands[1].rows, (100, 200));
    }
}
