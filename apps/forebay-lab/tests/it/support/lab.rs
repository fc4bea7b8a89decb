//! Runs of the laboratory with the command, and what they keep.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use forebay_lab::analysis::Analysis;
use forebay_lab::engine::{EngineError, Interrupt};
use forebay_lab::results::{Run, store};
use forebay_lab::uml;
use forebay_test_support::process::HANG_TIMEOUT;
use forebay_test_support::traces::Traces;
use forebay_test_support::{Dir, Need, skip};

use super::PROGRAM;

/// Returns the command that runs a scenario in an engine.
pub(crate) fn lab_run(engine: &str, file: &Path, out: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "--engine", engine]).arg(file).arg("--out").arg(out);
    command
}

/// Starts a command that reads nothing and whose output the test reads.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Watches what `child` sets up until `is_over`.
pub(crate) fn watch(
    child: &mut Child,
    traces: &mut Traces,
    is_over: impl Fn(&mut Child, &Traces) -> bool,
) {
    let start = Instant::now();
    while !is_over(child, traces) {
        if start.elapsed() > HANG_TIMEOUT {
            child.kill().unwrap();
            panic!("it took more than {HANG_TIMEOUT:?}");
        }
        traces.look(child.id());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Watches what `child` sets up until it has ended, and returns what it printed.
pub(crate) fn end(mut child: Child, traces: &mut Traces) -> Output {
    watch(&mut child, traces, |child, _| child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

/// Whether there is a kernel for virtual time, which is built first. If not, reports a skip.
#[track_caller]
pub(crate) fn has_uml_kernel() -> bool {
    match uml::prepare(&Interrupt::default()) {
        Ok(()) => true,
        Err(EngineError::Unfit(why)) => {
            skip(Need::Kernel, &why);
            false
        }
        Err(e) => panic!("{e}"),
    }
}

/// Returns the file of an experiment of the repository.
pub(crate) fn experiment(name: &str) -> PathBuf {
    let file = format!("{}/../../experiments/bundler/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    PathBuf::from(file)
}

/// Runs a scenario, which has a single run, in real time, and checks what holds for every run.
pub(crate) fn run_in_real_time(file: &Path, dir: &Dir) -> Run {
    let mut traces = Traces::default();
    let output = end(start(&mut lab_run("netns", file, dir.path())), &mut traces);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    traces.assert_seen_and_gone(1);
    only_run(dir).0
}

/// Returns the single run that is stored in `dir`, and checks that no packet is unaccounted for.
pub(crate) fn only_run(dir: &Dir) -> (Run, Analysis) {
    let kept = store::files(&dir.0).unwrap();
    let [file_of_run] = &kept[..] else { panic!("{kept:?}") };
    let run = store::load(file_of_run).unwrap();
    let analysis = Analysis::of(&run);
    let no_violation: [String; 0] = [];
    assert_eq!(analysis.summary.conservation.violations, no_violation);
    (run, analysis)
}
