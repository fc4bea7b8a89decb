//! The guest's kernel, built once from Debian's source package and kept in the user's cache.
//!
//! The file name contains the version of the source and a hash of the configuration and the patches
//! in `kernel/`, so that any change leads to another build. One process builds at a time, and
//! others wait. An incomplete build has another name and is removed.

mod build;
mod source;

use std::env;
use std::ffi::{CString, OsStr};
use std::fs;
use std::mem::zeroed;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use forebay_system::private;
use forebay_units::Nanos;
use sha2::{Digest, Sha256};

use self::source::Source;
use crate::locked_dir::lock;
use crate::{Error, Interrupt};

/// A patch: its name and its text.
type Patch = (&'static str, &'static str);

/// A patch of this project by directory and name.
macro_rules! patch {
    ($name:literal) => {
        patch!("patches", $name)
    };
    ($dir:literal, $name:literal) => {
        ($name, include_str!(concat!("../../../../kernel/", $dir, "/", $name, ".patch")))
    };
}

/// A kind of kernel for guests. Each is built and kept separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The kernel of the `uml` engine.
    Plain,
    /// A small kernel with two namespaces and TCP, to compare with [`Kernel::Zd`].
    Unpatched,
    /// The small kernel with the patch of `kernel/zd`.
    Zd,
}

impl Kernel {
    /// The environment variable that names an existing kernel to use.
    fn given(self) -> &'static str {
        match self {
            Self::Plain => "FOREBAY_UML_KERNEL",
            Self::Unpatched => "FOREBAY_UML_UNPATCHED_KERNEL",
            Self::Zd => "FOREBAY_UML_ZD_KERNEL",
        }
    }

    /// The configuration target of Linux to begin with.
    fn base(self) -> &'static str {
        match self {
            Self::Plain => "defconfig",
            Self::Unpatched | Self::Zd => "tinyconfig",
        }
    }

    /// The options on top of that target.
    fn configuration(self) -> &'static str {
        match self {
            Self::Plain => CONFIGURATION,
            Self::Unpatched | Self::Zd => SMALL_CONFIGURATION,
        }
    }

    /// The patches in the order in which they are applied.
    fn patches(self) -> Vec<Patch> {
        match self {
            Self::Plain | Self::Unpatched => PATCHES.to_vec(),
            Self::Zd => [PATCHES, ZD_PATCHES].concat(),
        }
    }

    /// The hash that distinguishes it from other kernels of the same source.
    fn recipe(self) -> String {
        recipe(self.configuration(), &self.patches())
    }
}

/// The options of the engine's kernel on top of the architecture's default configuration.
const CONFIGURATION: &str = include_str!("../../../../kernel/uml.config");
/// The options of the small kernels on top of the smallest configuration.
const SMALL_CONFIGURATION: &str = include_str!("../../../../kernel/zd/uml.config");
/// The patches of every kernel, in this order.
const PATCHES: &[Patch] = &[
    patch!("0001-um-random-numbers-from-a-seed"),
    patch!("0002-um-irq-work-in-virtual-time"),
    patch!("0003-um-unaligned-access-on-x86"),
    patch!("0004-um-fetch-floating-point-registers-lazily"),
    patch!("0005-um-virtual-time-in-the-vdso"),
    patch!("0006-um-bpf-on-tracepoints"),
    patch!("0007-um-hosts-with-a-large-register-state"),
];
/// The patches of the kernel with backpressure, applied after those.
const ZD_PATCHES: &[Patch] = &[patch!("zd", "0001-net-backpressure-to-sockets")];
/// The interval at which a process that waits for another's build checks its end.
const TURN: Duration = Duration::from_millis(200);

/// Returns the file of `kernel`. If it does not exist, it is built first, which takes minutes.
///
/// # Errors
///
/// [`Error::Unfit`] if it cannot be built here, with what to install; or if it was interrupted or a
/// step of the build failed.
pub fn kernel_file(kernel: Kernel, interrupt: &Interrupt) -> Result<PathBuf, Error> {
    kernel_file_with(kernel, interrupt, &mut |_, _| {})
}

