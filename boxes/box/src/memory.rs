//! What a box knows of its bundles' paths is kept for the next process, so that a restart under
//! load does not take a queue for a long path.
//!
//! The file is in the directory that the service manager names in `RUNTIME_DIRECTORY`, so that only
//! services have one. It is opened before the box gives up its rights, and written again in place.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use forebay_control::{ControlLoop, Mode, Remembered};
use forebay_records::{KnownPath, KnownPaths, MAX_PATHS, MAX_PATHS_BYTES};
use forebay_system::{clock, private};
use forebay_units::{Nanos, Rate};
use forebay_wire::feedback::BundleId;

/// The variable in which a service manager names the directory of a service's runtime files.
const DIRECTORY: &str = "RUNTIME_DIRECTORY";
/// The time from the start to the first writing, if a path has been measured by then, and between
/// two looks for one otherwise.
const FIRST: Nanos = Nanos::from_secs(10);
/// The time between two writings.
const AGAIN: Nanos = Nanos::from_secs(60);
/// The age from which on a minimum RTT is not used.
const MAX_AGE: Nanos = Nanos::from_secs(3600);
/// The age from which on a rate is not used: a box that ended by a crash has written it within a
/// minute, and starts again within another.
const MAX_RATE_AGE: Nanos = Nanos::from_secs(120);

/// The file of a box's paths; nothing without one.
#[derive(Default)]
pub(crate) struct PathMemory {
    file: Option<Kept>,
    /// What the process before this one knew, and how long ago.
    earlier: Vec<KnownPath>,
    since: Nanos,
}

struct Kept {
    file: File,
    path: PathBuf,
    /// The time of the next writing.
    due: Nanos,
    /// Whether the last writing failed.
    failed: bool,
}

impl PathMemory {
    /// Opens the file of a box of this role at `interface`, and reads what the process before this
    /// one left there. A box runs without a file too, and with one that it cannot read.
    pub(crate) fn open(role: &str, interface: &str) -> Self {
        // There may be several, separated by colons.
        let Some(directories) = std::env::var_os(DIRECTORY) else { return Self::default() };
        let Some(directory) = std::env::split_paths(&directories).next() else {
            return Self::default();
        };
        Self::at(directory.join(format!("{role}-{interface}.paths")))
    }

    fn at(path: PathBuf) -> Self {
        let (now, wall) = clock::both();
        let mut file = match open(&path) {
            Ok(file) => file,
            Err(e) => {
                tracing::warn!("{}: the paths are not kept for a restart: {e}", path.display());
                return Self::default();
            }
        };
        let (earlier, since) = read(&mut file, wall).unwrap_or_else(|why| {
            tracing::warn!("{}: the paths are measured anew: {why}", path.display());
            Default::default()
        });
        let file = Some(Kept { file, path, due: now + FIRST, failed: false });
        Self { file, earlier, since }
    }

    /// Returns what the process before this one knew of the path of a bundle.
    pub(crate) fn recall(&self, id: BundleId, receivebox: &str) -> Option<Remembered> {
        let found = self.earlier.iter().find(|p| p.id == id.0 && p.receivebox == receivebox)?;
        let min_rtt_age = Nanos(found.min_rtt_age_ms.saturating_mul(1_000_000));
        let min_rtt_age = min_rtt_age.saturating_add(self.since);
        let rate = found.rate_bps.filter(|_| self.since < MAX_RATE_AGE).map(Rate::from_bps);
        let remembered = Remembered { min_rtt: Nanos(found.min_rtt_ns), min_rtt_age, rate };
        (min_rtt_age < MAX_AGE).then_some(remembered)
    }

    /// Writes the file if it is time to. `paths` returns what is known of the bundles' paths.
    pub(crate) fn write_if_due<I: Iterator<Item = KnownPath>>(
        &mut self,
        now: Nanos,
        paths: impl FnOnce() -> I,
    ) {
        if let Some(kept) = self.file.as_mut().filter(|kept| now >= kept.due) {
            let mut paths = paths().peekable();
            let is_any = paths.peek().is_some();
            kept.due = now + if is_any { AGAIN } else { FIRST };
            if is_any {
                kept.write(paths);
            }
        }
    }

    /// Writes the file, at the end.
    pub(crate) fn write(&mut self, paths: impl Iterator<Item = KnownPath>) {
        if let Some(kept) = &mut self.file {
            kept.write(paths);
        }
    }
}

