//! Runs on disk, so that figures and reports can be drawn again without running again.
//!
//! One file a run, in JSON lines: first a header with what the run is and how many records of each
//! kind follow, then the records, packets some hundred to a line. The header's counts tell a file
//! that was cut from one that is whole, wherever the cut fell. Both ways go line by line; a line is
//! at most [`MAX_LINE`] long and a kind at most [`MAX_RECORDS`] many, and more is an error, so a
//! damaged file cannot take the machine's memory.

mod line;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use line::{BATCH, Counts, Header, Line};

use super::Run;

/// The length of the longest line in bytes.
pub const MAX_LINE: u64 = 1 << 20;

/// The largest number of records of one kind: over an hour and a half of full packets at 96 Mbit/s.
pub const MAX_RECORDS: u64 = 50_000_000;

/// Why a run could not be stored or loaded.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file or directory could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The path of the file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A line is malformed.
    #[error("{path}, line {line}: {problem}; delete the file and run this arm again")]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// A description of the problem.
        problem: String,
    },
    /// A file of another tool cannot be read.
    #[error("{path}, line {line}: {problem}")]
    Foreign {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: u64,
        /// A description of the problem.
        problem: String,
    },
    /// A file that is not made of lines is malformed.
    #[error("{path}, byte {byte}: {problem}")]
    Byte {
        /// The path of the file.
        path: PathBuf,
        /// The place of the byte, from 0.
        byte: u64,
        /// A description of the problem.
        problem: String,
    },
    /// The run has more records of a kind than may be stored.
    #[error(
        "{count} {kind} are more than the {MAX_RECORDS} that a file may hold; make the run shorter"
    )]
    TooLarge {
        /// The kind in plural.
        kind: &'static str,
        /// The number of records.
        count: u64,
    },
    /// The directory holds no stored run.
    #[error("no stored runs (*.jsonl) in {0}; `forebay lab run` makes them")]
    None(PathBuf),
}

/// The file name for `run`: its arm, rate, round-trip time, labels and seed, which distinguish the
/// runs of an experiment. Blanks become `+`, and characters other than ASCII letters, digits, `_`
/// and `-` become `%` with their code, so two runs never share a file.
pub fn file_name(run: &Run) -> String {
    name_without(run, &[])
}

/// The file of `run` within a directory: one subdirectory `KEY=VALUE` for each label that is one of
/// `axes`, and in it the [`file_name`] by the other labels.
pub fn path_by(axes: &[&str], run: &Run) -> PathBuf {
    let given = axes.iter().filter_map(|axis| Some((axis, run.labels.get(*axis)?)));
    let mut path: PathBuf =
        given.map(|(axis, value)| format!("{axis}={}", escaped(value))).collect();
    path.push(name_without(run, axes));
    path
}

fn name_without(run: &Run, axes: &[&str]) -> String {
    let (mbps, ms) = (run.rate.as_mbps_f64(), run.base_rtt.as_millis_f64());
    let mut name = format!("{}-{mbps}mbit-{ms}ms", escaped(&run.arm));
    for (_, value) in run.labels.iter().filter(|(key, _)| !axes.contains(&key.as_str())) {
        name.push('-');
        name.push_str(&escaped(value));
    }
    format!("{name}-{}.jsonl", run.seed)
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            ' ' => escaped.push('+'),
            '_' | '-' => escaped.push(c),
            c if c.is_ascii_alphanumeric() => escaped.push(c),
            c => escaped.push_str(&format!("%{:X}", u32::from(c))),
        }
    }
    escaped
}

/// Returns the stored runs in `dir`, sorted by name.
///
/// # Errors
///
/// If `dir` cannot be read or contains none.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let io = |source| StoreError::Io { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(StoreError::None(dir.to_owned())) } else { Ok(files) }
}

/// Writes `run` to `path`. The file is written under another name and renamed when complete, so an
/// interruption leaves no incomplete file.
///
/// # Errors
///
/// If `run` is too large or the file cannot be written.
pub fn save(path: &Path, run: &Run) -> Result<(), StoreError> {
    let counts = Counts::of(run).by_kind();
    if let Some(&(kind, count)) = counts.iter().find(|(_, count)| *count > MAX_RECORDS) {
        return Err(StoreError::TooLarge { kind, count });
    }
    let partial = path.with_extension("partial");
    let written = File::create(&partial).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 18, file);
        write(&mut out, run)?;
        out.flush()?;
        fs::rename(&partial, path)
    });
    written.map_err(|source| StoreError::Io { path: path.to_owned(), source })
}

