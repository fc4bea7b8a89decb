//! Turns what boxes answer into a history. It has no sockets, and its time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use forebay_records::{Decision, ReceiveStatus, SendStatus, Status, Value};
use forebay_status::{Answer, Recent, State, Verdict};

use crate::event::{EVENT_VERSION, LogEvent, kind};
use crate::series::{Direction, Mode, Range, Row, Sample, Series};
use crate::store::{Change, Known, MAX_SERIES, Store, StoreError};

/// The time between two writes in seconds. Rows of ten seconds share pages of the file, so that it
/// is written a tenth as often.
const WRITE_EVERY_S: u64 = 10;
/// The most seconds that wait while the file cannot be written.
const MAX_WAITING_S: u64 = 120;
/// The most events that wait meanwhile.
const MAX_EVENTS: usize = 4096;
/// The longest time between two states over which a rate is computed, in seconds.
const GAP_S: f64 = 5.0;

/// The place of events of the history itself.
const HISTORY: &str = "the history";

/// A bundle as it was seen last.
#[derive(Clone, Debug)]
pub struct Live {
    /// The bundle and its direction.
    pub series: Series,
    /// What is thought of it.
    pub verdict: Verdict,
    /// The last figures.
    pub sample: Sample,
    /// The time since which the mode lasts, in milliseconds since 1970; `None` if it is received.
    pub since_ms: Option<u64>,
    /// The reason for the mode.
    pub reason: Option<String>,
    /// The names of its classes, in the order of [`Sample::classes_ms`].
    pub classes: Vec<String>,
    /// The round-trip time and its minimum in milliseconds.
    pub round_trip_ms: Option<(f64, f64)>,
}

/// A box as it was seen last.
#[derive(Clone, Debug)]
struct Seen {
    /// The name; the number of the process if it never answered.
    place: String,
    /// Why it does not answer, if it does not.
    silence: Option<String>,
}

/// The counters of a bundle, and the time of its box at which they were read.
#[derive(Clone, Copy, Debug)]
struct Counted {
    run: u64,
    up_s: f64,
    bytes: u64,
    packets: u64,
    dropped: Option<u64>,
    marked: Option<u64>,
    refused: u64,
}

/// Keeps the history of boxes.
#[derive(Debug)]
pub struct Recorder {
    store: Store,
    path: PathBuf,
    /// What waits to be written.
    waiting: Change,
    known: BTreeMap<Series, Known>,
    counted: BTreeMap<Series, Counted>,
    recent: BTreeMap<Series, Recent>,
    live: Vec<Live>,
    /// The boxes by process.
    boxes: BTreeMap<u32, Seen>,
    /// The time of the last write, and the minute after the last one that was computed, in seconds
    /// since 1970.
    written: u64,
    minute: u64,
    /// What could not be written, and why.
    trouble: Option<Trouble>,
    /// The rows that were lost since the start.
    lost: u64,
    /// Bundles beyond the most that have a history.
    beyond: BTreeSet<Series>,
}

/// The file cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The time since which that is so, in seconds since 1970.
    pub since: u64,
    /// The error of the last attempt.
    pub why: String,
    /// The rows that were lost since then.
    pub lost: u64,
}

impl Recorder {
    /// Continues the history at `path`. `now` is in seconds since 1970.
    ///
    /// A file that is no history is put aside. If there can be no file, the history is in memory.
    ///
    /// # Errors
    /// If another process writes the history, or there is no memory.
    pub fn open(path: &Path, now: u64) -> Result<Self, StoreError> {
        let mut events = Vec::new();
        let opened = Store::open(path).or_else(|e| match e {
            e if e.is_broken() => {
                let text = format!("{e}: it is now {}.broken, and a new one began", path.display());
                tracing::warn!("{text}");
                events.push(own_event(now * 1000, HISTORY, kind::HISTORY_REPLACED, text));
                Store::put_aside(path).and_then(|()| Store::open(path))
            }
            e => Err(e),
        });
        let mut trouble = None;
        let store = match opened {
            Err(e @ StoreError::InUse(_)) => return Err(e),
            Err(e) => {
                tracing::warn!("{e}; the history is in memory only");
                trouble = Some(Trouble { since: now, why: e.to_string(), lost: 0 });
                Store::in_memory()?
            }
            Ok(store) => store,
        };
        let known = store.series()?.into_iter().collect();
        Ok(Self {
            store,
            path: path.to_owned(),
            waiting: Change { events, ..Change::default() },
            known,
            counted: BTreeMap::new(),
            recent: BTreeMap::new(),
            live: Vec::new(),
            boxes: BTreeMap::new(),
            written: now,
            // Minutes that ended while nothing ran are computed from their seconds.
            minute: now.saturating_sub(Range::Hour.seconds()).next_multiple_of(60),
            trouble,
            lost: 0,
            beyond: BTreeSet::new(),
        })
    }

