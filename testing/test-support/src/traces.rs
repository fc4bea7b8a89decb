//! What runs of the laboratory set up and must remove.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The namespaces and processes that a process's runs have set up.
#[derive(Debug, Default)]
pub struct Traces {
    directories: BTreeSet<PathBuf>,
    namespaces: BTreeSet<PathBuf>,
    processes: BTreeSet<String>,
}

impl Traces {
    /// Records what the runs of the process `pid` have now.
    pub fn look(&mut self, pid: u32) {
        let Ok(runs) = fs::read_dir("/run/forebay-lab") else { return };
        for run in runs.map(|entry| entry.unwrap().path()) {
            let owner = fs::read_to_string(run.join("lock")).unwrap_or_default();
            if owner.split_whitespace().last() != Some(&pid.to_string()) {
                continue;
            }
            let lines = |file: &str| fs::read_to_string(run.join(file)).unwrap_or_default();
            for name in lines("namespaces").lines() {
                let file = Path::new("/run/netns").join(name);
                if file.exists() {
                    self.namespaces.insert(file);
                }
            }
            for line in lines("processes").lines() {
                self.processes.insert(line.split(' ').next().unwrap().to_owned());
            }
            self.directories.insert(run);
        }
    }

    /// Returns the number of processes seen.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Asserts that everything of `runs` runs with one site existed, and that nothing is left.
    pub fn assert_seen_and_gone(&self, runs: usize) {
        self.assert_seen_and_gone_with(runs, 6);
    }

    /// Asserts the same for runs with `namespaces` namespaces each.
    pub fn assert_seen_and_gone_with(&self, runs: usize, namespaces: usize) {
        assert_eq!((self.directories.len(), self.namespaces.len()), (runs, namespaces * runs));
        assert!(!self.processes.is_empty());
        self.assert_processes_end();
        for path in self.directories.iter().chain(&self.namespaces) {
            assert!(!path.exists(), "{} is left", path.display());
        }
    }

    /// Waits for the end of killed processes, which takes the kernel a moment, and asserts it.
    pub fn assert_processes_end(&self) {
        let alive = |pid: &&String| {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        for _ in 0..6_000 {
            if !self.processes.iter().any(|pid| alive(&pid)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let left: Vec<_> = self.processes.iter().filter(alive).collect();
        panic!("processes are left: {left:?}");
    }
}