/// Like [`kernel_file`], and calls `told` during a build with the elapsed time and the number of
/// compiled files.
///
/// # Errors
///
/// As [`kernel_file`].
pub fn kernel_file_with(
    kernel: Kernel,
    interrupt: &Interrupt,
    told: &mut dyn FnMut(Nanos, u32),
) -> Result<PathBuf, Error> {
    let variable = kernel.given();
    if let Some(given) = env::var_os(variable).map(PathBuf::from) {
        return if given.is_file() {
            Ok(given)
        } else {
            Err(Error::Unfit(format!("{variable}: there is no file {}", given.display())))
        };
    }
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Unfit(
            "a kernel runs as a process on x86-64 only: use `--engine sim` or `--engine netns`"
                .to_owned(),
        ));
    }
    let cache = cache(env::var_os("XDG_CACHE_HOME").as_deref(), env::var_os("HOME").as_deref())?;
    trust(&cache, variable)?;
    let recipe = kernel.recipe();
    let source = Source::installed();
    if let Some(kernel) = cached(&cache, &recipe, source.as_ref()) {
        return trust(&kernel, variable).map(|()| kernel);
    }
    let fit = |e: std::io::Error| {
        let cache = cache.display();
        Error::Unfit(format!(
            "the guest's kernel is kept in {cache}, which cannot be written ({e}): set \
             XDG_CACHE_HOME to a directory that can be, or {variable} to a kernel"
        ))
    };
    fs::create_dir_all(&cache).map_err(fit)?;
    let begun = Instant::now();
    let mut told = |files| told(Nanos(begun.elapsed().as_nanos() as u64), files);
    // Held until the end; the system releases it if the process is killed.
    let _turn = loop {
        match lock(&cache.join("lock"), false) {
            Ok(Some(file)) => break file,
            Ok(None) if interrupt.is_raised() => return Err(Error::Interrupted),
            Ok(None) => thread::sleep(TURN),
            Err(Error::Io { source, .. }) => return Err(fit(source)),
            Err(e) => return Err(e),
        }
        told(0);
    };
    // Another process's build may have ended in the meantime.
    if let Some(kernel) = cached(&cache, &recipe, source.as_ref()) {
        return trust(&kernel, variable).map(|()| kernel);
    }
    build::build(&cache, kernel, source, interrupt, &mut told)
}

/// Checks that nobody else can choose the program that a run starts as its kernel: `sudo` may keep
/// the home directory of the user who calls it.
fn trust(path: &Path, variable: &str) -> Result<(), Error> {
    let owner = fs::metadata(path).map(|found| found.uid());
    if owner.is_ok_and(|owner| owner != 0 && owner != private::user()) {
        return Err(Error::Unfit(format!(
            "{} belongs to another user, who can change the kernel: set XDG_CACHE_HOME to a \
             directory of your own, or {variable} to a kernel",
            path.display()
        )));
    }
    Ok(())
}