impl Kept {
    /// Writes the file in place. An error is said once, until a writing succeeds.
    fn write(&mut self, paths: impl Iterator<Item = KnownPath>) {
        let (_, wall) = clock::both();
        let paths = paths.take(MAX_PATHS).collect();
        let text = KnownPaths { written_ms: wall.0 / 1_000_000, paths }.to_bytes();
        let file = &self.file;
        // What is left of a longer text is not read, so that it may stay if it cannot be cut off.
        let written = file.write_all_at(&text, 0).and_then(|()| file.set_len(text.len() as u64));
        if let Err(e) = &written
            && !self.failed
        {
            let path = self.path.display();
            tracing::warn!("{path}: the paths are not kept for a restart: {e}");
        }
        self.failed = written.is_err();
    }
}

/// Opens the file, which only this process may use.
fn open(path: &std::path::Path) -> io::Result<File> {
    let file = private::file(path)?;
    if !private::lock(&file, false)? {
        return Err(io::Error::other("another process uses the file"));
    }
    Ok(file)
}

/// Reads the file; returns its paths and how long ago it was written. A new file has no paths.
fn read(file: &mut File, wall: Nanos) -> Result<(Vec<KnownPath>, Nanos), String> {
    let mut text = Vec::new();
    let most = MAX_PATHS_BYTES as u64;
    file.take(most).read_to_end(&mut text).map_err(|e| format!("it cannot be read ({e})"))?;
    if text.is_empty() {
        return Ok(Default::default());
    }
    let KnownPaths { written_ms, paths } = KnownPaths::parse(&text).map_err(|e| e.to_string())?;
    let Some(since) = (wall.0 / 1_000_000).checked_sub(written_ms) else {
        return Err("it was written in the future, by this machine's clock".to_owned());
    };
    let since = Nanos(since.saturating_mul(1_000_000));
    if since >= MAX_AGE {
        return Err(format!("it is {} minutes old", since.0 / 60_000_000_000));
    }
    Ok((paths, since))
}

