//! Tests of kernel builds and of the files that a failed build leaves. Programs of a few lines
//! replace the compiler and all other programs of a build, so these tests need no root and no time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread;
use std::time::Duration;

use forebay_lab::engine::Interrupt;
use forebay_lab::uml;
use forebay_test_support::Dir;

/// The programs of a build that only have to succeed.
const IDLE: [&str; 10] =
    ["gcc", "ld", "flex", "bison", "bc", "perl", "xz", "patch", "pahole", "strip"];
/// A program that unpacks any archive.
const TAR: &str = "mkdir linux";
/// A program that fetches an empty package, for hosts without the kernel's source.
const APT: &str = "touch source.deb";
const DPKG_DEB: &str = r#"[ "$1" = -x ] || echo 6.12.9-1"#;
/// A program that does what `make ARCH=um linux` does, and reports it.
const MAKE: &str = r#"case "$*" in
*config*) touch .config ;;
*) echo made >>"$LOG"; sleep 0.3; cp /bin/true linux ;;
esac"#;
/// A `make` that never ends.
const STUCK: &str = r#"case "$*" in
*config*) touch .config ;;
*) echo $$ >"$LOG"; exec sleep 600 ;;
esac"#;

/// Builds the kernel, until standard input ends.
pub(crate) fn prepare() -> ExitCode {
    let interrupt = Interrupt::default();
    let raised = interrupt.clone();
    thread::spawn(move || {
        // However it ends.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        raised.raise();
    });
    match uml::prepare(&interrupt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// A cache and the programs that a build finds.
struct Scene(Dir);

impl Scene {
    fn new(make: &str) -> Self {
        let scene = Self(Dir::new("uml-build"));
        fs::create_dir(scene.bin()).unwrap();
        IDLE.iter().for_each(|name| scene.program(name, ""));
        for (name, text) in [
            ("tar", TAR),
            ("apt-get", APT),
            ("dpkg-deb", DPKG_DEB),
            ("dpkg-query", "echo 6.12.9-1"),
        ] {
            scene.program(name, text);
        }
        scene.program("make", make);
        scene
    }

    fn bin(&self) -> PathBuf {
        self.0.path().join("bin")
    }

    fn log(&self) -> PathBuf {
        self.0.path().join("log")
    }

    fn program(&self, name: &str, text: &str) {
        let file = self.bin().join(name);
        fs::write(&file, format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts this program for a build, which is interrupted when its standard input ends.
    fn start(&self) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("prepare").env("PATH", self.bin()).env("LOG", self.log());
        command.env("XDG_CACHE_HOME", self.0.path()).env_remove("FOREBAY_UML_KERNEL");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs a build. Returns whether it succeeded, and its messages.
    fn build(&self) -> (bool, String) {
        outcome(self.start())
    }

    /// Returns the files of the cache in order.
    fn kept(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path().join("forebay/kernel")).unwrap();
        let name = |e: Result<fs::DirEntry, _>| e.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort_unstable();
        names
    }

    /// Returns whether the cache contains one complete kernel and nothing else.
    fn has_a_kernel(&self) -> bool {
        let kept = self.kept();
        let of_ours = |name: &String| name.starts_with("linux-6.12.9-1-");
        kept.len() == 2 && of_ours(&kept[0]) && kept[1] == "lock"
    }

    /// Waits for the report of the build and returns it.
    fn told(&self) -> String {
        loop {
            match fs::read_to_string(self.log()) {
                Ok(text) if text.ends_with('\n') => return text,
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// Returns whether a program succeeded, and its messages.
fn outcome(mut child: Child) -> (bool, String) {
    // Kept until the end, since the build is interrupted when it closes.
    let input = child.stdin.take();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    drop(input);
    (status.success(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
}

fn is_one_line(text: &str) -> bool {
    text.trim_end().lines().count() == 1
}

pub(crate) fn a_missing_compiler_is_named() {
    let scene = Scene::new(MAKE);
    fs::remove_file(scene.bin().join("gcc")).unwrap();
    let (done, said) = scene.build();
    assert!(!done && said.contains("apt-get install gcc)") && is_one_line(&said), "{said}");
    assert_eq!(scene.kept(), ["lock"]);
}

pub(crate) fn a_failed_build_leaves_nothing() {
    let scene = Scene::new("touch linux; echo 'cc1: No space left on device' >&2; exit 2");
    let (done, said) = scene.build();
    assert!(!done && said.contains("is full: make room") && is_one_line(&said), "{said}");
    assert_eq!(scene.kept(), ["lock"]);
    scene.program("make", "touch linux; echo 'a.c:1: broken' >&2; exit 2");
    let (done, said) = scene.build();
    assert!(!done && said.contains("a.c:1: broken"), "{said}");
    assert_eq!(scene.kept(), ["lock"]);
}

pub(crate) fn two_builds_at_once_make_one_kernel() {
    let scene = Scene::new(MAKE);
    let both = [scene.start(), scene.start()];
    for (done, said) in both.map(outcome) {
        assert!(done, "{said}");
    }
    assert_eq!(scene.told(), "made\n");
    assert!(scene.has_a_kernel(), "{:?}", scene.kept());
}

pub(crate) fn an_interrupted_build_leaves_nothing() {
    let scene = Scene::new(STUCK);
    let mut child = scene.start();
    let make = scene.told();
    drop(child.stdin.take());
    let (done, said) = outcome(child);
    assert!(!done && said == "interrupted\n", "{said}");
    assert_eq!(scene.kept(), ["lock"]);
    assert!(is_gone(&make), "it ended what it had started");
}

pub(crate) fn what_a_killed_build_left_is_never_used() {
    let scene = Scene::new(STUCK);
    let mut child = scene.start();
    let make = scene.told();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(scene.kept(), ["build", "lock"]);
    while !is_gone(&make) {
        thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(scene.log()).unwrap();
    scene.program("make", MAKE);
    let (done, said) = scene.build();
    assert!(done, "{said}");
    assert!(scene.has_a_kernel(), "{:?}", scene.kept());
}

/// Returns whether the process with this id has ended.
fn is_gone(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    !status.contains("State:") || status.contains("State:\tZ")
}
