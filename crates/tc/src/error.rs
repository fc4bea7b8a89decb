use std::io;
use std::path::PathBuf;

use crate::Handle;

/// Why a tree could not be made, changed or taken away.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such network interface.
    #[error("there is no network interface `{0}` (`ip link` lists them)")]
    NoDevice(String),
    /// The tree of the device belongs to another process of ours.
    #[error("the queues of `{0}` are in use by another running forebay process")]
    InUse(String),
    /// A right is missing.
    #[error("{0} needs root (CAP_NET_ADMIN, and CAP_BPF for programs): run it with sudo")]
    Permission(String),
    /// The kernel has no such queueing discipline.
    #[error(
        "this kernel has no queueing discipline {kind}: {instead} (`modprobe {module}` if it is a module)"
    )]
    NoDiscipline {
        /// Its name.
        kind: String,
        /// The module that it would be in.
        module: String,
        /// What else can be done.
        instead: String,
    },
    /// The kernel has no BPF classifier.
    #[error("this kernel has no BPF classifier for queues: it needs CONFIG_NET_CLS_BPF")]
    NoClassifier,
    /// Somebody else has set up queues there.
    #[error(
        "`{device}` already has queues that are not ours ({kind} {handle}): take them away (`tc qdisc del dev {device} root`), or allow them to be replaced and put back at the end (`take_over = true`)"
    )]
    Foreign {
        /// The device.
        device: String,
        /// The kind of the root qdisc.
        kind: String,
        /// Its name.
        handle: Handle,
    },
    /// Somebody else's queues have filters, which cannot be put back as they were.
    #[error(
        "the queues that `{device}` already has ({kind} {handle}) have filters, which could not be put back: take them away (`tc qdisc del dev {device} root`)"
    )]
    ForeignFilters {
        /// The device.
        device: String,
        /// The kind of the root qdisc.
        kind: String,
        /// Its name.
        handle: Handle,
    },
    /// More bundles than there are names for.
    #[error("{bundles} bundles; a kernel tree has at most {max}")]
    TooManyBundles {
        /// How many.
        bundles: usize,
        /// How many there may be.
        max: usize,
    },
    /// More classes in a bundle than HTB has priorities.
    #[error("bundle {bundle} has {classes} classes; the kernel's HTB knows {max} priorities")]
    TooManyClasses {
        /// The bundle's name.
        bundle: String,
        /// How many.
        classes: usize,
        /// How many there may be.
        max: usize,
    },
    /// The kernel refused an object.
    #[error("{device}: {object}: the kernel says: {message}")]
    Refused {
        /// The device.
        device: String,
        /// What was to be made, changed or deleted.
        object: String,
        /// The kernel's words, or those of its error number.
        message: String,
        /// The error number.
        errno: i32,
    },
    /// A file of what was found cannot be written or read.
    #[error("cannot keep what was found on the device in {}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: what was being done when the system said no.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM) => Self::Permission(what.to_owned()),
            _ => Self::System { what, source },
        }
    }

    /// Of the last system call, which failed.
    pub(crate) fn last(what: &'static str) -> Self {
        Self::system(what)(io::Error::last_os_error())
    }
}