/// The hash of configuration and patches.
fn recipe(configuration: &str, patches: &[Patch]) -> String {
    let mut hash = Sha256::new();
    for text in [configuration].into_iter().chain(patches.iter().map(|(_, patch)| *patch)) {
        // With the length, two different lists of texts never hash alike.
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// The file name of the kernel of `recipe` from a source of `version`.
fn file_name(version: &str, recipe: &str) -> String {
    format!("linux-{version}-{recipe}")
}

/// The kernel of `recipe` from the installed source; without a source, the last one by name.
fn cached(cache: &Path, recipe: &str, source: Option<&Source>) -> Option<PathBuf> {
    if let Some(source) = source {
        return Some(cache.join(file_name(&source.version, recipe))).filter(|file| file.is_file());
    }
    let suffix = format!("-{recipe}");
    let names = fs::read_dir(cache).ok()?.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let last = names.filter(|n| n.starts_with("linux-") && n.ends_with(&suffix)).max()?;
    Some(cache.join(last))
}

/// The directory of the kernels (XDG Base Directory Specification).
fn cache(xdg: Option<&OsStr>, home: Option<&OsStr>) -> Result<PathBuf, Error> {
    let absolute = |text: Option<&OsStr>| text.map(PathBuf::from).filter(|p| p.is_absolute());
    absolute(xdg)
        .or_else(|| Some(absolute(home)?.join(".cache")))
        .map(|base| base.join("forebay/kernel"))
        .ok_or_else(|| {
            Error::Unfit(
                "the guest's kernel is kept in the user's cache: set HOME or XDG_CACHE_HOME"
                    .to_owned(),
            )
        })
}

/// The number of bytes that this user may still write at `path`; `None` if it is unknown.
pub(super) fn room_in(path: &Path) -> Option<u64> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: all-zero is a valid `statvfs`; `path` is a C string and the rest valid for writing.
    let stat = unsafe {
        let mut stat: libc::statvfs = zeroed();
        (libc::statvfs(path.as_ptr(), &mut stat) == 0).then_some(stat)
    }?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_recipe_counts() {
        let one = recipe("A=y\n", &[("1", "x")]);
        assert_eq!(one, recipe("A=y\n", &[("renamed", "x")]), "names do not");
        assert_ne!(one, recipe("A=n\n", &[("1", "x")]));
        assert_ne!(one, recipe("A=y\n", &[("1", "y")]));
        assert_ne!(one, recipe("A=y\n", &[]));
        assert_ne!(one, recipe("A=y\nx", &[]), "nor are they one after the other");
        assert_eq!(one.len(), 12);
    }

    #[test]
    fn each_kernel_is_another_file() {
        let all = [Kernel::Plain, Kernel::Unpatched, Kernel::Zd].map(Kernel::recipe);
        assert_eq!(all[0], recipe(CONFIGURATION, PATCHES), "as before there were others");
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    }

    #[test]
    fn the_cache_is_where_users_have_theirs() {
        let of = |xdg: &str, home: &str| {
            cache(Some(OsStr::new(xdg)), Some(OsStr::new(home))).map(|p| p.display().to_string())
        };
        assert_eq!(of("/c", "/h").unwrap(), "/c/forebay/kernel");
        assert_eq!(of("", "/h").unwrap(), "/h/.cache/forebay/kernel");
        assert_eq!(of("relative", "/h").unwrap(), "/h/.cache/forebay/kernel");
        assert!(of("", "").unwrap_err().to_string().contains("XDG_CACHE_HOME"));
    }

    #[test]
    fn a_kernel_is_found_by_its_source_or_without_one() {
        let dir = env::temp_dir().join(format!("fb-kernels-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let source =
            |version: &str| Source { tarball: PathBuf::new(), version: version.to_owned() };
        assert_eq!(cached(&dir, "abc", None), None);
        for version in ["6.12.1", "6.12.2"] {
            fs::write(dir.join(file_name(version, "abc")), "").unwrap();
        }
        let found = |source: Option<Source>| cached(&dir, "abc", source.as_ref());
        assert_eq!(found(Some(source("6.12.1"))), Some(dir.join("linux-6.12.1-abc")));
        assert_eq!(found(Some(source("6.12.3"))), None, "to be built");
        assert_eq!(found(None), Some(dir.join("linux-6.12.2-abc")));
        assert_eq!(cached(&dir, "abd", None), None);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn free_space_is_known_for_existing_paths() {
        assert!(room_in(Path::new("/")).is_some());
        assert_eq!(room_in(Path::new("/no/such/place")), None);
    }

    mod live {
        use forebay_test_support::has_root;

        use super::*;

        #[test]
        fn a_kernel_of_another_user_is_not_started() {
            if !has_root() {
                return;
            }
            let file = env::temp_dir().join(format!("fb-kernel-{}", std::process::id()));
            fs::File::create_new(&file).unwrap();
            trust(&file, "KERNEL").unwrap();
            trust(Path::new("/no/such/place"), "KERNEL").unwrap();
            std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
            let told = trust(&file, "KERNEL").unwrap_err().to_string();
            assert!(told.contains("belongs to another user") && told.contains("KERNEL"), "{told}");
            fs::remove_file(&file).unwrap();
        }
    }
}