    /// Takes in the answers of all boxes at `now`, in milliseconds since 1970.
    pub fn record(&mut self, now: u64, answers: &[Answer]) {
        self.note_boxes(now, answers);
        self.live.clear();
        for answer in answers {
            if let Ok(status) = &answer.status {
                for bundle in &status.sends {
                    self.note_send(now, status, bundle);
                }
                for bundle in &status.receives {
                    self.note_receive(now, status, bundle);
                }
            }
        }
        self.note_gone();
        self.live.sort_by(|a, b| {
            let key = |live: &Live| (live.verdict.state, live.series.clone());
            key(a).cmp(&key(b))
        });
        self.forget();
        if now / 1000 >= self.written + WRITE_EVERY_S || now / 1000 < self.written {
            self.write(now / 1000);
        }
    }

    /// Shows the bundles of the history that no box has now, so that their past can be seen.
    fn note_gone(&mut self) {
        let there: BTreeSet<_> = self.live.iter().map(|live| &live.series).collect();
        let gone = self.known.keys().filter(|series| !there.contains(series)).map(|series| {
            let why = format!("The {} has ended, or does not answer.", series.place);
            Live {
                series: series.clone(),
                verdict: Verdict { state: State::Gone, why },
                sample: Sample::default(),
                since_ms: None,
                reason: None,
                classes: Vec::new(),
                round_trip_ms: None,
            }
        });
        let gone: Vec<Live> = gone.collect();
        self.live.extend(gone);
    }

    /// Forgets bundles that are gone, once there are many of them.
    fn forget(&mut self) {
        let live = self.live.iter().filter(|live| live.verdict.state != State::Gone);
        let live: BTreeSet<_> = live.map(|live| &live.series).collect();
        if self.known.len().max(self.recent.len()) > 2 * live.len() + MAX_SERIES {
            self.known.retain(|series, _| live.contains(series));
            self.counted.retain(|series, _| live.contains(series));
            self.recent.retain(|series, _| live.contains(series));
        }
    }

    /// Writes what waits. `now` is in seconds since 1970.
    pub fn write(&mut self, now: u64) {
        self.written = now;
        // The last known state of each series is enough.
        let latest: BTreeMap<_, _> = self.waiting.known.drain(..).collect();
        self.waiting.known = latest.into_iter().collect();
        match self.try_write(now) {
            Ok(()) => {
                self.waiting = Change::default();
                self.recover(now);
            }
            Err(e) => self.fail(now, &e),
        }
    }

    fn try_write(&mut self, now: u64) -> Result<(), StoreError> {
        self.beyond = self.store.write(now, &self.waiting)?;
        // A clock that was set far ahead or back leaves a gap.
        let first = now.saturating_sub(Range::Hour.seconds()).next_multiple_of(60);
        if self.minute < first || self.minute > now + 60 {
            self.minute = first;
        }
        while self.minute + 60 <= now {
            self.store.close_minute(self.minute)?;
            self.minute += 60;
        }
        Ok(())
    }

    /// Notes that the file can be written again.
    fn recover(&mut self, now: u64) {
        if self.store.path() != self.path {
            return;
        }
        let Some(trouble) = self.trouble.take() else { return };
        let Trouble { since, why, lost } = trouble;
        let seconds = now.saturating_sub(since);
        let text =
            format!("the history was not written for {seconds} s, and {lost} rows are lost: {why}");
        tracing::warn!("{text}");
        self.waiting.events.push(own_event(now * 1000, HISTORY, kind::HISTORY_LOST, text));
    }

