use std::io;
use std::path::PathBuf;

use crate::Handle;

/// Reasons why a tree cannot be created, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such network interface.
    #[error("there is no network interface `{0}` (`ip link` lists them)")]
    NoDevice(String),
    /// Another process of Forebay holds the tree of the device.
    #[error("the queues of `{0}` are in use by another running forebay process")]
    InUse(String),
    /// The process lacks a right.
    #[error("{0} needs root (CAP_NET_ADMIN, and CAP_BPF for programs): run it with sudo")]
    Permission(String),
    /// The kernel has no such queueing discipline.
    #[error(
        "this kernel has no queueing discipline {kind}: {instead} (`modprobe {module}` if it is a module)"
    )]
    NoDiscipline {
        /// The name of the discipline.
        kind: String,
        /// The kernel module that has it.
        module: String,
        /// What to do instead.
        instead: String,
    },
    /// The kernel has no BPF classifier.
    #[error("this kernel has no BPF classifier for queues: it needs CONFIG_NET_CLS_BPF")]
    NoClassifier,
    /// The device has queues of another owner.
    #[error(
        "`{device}` already has queues of another owner ({kind} {handle}): remove them (`tc qdisc del dev {device} root`), or allow the sendbox to replace and later restore them (`take_over = true`)"
    )]
    Foreign {
        /// The name of the device.
        device: String,
        /// The kind of the root qdisc.
        kind: String,
        /// The name of the root qdisc.
        handle: Handle,
    },
    /// The queues of another owner have filters, which cannot be restored.
    #[error(
        "the queues that `{device}` already has ({kind} {handle}) have filters, which cannot be restored: remove them (`tc qdisc del dev {device} root`)"
    )]
    ForeignFilters {
        /// The name of the device.
        device: String,
        /// The kind of the root qdisc.
        kind: String,
        /// The name of the root qdisc.
        handle: Handle,
    },
    /// There are more bundles than names for them.
    #[error("{bundles} bundles; a kernel tree has at most {max}")]
    TooManyBundles {
        /// The number of bundles.
        bundles: usize,
        /// The largest number.
        max: usize,
    },
    /// A running tree has no room for more bundles, or for more leaves.
    #[error("the running process has no room for so many bundles or queues: restart it")]
    NoRoom,
    /// A running tree lacks the program for the classes of a bundle.
    #[error(
        "the running process lacks the program for {classes} classes with flows apart: restart it"
    )]
    NoProgram {
        /// The number of classes.
        classes: u8,
    },
    /// A bundle has more classes than HTB has priorities.
    #[error("bundle {bundle} has {classes} classes; the kernel's HTB has {max} priorities")]
    TooManyClasses {
        /// The bundle's name.
        bundle: String,
        /// The number of classes.
        classes: usize,
        /// The largest number.
        max: usize,
    },
    /// The kernel refused a part of the tree.
    #[error("{device}: {object}: the kernel says: {message}")]
    Refused {
        /// The name of the device.
        device: String,
        /// The part that was to be created, changed or deleted.
        object: String,
        /// The kernel's message, or that of the error number.
        message: String,
        /// The error number.
        errno: i32,
    },
    /// The record of the previous queues cannot be written or read.
    #[error("cannot record the previous queues of the device in {}: {source}", path.display())]
    Record {
        /// The path of the record.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns a function for `map_err` that adds the operation that failed.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM) => Self::Permission(what.to_owned()),
            _ => Self::System { what, source },
        }
    }

    /// Makes an error of the last system call.
    pub(crate) fn last(what: &'static str) -> Self {
        Self::system(what)(io::Error::last_os_error())
    }
}
