//! The files that host and guest exchange in a shared directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::{EngineError, Job, Progress};
use crate::netns::{Dataplane, Netns};
use crate::scenario::{Arm, Scenario};
use crate::uml::Uml;

/// The file with the job.
const ORDER: &str = "order.json";
/// The file with the progress.
const BEAT: &str = "beat.json";
/// The file with the reason for a failure.
const FAILURE: &str = "failure.json";
/// The file with the records, in the format of stored runs.
pub(super) const RUN: &str = "run.jsonl";

/// A [`Job`] that owns its scenario and arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    scenario: Scenario,
    arm: Arm,
    seed: u64,
    /// The program `forebay`, by its path on the host, which is the guest's too.
    forebay: PathBuf,
    /// Where packets queue at the sendboxes.
    dataplane: Dataplane,
}

impl Order {
    pub(super) fn of(job: &Job<'_>, engine: &Uml) -> Self {
        let (scenario, arm) = (job.scenario.clone(), job.arm.clone());
        let Uml { forebay, dataplane } = engine.clone();
        Self { scenario, arm, seed: job.seed, forebay, dataplane }
    }

    /// The engine inside the guest.
    pub(super) fn engine(&self) -> Netns {
        Netns { forebay: self.forebay.clone(), dataplane: self.dataplane }
    }

    pub(super) fn job(&self) -> Job<'_> {
        Job { scenario: &self.scenario, arm: &self.arm, seed: self.seed }
    }

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        write(&dir.join(ORDER), self)
    }

    pub(super) fn read(dir: &Path) -> io::Result<Self> {
        read(&dir.join(ORDER))
    }
}

/// Writes the progress. The file is replaced as a whole, since it may be read at any time.
pub(super) fn write_beat(dir: &Path, progress: &Progress) -> io::Result<()> {
    write(&dir.join(BEAT), progress)
}

/// Reads the last beat; `None` before the first.
pub(super) fn read_beat(dir: &Path) -> Option<Progress> {
    read(&dir.join(BEAT)).ok()
}

/// An [`EngineError`] that the guest reports to its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Failure {
    Unfit(String),
    Command { command: String, message: String },
    Process { process: String, what: String, stderr: String },
}

impl Failure {
    pub(super) fn of(error: EngineError) -> Self {
        match error {
            EngineError::Command { command, message } => Self::Command { command, message },
            EngineError::Process { process, what, stderr } => {
                Self::Process { process, what, stderr }
            }
            other => Self::Unfit(other.to_string()),
        }
    }

    pub(super) fn into_error(self) -> EngineError {
        match self {
            Self::Unfit(message) => EngineError::Unfit(message),
            Self::Command { command, message } => EngineError::Command { command, message },
            Self::Process { process, what, stderr } => {
                EngineError::Process { process, what, stderr }
            }
        }
    }

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        write(&dir.join(FAILURE), self)
    }

    /// Reads the reason that the guest reports; `None` if there is none.
    pub(super) fn read(dir: &Path) -> Option<Self> {
        read(&dir.join(FAILURE)).ok()
    }
}

/// Replaces the file `path` as a whole.
fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, serde_json::to_vec(value)?)?;
    fs::rename(&partial, path)
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use forebay_units::Nanos;

    use super::*;
    use crate::engine::Phase;
    use crate::scenario::{DEMO, parse};

    #[test]
    fn files_are_read_as_written() {
        let dir = std::env::temp_dir().join(format!("fb-order-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let demo = parse("demo.toml".as_ref(), DEMO).unwrap();
        let engine = Uml { forebay: "/usr/bin/forebay".into(), dataplane: Dataplane::Kernel };
        for arm in &demo.cells[0].arms {
            let order = Order::of(&Job { scenario: &demo.cells[0], arm, seed: 7 }, &engine);
            order.write(&dir).unwrap();
            assert_eq!(Order::read(&dir).unwrap(), order, "{}", arm.name);
        }
        assert_eq!(read_beat(&dir), None);
        let (elapsed, length) = (Nanos::from_millis(1_200), Nanos::from_secs(47));
        let beat = Progress { phase: Phase::WarmUp, elapsed, length };
        write_beat(&dir, &beat).unwrap();
        assert_eq!(read_beat(&dir), Some(beat));
        assert_eq!(Failure::read(&dir), None);
        let error = || EngineError::Process {
            process: "link".to_owned(),
            what: "ended early".to_owned(),
            stderr: "why".to_owned(),
        };
        Failure::of(error()).write(&dir).unwrap();
        let back = Failure::read(&dir).unwrap().into_error();
        assert_eq!(back.to_string(), error().to_string());
        fs::remove_dir_all(&dir).unwrap();
    }
}
