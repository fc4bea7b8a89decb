//! What the two sides of a run write for each other, in a directory that both see.

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::{EngineError, Job, Progress};
use crate::netns::Dataplane;
use crate::scenario::{Arm, Scenario};

/// In the shared directory: what to run.
const ORDER: &str = "order.json";
/// In the shared directory: how far it is.
const BEAT: &str = "beat.json";
/// In the shared directory: why it could not be run.
const FAILURE: &str = "failure.json";
/// In the shared directory: what was measured, as stored runs are.
pub(super) const RUN: &str = "run.jsonl";

/// A [`Job`] that owns what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    scenario: Scenario,
    arm: Arm,
    seed: u64,
    /// Who queues the packets at the sendboxes.
    pub(super) dataplane: Dataplane,
}

impl Order {
    pub(super) fn of(job: &Job<'_>, dataplane: Dataplane) -> Self {
        let (scenario, arm) = (job.scenario.clone(), job.arm.clone());
        Self { scenario, arm, seed: job.seed, dataplane }
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

/// Tells how far the run is. Written whole: a reader may come at any time.
pub(super) fn write_beat(dir: &Path, progress: &Progress) -> io::Result<()> {
    write(&dir.join(BEAT), progress)
}

/// The last beat; `None` before the first.
pub(super) fn read_beat(dir: &Path) -> Option<Progress> {
    read(&dir.join(BEAT)).ok()
}

/// An [`EngineError`] that goes from the guest to its host.
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

    /// What the guest says went wrong; `None` if it says nothing.
    pub(super) fn read(dir: &Path) -> Option<Self> {
        read(&dir.join(FAILURE)).ok()
    }
}

/// Puts a whole file in place of the one that is there.
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
    fn what_is_written_is_read() {
        let dir = std::env::temp_dir().join(format!("fb-order-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let demo = parse("demo.toml".as_ref(), DEMO).unwrap();
        for arm in &demo.cells[0].arms {
            let order =
                Order::of(&Job { scenario: &demo.cells[0], arm, seed: 7 }, Dataplane::Kernel);
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