    fn fail(&mut self, now: u64, error: &StoreError) {
        if self.trouble.is_none() {
            tracing::warn!("the history is not written: {error}");
        }
        let trouble = self.trouble.get_or_insert_with(|| Trouble {
            since: now,
            why: error.to_string(),
            lost: 0,
        });
        let before = self.waiting.rows.len();
        self.waiting.rows.retain(|(_, row)| row.at + MAX_WAITING_S > now && row.at <= now);
        let lost = (before - self.waiting.rows.len()) as u64;
        trouble.lost += lost;
        self.lost += lost;
        let excess = self.waiting.events.len().saturating_sub(MAX_EVENTS);
        self.waiting.events.drain(..excess);
        if error.is_broken() {
            self.replace(now, error);
        }
    }

    /// Puts a file that turned out to be damaged aside, and begins a new one.
    fn replace(&mut self, now: u64, error: &StoreError) {
        let memory = Store::in_memory();
        let Ok(memory) = memory else { return };
        // The damaged file is closed, and its lock released, before the new one is opened.
        self.store = memory;
        match Store::put_aside(&self.path).and_then(|()| Store::open(&self.path)) {
            Ok(store) => {
                self.store = store;
                let path = self.path.display();
                let text = format!("{error}: it is now {path}.broken, and a new one began");
                self.waiting.events.push(own_event(
                    now * 1000,
                    HISTORY,
                    kind::HISTORY_REPLACED,
                    text,
                ));
                self.waiting.known =
                    self.known.iter().map(|(s, k)| (s.clone(), k.clone())).collect();
            }
            Err(e) => tracing::warn!("{e}; the history is in memory only"),
        }
    }

    fn note_boxes(&mut self, now: u64, answers: &[Answer]) {
        let mut events = Vec::new();
        for answer in answers {
            let process = answer.process;
            let before = self.boxes.get(&process);
            let was_silent = before.is_some_and(|seen| seen.silence.is_some());
            let (place, text, what) = match (&answer.status, before) {
                (Ok(status), None) => {
                    let up = status.up_s;
                    let text = format!("process {process} runs, up {up:.0} s");
                    (place(status), text, kind::BOX_SEEN)
                }
                (Ok(status), Some(_)) if was_silent => {
                    (place(status), format!("process {process} answers again"), kind::BOX_ANSWERS)
                }
                (Err(e), before) if !was_silent => {
                    let name = format!("process {process}");
                    let place = before.map_or(name, |seen| seen.place.clone());
                    (place, format!("process {process}: {e}"), kind::BOX_SILENT)
                }
                _ => continue,
            };
            events.push(own_event(now, &place, what, text));
            let silence = answer.status.as_ref().err().map(ToString::to_string);
            self.boxes.insert(process, Seen { place, silence });
        }
        self.boxes.retain(|process, seen| {
            let is_there = answers.iter().any(|answer| answer.process == *process);
            if !is_there {
                let text = format!("process {process} has ended");
                events.push(own_event(now, &seen.place, kind::BOX_GONE, text));
            }
            is_there
        });
        self.waiting.events.extend(events);
    }

