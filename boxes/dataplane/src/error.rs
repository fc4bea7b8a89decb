use std::io;

/// Reasons why a port or a BPF program cannot be set up, or stopped working.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such network interface.
    #[error("there is no network interface `{0}` (`ip link` lists them)")]
    NoInterface(String),
    /// The interface was removed while a process used it.
    #[error("interface `{0}` was removed: start this again when the interface is back")]
    Removed(String),
    /// The MTU of an interface was raised while a process used it, and frames no longer fit.
    #[error(
        "interface `{interface}` now has an MTU of {mtu}, for which the buffers are too small: \
         start this again (at most {max} is supported here)"
    )]
    MtuRaised {
        /// The interface's name.
        interface: String,
        /// The interface's MTU in bytes.
        mtu: u32,
        /// The largest MTU that works.
        max: u32,
    },
    /// The interface is down.
    #[error("interface `{0}` is down (`ip link set {0} up`)")]
    Down(String),
    /// Frames of the interface do not fit into a buffer.
    #[error("interface `{interface}` has an MTU of {mtu}; at most {max} is supported here")]
    Mtu {
        /// The interface's name.
        interface: String,
        /// The interface's MTU in bytes.
        mtu: u32,
        /// The largest MTU that works.
        max: u32,
    },
    /// Another process of Forebay holds the interface.
    #[error("interface `{0}` is in use by another running forebay process")]
    InUse(String),
    /// The program of a box that ended is attached, and passes the interface's frames.
    #[error(
        "interface `{0}` has the program of a sendbox or link that ended: start that again, or `forebay detach {0}`"
    )]
    Leftover(String),
    /// An XDP program of another owner is attached.
    #[error(
        "interface `{interface}` already has an XDP program (id {id}) of another owner: detach it first (`ip link set {interface} xdp off`)"
    )]
    ForeignProgram {
        /// The interface's name.
        interface: String,
        /// The kernel's id of the program.
        id: u32,
    },
    /// There are more entries than a map has room for.
    #[error("{given} {what}, but there is room for {max}")]
    TooMany {
        /// The kind of entries.
        what: &'static str,
        /// The number of entries.
        given: usize,
        /// The largest number of entries.
        max: usize,
    },
    /// The kernel is too old, or was built without a feature.
    #[error("the kernel dataplane needs {0}")]
    Kernel(&'static str),
    /// The interface is no Ethernet device.
    #[error(
        "interface `{0}` is no Ethernet device, which a box in user space needs: use `forebay site`, or `dataplane = \"kernel\"`, which work on tunnels"
    )]
    NotEthernet(String),
    /// The packets of the interface begin with neither an Ethernet header nor an IP header.
    #[error(
        "interface `{interface}` has neither Ethernet frames nor plain IP packets (its hardware type is {hardware}; a GRE tunnel needs a remote address): boxes cannot use it"
    )]
    Framing {
        /// The interface's name.
        interface: String,
        /// The interface's hardware type (`ARPHRD_…`).
        hardware: u16,
    },
    /// The process lacks a right.
    #[error("{0} needs root (CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF): run it with sudo")]
    Permission(&'static str),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel's verifier refused a BPF program.
    #[error("the kernel's verifier refuses the BPF program {program}: {reason}")]
    Verifier {
        /// The name of the program's object.
        program: &'static str,
        /// The last lines of the verifier's log, in one line.
        reason: String,
    },
    /// A BPF program or map was refused by libbpf or by the kernel.
    #[error("{what}: {source}")]
    Bpf {
        /// The operation that failed.
        what: String,
        /// The error of libbpf.
        source: libbpf_rs::Error,
    },
}

impl Error {
    /// Makes an error of a system call that failed while doing `what`.
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        if source.raw_os_error() == Some(libc::EPERM) {
            return Self::Permission("opening network ports");
        }
        Self::System { what: what.into(), source }
    }

    /// Makes an error of libbpf's that failed while doing `what`.
    pub(crate) fn bpf(what: impl Into<String>, source: libbpf_rs::Error) -> Self {
        if source.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            return Self::Permission("loading BPF programs");
        }
        Self::Bpf { what: what.into(), source }
    }
}

/// Makes an error of the last system call, with the operation that failed.
pub(crate) fn last(what: impl Into<String>) -> Error {
    Error::system(what, io::Error::last_os_error())
}
