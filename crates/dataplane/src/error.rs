use std::io;

/// Why a port or a BPF program could not be set up, or stopped working.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such network interface.
    #[error("there is no network interface `{0}` (`ip link` lists them)")]
    NoInterface(String),
    /// The interface is down.
    #[error("interface `{0}` is down (`ip link set {0} up`)")]
    Down(String),
    /// Frames of the interface do not fit into a buffer.
    #[error("interface `{interface}` has an MTU of {mtu}; at most {max} is supported here")]
    Mtu {
        /// The interface.
        interface: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// The largest that works.
        max: u32,
    },
    /// Another process of ours holds the interface.
    #[error("interface `{0}` is in use by another running forebay process")]
    InUse(String),
    /// A program that is not ours is attached.
    #[error(
        "interface `{interface}` already has an XDP program (id {id}) that is not ours; detach it first (`ip link set {interface} xdp off`)"
    )]
    ForeignProgram {
        /// The interface.
        interface: String,
        /// The kernel's id of the program.
        id: u32,
    },
    /// Something in a map that has no room for it.
    #[error("{given} {what}, but there is room for {max}")]
    TooMany {
        /// Things of which kind.
        what: &'static str,
        /// How many there were.
        given: usize,
        /// How many there may be.
        max: usize,
    },
    /// The kernel is too old, or was built without something.
    #[error("the kernel dataplane needs {0}")]
    Kernel(&'static str),
    /// Frames of the interface are not Ethernet's.
    #[error(
        "interface `{0}` is no Ethernet device: a bundle's bytes could not be counted as its receivebox does (use the device below it)"
    )]
    NotEthernet(String),
    /// A right is missing.
    #[error("{0} needs root (CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF): run it with sudo")]
    Permission(&'static str),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// libbpf or the kernel's verifier refused.
    #[error("{what}: {source}")]
    Bpf {
        /// What was being done.
        what: String,
        /// The answer.
        source: libbpf_rs::Error,
    },
}

impl Error {
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        if source.raw_os_error() == Some(libc::EPERM) {
            return Self::Permission("opening network ports");
        }
        Self::System { what: what.into(), source }
    }

    pub(crate) fn bpf(what: impl Into<String>, source: libbpf_rs::Error) -> Self {
        if source.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            return Self::Permission("loading BPF programs");
        }
        Self::Bpf { what: what.into(), source }
    }
}

/// The last system call's error, with what was being done.
pub(crate) fn last(what: impl Into<String>) -> Error {
    Error::system(what, io::Error::last_os_error())
}