    fn note_send(&mut self, now: u64, status: &Status, bundle: &SendStatus) {
        let series =
            Series { place: place(status), name: bundle.name.clone(), direction: Direction::To };
        let counted = Counted {
            run: status.run,
            up_s: status.up_s,
            bytes: bundle.bytes,
            packets: bundle.packets,
            dropped: bundle.dropped,
            marked: bundle.marked,
            refused: bundle.refused,
        };
        let recent = self.recent.entry(series.clone()).or_default();
        recent.note_send(now as f64 / 1e3, bundle);
        let verdict = recent.judge_send(bundle);
        let counts = Counts::between(self.counted.insert(series.clone(), counted), &counted);
        // Without a sample in the last second the path's figures are of earlier traffic.
        let fresh = bundle.rtt_range_ms.is_some();
        let above = |rtt: f64| bundle.min_rtt_ms.map(|least| (rtt - least).max(0.0));
        let waits = bundle.waits.clone().unwrap_or_default();
        let sample = Sample {
            mode: Some(Mode::of(&bundle.mode)),
            trouble: bundle.trouble.is_some(),
            limit_bps: bundle.rate_bps.map(|bps| bps as f64),
            arrived_bps: bundle.receive_bps.filter(|_| fresh).map(|bps| bps as f64),
            here_ms: bundle.wait_here_ms,
            here_high_ms: bundle.wait_here_ms,
            there_ms: bundle.wait_network_ms.filter(|_| fresh),
            there_low_ms: bundle.rtt_range_ms.and_then(|(low, _)| above(low)),
            there_high_ms: bundle.rtt_range_ms.and_then(|(_, high)| above(high)),
            small_ms: waits.small.mean_ms,
            small_high_ms: waits.small.longest_ms,
            large_ms: waits.large.mean_ms,
            large_high_ms: waits.large.longest_ms,
            classes_ms: std::array::from_fn(|n| waits.classes.get(n)?.wait.mean_ms),
            lost: bundle.loss.filter(|_| fresh),
            ..counts.sample()
        };
        self.note_decisions(now, &series, status, &bundle.decisions);
        self.note_trouble(now, &series, status, bundle.trouble.as_deref());
        let live = Live {
            series,
            verdict,
            sample,
            since_ms: Some(ago(now, bundle.mode_s)),
            reason: bundle.reason.clone(),
            classes: waits.classes.iter().map(|class| class.name.clone()).collect(),
            round_trip_ms: bundle.rtt_ms.zip(bundle.min_rtt_ms),
        };
        self.keep(now, live);
    }

    fn note_receive(&mut self, now: u64, status: &Status, bundle: &ReceiveStatus) {
        let series =
            Series { place: place(status), name: bundle.name.clone(), direction: Direction::From };
        let counted = Counted {
            run: status.run,
            up_s: status.up_s,
            bytes: bundle.bytes,
            packets: bundle.packets,
            dropped: None,
            marked: None,
            refused: bundle.refused,
        };
        let recent = self.recent.entry(series.clone()).or_default();
        recent.note_receive(now as f64 / 1e3, bundle);
        let verdict = recent.judge_receive(bundle);
        let counts = Counts::between(self.counted.insert(series.clone(), counted), &counted);
        let sample = Sample { trouble: bundle.trouble.is_some(), ..counts.sample() };
        self.note_trouble(now, &series, status, bundle.trouble.as_deref());
        let live = Live {
            series,
            verdict,
            sample,
            since_ms: None,
            reason: None,
            classes: Vec::new(),
            round_trip_ms: None,
        };
        self.keep(now, live);
    }

    fn keep(&mut self, now: u64, live: Live) {
        let series = &live.series;
        let known = self.known.entry(series.clone()).or_default().clone();
        self.waiting.known.push((series.clone(), known));
        self.waiting.rows.push((series.clone(), Row { at: now / 1000, sample: live.sample }));
        self.live.push(live);
    }

    /// Adds the decisions that follow the last one that is known, and says if some are missing.
    fn note_decisions(
        &mut self,
        now: u64,
        series: &Series,
        status: &Status,
        decisions: &[Decision],
    ) {
        let (process, run) = (status.process, status.run);
        let known = self.known.entry(series.clone()).or_default();
        if (known.process, known.run) != (process, run) {
            *known = Known { process, run, number: 0, trouble: known.trouble };
        }
        let fresh = decisions.iter().rev().filter(|decision| decision.number > known.number);
        let mut last = known.number;
        for decision in fresh {
            let missed = decision.number.saturating_sub(last + 1);
            let at_ms = ago(now, decision.ago_s);
            let event = |number, kind: &str, values, text| LogEvent {
                version: EVENT_VERSION,
                at_ms,
                place: series.place.clone(),
                peer: series.name.clone(),
                direction: Some(series.direction),
                number,
                kind: kind.to_owned(),
                values,
                text,
            };
            if missed > 0 {
                let values = [("missed".to_owned(), Value::Number(missed))].into();
                let text = format!(
                    "{missed} earlier decisions are not in this log: the box told the last ones only"
                );
                self.waiting.events.push(event(None, kind::EVENTS_MISSED, values, text));
            }
            self.waiting.events.push(event(
                Some(decision.number),
                &decision.kind,
                decision.values.clone(),
                decision.text.clone(),
            ));
            last = decision.number;
        }
        known.number = last;
    }

