//! The build of the guest's kernel.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::source::Source;
use super::{Kernel, file_name, room_in};
use crate::{Error, Interrupt};

/// The tools that a build uses, each with its Debian package.
const TOOLS: [(&str, &str); 12] = [
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("patch", "patch"),
    ("pahole", "dwarves"),
    ("strip", "binutils"),
];
/// The space in bytes that source and objects take.
const ROOM: u64 = 3 << 30;
/// The message of a step when the disk is full (`ENOSPC`, in English by [`SAME_EVERYWHERE`]).
const NO_SPACE: &str = "No space left on device";
/// The interval at which an interrupt is checked.
const TICK: Duration = Duration::from_millis(100);
/// The number of lines of a failed step's output that are shown.
const TAIL: usize = 20;
/// Variables that enter the kernel's version string, which is mixed into its random numbers. With
/// the time and place of the build, two kernels of one recipe would differ.
const SAME_EVERYWHERE: [(&str, &str); 5] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan 1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "forebay"),
    ("KBUILD_BUILD_HOST", "forebay"),
    ("KBUILD_BUILD_VERSION", "1"),
    ("LC_ALL", "C"),
];

/// Builds the kernel into `cache`, which the caller has locked, and returns its file.
///
/// # Errors
///
/// If a tool or package is missing, which the error names, or a step fails. No incomplete file is
/// left.
pub(super) fn build(
    cache: &Path,
    which: Kernel,
    source: Option<Source>,
    interrupt: &Interrupt,
    told: &mut dyn FnMut(u32),
) -> Result<PathBuf, Error> {
    check_tools(&env::var_os("PATH").unwrap_or_default())?;
    let room = room_in(cache).unwrap_or(u64::MAX);
    if room < ROOM {
        return Err(no_room(cache, &format!("has {:.1} GB", room as f64 / (1u64 << 30) as f64)));
    }
    tracing::info!("building the guests' kernel, which happens once and takes some minutes");
    let place = Place::new(cache.join("build"))?;
    let source = source.map_or_else(|| Source::fetch(&place.0, interrupt), Ok)?;
    let (dir, log) = (place.0.clone(), place.0.join("log"));
    let mut steps = Steps { cache, dir, log, interrupt, told };
    let tarball = source.tarball.to_string_lossy().into_owned();
    steps.run("tar", &["-xJf", &tarball, "--strip-components=1", "--one-top-level=linux"])?;
    steps.dir = place.0.join("linux");
    for (name, patch) in which.patches() {
        let file = place.0.join(format!("{name}.patch"));
        write(&file, patch)?;
        steps.run("patch", &["-p1", "-s", "-i", &file.to_string_lossy()])?;
    }
    steps.run("make", &["ARCH=um", which.base()])?;
    // Of two lines for one option, the last one counts.
    let config = steps.dir.join(".config");
    OpenOptions::new()
        .append(true)
        .open(&config)
        .and_then(|mut file| file.write_all(which.configuration().as_bytes()))
        .map_err(Error::io("writing the kernel's configuration"))?;
    steps.run("make", &["ARCH=um", "olddefconfig"])?;
    let text = fs::read_to_string(&config).map_err(Error::io("reading .config"))?;
    for line in disregarded(which.configuration(), &text) {
        tracing::warn!("the guest's kernel has no option {line}");
    }
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    steps.run("make", &["ARCH=um", &format!("-j{jobs}"), "linux"])?;
    steps.run("strip", &["linux"])?;
    let kernel = cache.join(file_name(&source.version, &which.recipe()));
    fs::rename(steps.dir.join("linux"), &kernel)
        .map_err(Error::io("keeping the guest's kernel"))?;
    Ok(kernel)
}

/// The directory of a build, removed when dropped. The next build removes that of a killed one.
struct Place(PathBuf);

impl Place {
    fn new(path: PathBuf) -> Result<Self, Error> {
        if path.exists() {
            remove(&path)?;
        }
        fs::create_dir(&path).map_err(Error::io(format!("creating {}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(e) = remove(&self.0) {
            tracing::error!("{e}");
        }
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    fs::remove_dir_all(path).map_err(Error::io(format!("removing {}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::io(format!("writing {}", path.display())))
}

/// An error about missing space in `cache`, with the reason.
fn no_room(cache: &Path, says: &str) -> Error {
    Error::Unfit(format!(
        "building the guest's kernel takes {} GB for a while, and {} {says}: make room, or set \
         XDG_CACHE_HOME to a place that has it",
        ROOM >> 30,
        cache.display(),
    ))
}

fn check_tools(path: &std::ffi::OsStr) -> Result<(), Error> {
    let has = |tool: &str| env::split_paths(path).any(|dir| dir.join(tool).is_file());
    let mut missing: Vec<_> =
        TOOLS.iter().filter(|(tool, _)| !has(tool)).map(|(_, package)| *package).collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "building the guest's kernel needs {}: install them (scripts/setup does, or apt-get install \
         {}), or use another engine (`--engine sim`, `--engine netns`)",
        missing.join(", "),
        missing.join(" "),
    )))
}

/// The lines of `wanted` that are missing in the configuration `got`.
fn disregarded<'a>(wanted: &'a str, got: &str) -> Vec<&'a str> {
    let is_set = |line: &str| got.lines().any(|l| l == line);
    let holds = |line: &str| match line.strip_suffix("=n") {
        Some(option) => {
            !got.lines().any(|l| l.strip_prefix(option).is_some_and(|l| l.starts_with('=')))
        }
        None => is_set(line),
    };
    let options = wanted.lines().filter(|line| line.starts_with("CONFIG_"));
    options.filter(|line| !holds(line)).collect()
}

/// The steps of a build in order.
struct Steps<'a> {
    cache: &'a Path,
    dir: PathBuf,
    log: PathBuf,
    interrupt: &'a Interrupt,
    told: &'a mut dyn FnMut(u32),
}

