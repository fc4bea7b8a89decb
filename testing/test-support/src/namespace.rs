//! Network namespaces of a test's own.

use std::os::fd::AsRawFd;
use std::process::Command;

/// Runs a command whose words are separated by spaces, and returns its standard output.
///
/// # Panics
/// If the command fails, with its standard error.
pub fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let out = Command::new(words.next().unwrap()).args(words).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command}: {}", String::from_utf8_lossy(&out.stderr));
    text
}

/// A namespace that is removed when this value is dropped.
#[derive(Debug)]
pub struct Namespace(pub String);

impl Namespace {
    /// Makes a namespace whose name has the number of this process, after removing those of the
    /// same name that killed processes left.
    ///
    /// # Panics
    /// If the namespace cannot be made.
    pub fn new(name: String) -> Self {
        remove_leftovers(&name);
        run(&format!("ip netns add {name}"));
        run(&format!("ip -n {name} link set lo up"));
        Self(name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn remove_leftovers(name: &str) {
    let Some((prefix, suffix)) = name.split_once(&std::process::id().to_string()) else { return };
    for other in run("ip netns list").lines().filter_map(|line| line.split(' ').next()) {
        let number = other.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix));
        let process = number.and_then(|number| number.parse::<u32>().ok());
        if process.is_some_and(|id| !std::path::Path::new(&format!("/proc/{id}")).exists()) {
            let _ = Command::new("ip").args(["netns", "del", other]).status();
        }
    }
}

/// Moves this thread into the namespace `name`, for good.
///
/// # Panics
/// If there is no such namespace.
pub fn enter(name: &str) {
    enter_file(&std::fs::File::open(format!("/run/netns/{name}")).unwrap());
}

/// Moves this thread into the namespace of an open file, for good.
///
/// # Panics
/// If the file is no namespace.
pub fn enter_file(file: &std::fs::File) {
    // SAFETY: moves this thread alone.
    assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
}

/// Calls `f` in the namespace `name`, on a thread of its own.
///
/// # Panics
/// If there is no such namespace, or `f` panics.
pub fn within<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(name);
            f()
        });
        thread.join().unwrap()
    })
}