    fn note_trouble(&mut self, now: u64, series: &Series, status: &Status, trouble: Option<&str>) {
        let known = self.known.entry(series.clone()).or_default();
        if (known.process, known.run) != (status.process, status.run) {
            let trouble = known.trouble;
            *known = Known { process: status.process, run: status.run, number: 0, trouble };
        }
        if known.trouble == trouble.is_some() {
            return;
        }
        known.trouble = trouble.is_some();
        let (what, text) = match trouble {
            Some(trouble) => (kind::TROUBLE_BEGAN, trouble.to_owned()),
            None => (kind::TROUBLE_OVER, "the boxes understand each other again".to_owned()),
        };
        let event = own_event(now, &series.place, what, text);
        let (peer, direction) = (series.name.clone(), Some(series.direction));
        self.waiting.events.push(LogEvent { peer, direction, ..event });
    }

    /// Returns all bundles as they were seen last, the worst first, and those that no box has now.
    pub fn live(&self) -> &[Live] {
        &self.live
    }

    /// Returns the boxes that do not answer, each with the reason.
    pub fn silent(&self) -> impl Iterator<Item = (&str, &str)> {
        let boxes = self.boxes.values();
        boxes.filter_map(|seen| seen.silence.as_deref().map(|why| (&seen.place[..], why)))
    }

    /// Returns why the file is not written, if it is not.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Returns the rows that were lost since the start because they could not be written.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the number of bundles that have no history, since there are too many.
    pub fn without_history(&self) -> usize {
        self.beyond.len()
    }

    /// Returns the store, to read what was written.
    pub fn store(&self) -> &Store {
        &self.store
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.waiting.rows.len(), self.waiting.events.len())
    }
}

/// The differences of counters over a time.
#[derive(Default)]
struct Counts {
    rate_bps: Option<f64>,
    packets: Option<f64>,
    dropped: Option<f64>,
    marked: Option<f64>,
    refused: Option<f64>,
}

impl Counts {
    fn between(before: Option<Counted>, now: &Counted) -> Self {
        let before = before.filter(|b| b.run == now.run && b.bytes <= now.bytes);
        let Some((before, time)) = before.map(|b| (b, now.up_s - b.up_s)) else {
            return Self::default();
        };
        let more = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).map(|(now, before)| now.saturating_sub(before) as f64)
        };
        let rate = (now.bytes - before.bytes) as f64 * 8.0 / time;
        Self {
            rate_bps: (time > 0.0 && time < GAP_S).then_some(rate),
            packets: more(Some(now.packets), Some(before.packets)),
            dropped: more(now.dropped, before.dropped),
            marked: more(now.marked, before.marked),
            refused: more(Some(now.refused), Some(before.refused)),
        }
    }

    fn sample(self) -> Sample {
        let Self { rate_bps, packets, dropped, marked, refused } = self;
        Sample { rate_bps, packets, dropped, marked, refused, ..Sample::default() }
    }
}

/// Returns the name of a box: its role and outer interface.
fn place(status: &Status) -> String {
    let interface = status.interfaces.first().map_or("?", String::as_str);
    format!("{} at {interface}", status.role)
}

/// Returns the time `seconds` before `now`, in milliseconds.
fn ago(now: u64, seconds: f64) -> u64 {
    now.saturating_sub((seconds * 1e3).round() as u64)
}

fn own_event(at_ms: u64, place: &str, what: &str, text: String) -> LogEvent {
    LogEvent {
        version: EVENT_VERSION,
        at_ms,
        place: place.to_owned(),
        peer: String::new(),
        direction: None,
        number: None,
        kind: what.to_owned(),
        values: BTreeMap::new(),
        text,
    }
}

#[cfg(test)]
mod tests;