impl Steps<'_> {
    /// Runs a step and waits for its end.
    fn run(&mut self, program: &str, arguments: &[&str]) -> Result<(), Error> {
        let line = format!("{program} {}", arguments.join(" "));
        let failed = |e| Error::io(format!("running {line}"))(e);
        let said = File::create(&self.log).map_err(failed)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.dir)
            .envs(SAME_EVERYWHERE)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said);
        let mut child = ended_with_us(&mut command).spawn().map_err(failed)?;
        let files = AtomicU32::new(0);
        let status = thread::scope(|scope| {
            if let Some(out) = child.stdout.take() {
                let files = &files;
                scope.spawn(move || {
                    // A line looks like `  CC      net/core/dev.o`.
                    let lines = BufReader::new(out).lines().map_while(Result::ok);
                    let done = lines.filter(|line| line.starts_with("  CC "));
                    done.for_each(|_| {
                        files.fetch_add(1, Ordering::Relaxed);
                    });
                });
            }
            loop {
                (self.told)(files.load(Ordering::Relaxed));
                match child.try_wait() {
                    Ok(Some(status)) => return Ok(status),
                    Ok(None) if self.interrupt.is_raised() => {
                        // SAFETY: takes two integers; the child is not reaped, so that the group is
                        // its own.
                        unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
                        let _ = child.wait();
                        return Err(Error::Interrupted);
                    }
                    Ok(None) => thread::sleep(TICK),
                    Err(e) => return Err(failed(e)),
                }
            }
        })?;
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        if said.contains(NO_SPACE) {
            return Err(no_room(self.cache, "is full"));
        }
        let lines: Vec<_> = said.lines().collect();
        let message = lines[lines.len().saturating_sub(TAIL)..].join("\n");
        Err(Error::Command { command: line, message: format!("{status}\n{message}") })
    }
}

/// Starts the process in its own group. It gets a signal when the thread that starts it ends.
fn ended_with_us(command: &mut Command) -> &mut Command {
    command.process_group(0);
    // SAFETY: between fork and exec only prctl is called, a plain system call.
    unsafe {
        command.pre_exec(|| {
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_differ_from_the_wanted_ones_are_named() {
        let wanted = "# words\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_C=n\nCONFIG_D=y\nCONFIG_E=\"x\"\n";
        let got = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_CC=y\nCONFIG_E=\"x\"\n";
        assert_eq!(disregarded(wanted, got), ["CONFIG_C=n", "CONFIG_D=y"]);
    }

    #[test]
    fn missing_tools_are_named_with_their_packages() {
        let error = check_tools("/no/such/place".as_ref()).unwrap_err().to_string();
        assert!(
            error.contains(
                "apt-get install bc binutils bison dwarves flex gcc make patch perl tar xz-utils),"
            ),
            "{error}"
        );
        assert!(!error.contains('\n'), "one line: {error}");
    }

    #[test]
    fn a_step_counts_files_and_reports_its_failure() {
        let place = Place::new(env::temp_dir().join(format!("fb-steps-{}", std::process::id())));
        let place = place.unwrap();
        let interrupt = Interrupt::default();
        let mut most = 0;
        let mut told = |files| most = files;
        let mut steps = Steps {
            cache: &place.0,
            dir: place.0.clone(),
            log: place.0.join("log"),
            interrupt: &interrupt,
            told: &mut told,
        };
        steps.run("sh", &["-c", "echo '  CC      a.o'; echo '  AR      b.a'"]).unwrap();
        let full = "echo 'cc1: error: a.s: No space left on device' >&2; echo x >&2; exit 1";
        let error = steps.run("sh", &["-c", full]).unwrap_err().to_string();
        assert!(error.contains("make room") && !error.contains('\n'), "one line: {error}");
        let error = steps.run("sh", &["-c", "echo broken >&2; exit 3"]).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains("exit status: 3"), "{error}");
        interrupt.raise();
        let ended = steps.run("sleep", &["60"]);
        assert!(matches!(ended, Err(Error::Interrupted)));
        let path = place.0.clone();
        drop(place);
        assert!(!path.exists());
    }
}