/// Writes `run` to `out` in the format of a file.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write(out: &mut impl Write, run: &Run) -> io::Result<()> {
    let mut put = |line: Line| {
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")
    };
    put(Line::Run(Header::of(run)))?;
    run.hops.iter().try_for_each(|h| put(Line::Hop(h.clone())))?;
    run.phases.iter().try_for_each(|p| put(Line::Phase(p.clone())))?;
    run.faults.iter().try_for_each(|f| put(Line::Fault(f.clone())))?;
    run.requests.iter().try_for_each(|r| put(Line::Request(*r)))?;
    run.progress.iter().try_for_each(|p| put(Line::Progress(p.clone())))?;
    run.round_trips.iter().try_for_each(|t| put(Line::RoundTrip(t.clone())))?;
    run.ticks.iter().try_for_each(|t| put(Line::Tick(t.clone())))?;
    run.events.iter().try_for_each(|e| put(Line::Event(e.clone())))?;
    super::intervals(run).try_for_each(|i| put(Line::Interval(i)))?;
    run.bottleneck.chunks(BATCH).try_for_each(|b| put(Line::Bottleneck(line::pack(b))))?;
    run.sendbox.chunks(BATCH).try_for_each(|b| put(Line::Sendbox(line::pack(b))))
}

/// Reads the run at `path`.
///
/// # Errors
///
/// If the file cannot be read, or is damaged, incomplete, of another version or too large; the
/// error names the line.
pub fn load(path: &Path) -> Result<Run, StoreError> {
    let io = |source| StoreError::Io { path: path.to_owned(), source };
    parse(path, BufReader::with_capacity(1 << 18, File::open(path).map_err(io)?))
}

/// Reads a run from `input`. Errors refer to it as `path`.
///
/// # Errors
///
/// Fails under the conditions of [`load`].
pub fn parse(path: &Path, input: impl BufRead) -> Result<Run, StoreError> {
    let mut lines = Lines { input, line: 0 };
    read(&mut lines).map_err(|problem| match problem {
        Problem::Io(source) => StoreError::Io { path: path.to_owned(), source },
        Problem::Line(problem) => {
            StoreError::Line { path: path.to_owned(), line: lines.line, problem }
        }
    })
}

enum Problem {
    Io(io::Error),
    Line(String),
}

struct Lines<R> {
    input: R,
    /// The number of the last line read, or of the missing line.
    line: u64,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<Line>, Problem> {
        self.line += 1;
        let mut text = Vec::new();
        let n =
            (&mut self.input).take(MAX_LINE).read_until(b'\n', &mut text).map_err(Problem::Io)?;
        if n == 0 {
            return Ok(None);
        }
        if text.last() != Some(&b'\n') {
            let long = n as u64 == MAX_LINE;
            let problem = if long { "too long for a line" } else { "the file ends in mid-line" };
            return Err(Problem::Line(problem.to_owned()));
        }
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).map_err(|e| Problem::Line(format!("not a record: {e}")))
    }
}

fn read(lines: &mut Lines<impl BufRead>) -> Result<Run, Problem> {
    let Some(Line::Run(header)) = lines.next()? else {
        return Err(Problem::Line("not the header of a run".to_owned()));
    };
    let expected = header.records.by_kind();
    let mut run = header.run().map_err(Problem::Line)?;
    if let Some((kind, count)) = expected.iter().find(|(_, count)| *count > MAX_RECORDS) {
        return Err(Problem::Line(format!("announces {count} {kind}")));
    }
    let mut intervals = 0;
    while let Some(line) = lines.next()? {
        match line {
            Line::Run(_) => return Err(Problem::Line("a second header".to_owned())),
            Line::Request(r) => run.requests.push(r),
            Line::Progress(p) => run.progress.push(p),
            Line::RoundTrip(t) => run.round_trips.push(t),
            Line::Tick(t) => run.ticks.push(t),
            Line::Event(e) => run.events.push(e),
            Line::Hop(h) => run.hops.push(h),
            Line::Phase(p) => run.phases.push(p),
            Line::Fault(f) => run.faults.push(f),
            Line::Interval(_) => intervals += 1,
            Line::Bottleneck(packets) => run.bottleneck.extend(line::unpack(packets)),
            Line::Sendbox(packets) => run.sendbox.extend(line::unpack(packets)),
        }
        for ((kind, count), (_, announced)) in counted(&run, intervals).zip(expected) {
            if count > announced {
                return Err(Problem::Line(format!("more than the {announced} {kind} announced")));
            }
        }
    }
    for ((kind, count), (_, announced)) in counted(&run, intervals).zip(expected) {
        if count < announced {
            let missing = announced - count;
            let problem =
                format!("the file ends here, {missing} of {announced} {kind} are missing");
            return Err(Problem::Line(problem));
        }
    }
    Ok(run)
}

/// The number of records read so far, by kind. Intervals are not kept, so they are counted
/// separately.
fn counted(run: &Run, intervals: u64) -> impl Iterator<Item = (&'static str, u64)> {
    Counts::read(run, intervals).by_kind().into_iter()
}