/// Returns what a control loop knows of the path to `receivebox`; `None` before it has measured.
pub(crate) fn known_path(
    id: BundleId,
    receivebox: String,
    control: &ControlLoop,
) -> Option<KnownPath> {
    let known = control.snapshot();
    let (min_rtt, age) = known.min_rtt.zip(known.min_rtt_age)?;
    Some(KnownPath {
        id: id.0,
        receivebox,
        min_rtt_ns: min_rtt.0,
        min_rtt_age_ms: age.0 / 1_000_000,
        rate_bps: known.rate.filter(|_| known.mode == Mode::DelayControl).map(Rate::as_bps),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};
    use std::path::Path;

    use super::*;

    /// A directory of a test, removed when dropped.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("fb-paths-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("site-wan0.paths")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn path(id: u16, receivebox: &str) -> KnownPath {
        KnownPath {
            id,
            receivebox: receivebox.to_owned(),
            min_rtt_ns: 40_000_000,
            min_rtt_age_ms: 3_000,
            rate_bps: Some(24_000_000),
        }
    }

    const V4: &str = "192.0.2.1:28316";
    const V6: &str = "[2001:db8::1]:28316";

    /// Writes the file as it was `seconds` ago; the future is negative.
    fn write_ago(file: &Path, seconds: i64, paths: Vec<KnownPath>) {
        let wall = clock::both().1.0 / 1_000_000;
        let written_ms = wall.saturating_add_signed(-seconds * 1000);
        fs::write(file, KnownPaths { written_ms, paths }.to_bytes()).unwrap();
    }

    fn recalled(file: &Path) -> Option<Remembered> {
        PathMemory::at(file.to_owned()).recall(BundleId(7), V4)
    }

    #[test]
    fn the_next_process_knows_the_paths_of_the_same_bundles() {
        let place = Place::new("next");
        let mut memory = PathMemory::at(place.file());
        assert_eq!(memory.recall(BundleId(7), V4), None, "the file is new");
        memory.write([path(7, V4), path(8, V6)].into_iter());
        drop(memory);
        let memory = PathMemory::at(place.file());
        for (id, receivebox) in [(7, V4), (8, V6)] {
            let found = memory.recall(BundleId(id), receivebox).unwrap();
            assert_eq!(found.min_rtt, Nanos::from_millis(40));
            let age = found.min_rtt_age;
            assert!((Nanos::from_secs(3)..Nanos::from_secs(60)).contains(&age), "{age}");
            assert_eq!(found.rate, Some(Rate::from_mbps(24)));
        }
        assert_eq!(memory.recall(BundleId(8), V4), None, "another receivebox");
        assert_eq!(memory.recall(BundleId(9), V6), None, "another id");
    }

    #[test]
    fn the_file_is_written_when_it_is_due() {
        let place = Place::new("due");
        let mut memory = PathMemory::at(place.file());
        let start = memory.file.as_ref().unwrap().due - FIRST;
        let length = || fs::metadata(place.file()).unwrap().len();
        let many = |n| move || (0..n).map(|id| path(id, V4));
        memory.write_if_due(start + FIRST - Nanos(1), many(3));
        assert_eq!(length(), 0);
        memory.write_if_due(start + FIRST, many(0));
        assert_eq!(length(), 0, "no path is known");
        let start = start + FIRST;
        memory.write_if_due(start + FIRST, many(3));
        let three = length();
        assert!(three > 0);
        memory.write_if_due(start + FIRST + AGAIN - Nanos(1), many(1));
        assert_eq!(length(), three);
        memory.write_if_due(start + FIRST + AGAIN, many(1));
        assert!(length() < three, "the rest of the longer text is cut off");
    }

    #[test]
    fn old_memories_are_not_used() {
        let place = Place::new("old");
        let file = place.file();
        let after = |seconds, age_ms| {
            write_ago(&file, seconds, vec![KnownPath { min_rtt_age_ms: age_ms, ..path(7, V4) }]);
            recalled(&file)
        };
        assert!(after(60, 0).unwrap().rate.is_some());
        let without_rate = after(180, 0).unwrap();
        assert_eq!(without_rate.rate, None);
        assert!(without_rate.min_rtt_age >= Nanos::from_secs(180));
        assert!(after(3_000, 500_000).is_some());
        assert_eq!(after(3_000, 700_000), None, "the minimum is older than the file");
        assert_eq!(after(3_700, 0), None);
        assert_eq!(after(-60, 0), None, "the clock was set back");
        assert_eq!(after(60, u64::MAX), None);
    }

    #[test]
    fn bad_files_are_ignored_and_replaced() {
        let place = Place::new("bad");
        let file = place.file();
        write_ago(&file, 1, vec![path(7, V4)]);
        let whole = fs::read(&file).unwrap();
        let future = [&b"forebay-paths 2"[..], &whole[15..]].concat();
        for bad in [&whole[..whole.len() - 1], b"\0\0\0", b"[sendbox]\n", &future] {
            fs::write(&file, bad).unwrap();
            let mut memory = PathMemory::at(file.clone());
            assert!(memory.earlier.is_empty(), "{bad:?}");
            memory.write([path(7, V4)].into_iter());
            drop(memory);
            assert!(recalled(&file).is_some());
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_no_file() {
        let place = Place::new("none");
        let absent = PathMemory::at(place.0.join("absent").join("file"));
        assert!(absent.file.is_none());
        let first = PathMemory::at(place.file());
        assert!(PathMemory::at(place.file()).file.is_none(), "another process uses it");
        drop(first);
        assert!(PathMemory::at(place.file()).file.is_some());
        symlink(place.file(), place.0.join("link")).unwrap();
        assert!(PathMemory::at(place.0.join("link")).file.is_none());
        assert!(PathMemory::at(place.0.clone()).file.is_none(), "it is a directory");
        let pipe = place.0.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(PathMemory::at(pipe).file.is_none(), "it is a pipe, and nothing waits for it");
        if private::user() == 0 {
            chown(place.file(), Some(65_534), None).unwrap();
            assert!(PathMemory::at(place.file()).file.is_none(), "it is another user's");
        }
    }

    #[test]
    fn a_huge_file_is_not_read_and_is_replaced() {
        let place = Place::new("huge");
        let file = File::create(place.file()).unwrap();
        file.set_len(1 << 40).unwrap();
        let mut memory = PathMemory::at(place.file());
        assert!(memory.earlier.is_empty());
        memory.write([path(7, V4)].into_iter());
        assert!(file.metadata().unwrap().len() < 1000);
        drop(memory);
        assert!(recalled(&place.file()).is_some());
    }

    /// A full disk: it is said once, and the box goes on.
    #[test]
    fn a_writing_that_fails_is_tried_again() {
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        let kept =
            Kept { file: full, path: PathBuf::from("/dev/full"), due: Nanos::ZERO, failed: false };
        let mut memory = PathMemory { file: Some(kept), ..PathMemory::default() };
        for n in 0..3 {
            memory.write_if_due(AGAIN * n, || [path(7, V4)].into_iter());
            assert!(memory.file.as_ref().unwrap().failed, "{n}");
        }
    }
}
