//! The hook of the receivebox's program.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{ProgramMut, TcHook, XdpFlags};

use crate::bpf::{self, Source};
use crate::error::Error;
use crate::netdev::Netdev;

/// The place at which packets are seen as they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// XDP in the driver, which sees each packet before GRO.
    Xdp,
    /// The ingress of tc, on every device. It sees super-packets of GRO, and splits them again.
    Tc,
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xdp => "XDP",
            Self::Tc => "tc's ingress",
        })
    }
}

impl Hook {
    /// Returns the program for this hook.
    pub(super) fn source(self) -> &'static Source {
        match self {
            Self::Xdp => &bpf::RECEIVEBOX,
            Self::Tc => &bpf::INGRESS,
        }
    }
}

/// An attached program, which is detached when this value is dropped.
pub(super) enum Attached {
    /// A BPF link. The kernel detaches the program when the descriptor is closed, however the
    /// process ends.
    Link { _descriptor: OwnedFd },
    /// A filter of the device's clsact qdisc, for kernels without links at tc (before Linux 6.6).
    /// It outlives a killed process, and the next receivebox replaces it. The qdisc does nothing by
    /// itself and stays, since other programs may have filters there.
    Filter(TcHook),
}

/// The handle and the priority of the filter. A second filter replaces it.
const FILTER: u32 = 0xfb;

impl Attached {
    /// Attaches `program`, the program of `hook`.
    pub(super) fn new(
        program: &ProgramMut<'_>,
        hook: Hook,
        netdev: &Netdev,
    ) -> Result<Self, Error> {
        let wrap = |e| Error::system(format!("attaching {hook} to `{}`", netdev.name), e);
        match hook {
            // Where the driver has no XDP the kernel would run the program after GRO, on
            // super-packets that XDP cannot tell from others.
            Hook::Xdp => {
                let flags = XdpFlags::DRV_MODE.bits();
                link(program, netdev, libbpf_sys::BPF_XDP, flags).map_err(wrap)
            }
            Hook::Tc => match link(program, netdev, libbpf_sys::BPF_TCX_INGRESS, 0) {
                // The kernel does not know this hook.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Self::filter(program, netdev),
                other => other.map_err(wrap),
            },
        }
    }

    /// Attaches a filter of the clsact qdisc.
    pub(super) fn filter(program: &ProgramMut<'_>, netdev: &Netdev) -> Result<Self, Error> {
        bpf::attach_filter(program, netdev, FILTER).map(Self::Filter)
    }
}

/// Attaches a BPF link.
fn link(
    program: &ProgramMut<'_>,
    netdev: &Netdev,
    place: libbpf_sys::bpf_attach_type,
    flags: u32,
) -> Result<Attached, io::Error> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags,
        ..Default::default()
    };
    // SAFETY: a valid program's descriptor, and options whose size they say themselves; the answer
    // is an error, or a descriptor that has no other owner.
    unsafe {
        let program = program.as_fd().as_raw_fd();
        let fd = libbpf_sys::bpf_link_create(program, netdev.index as i32, place, &options);
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        Ok(Attached::Link { _descriptor: OwnedFd::from_raw_fd(fd) })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Self::Filter(hook) = self
            && let Err(e) = hook.detach()
        {
            tracing::warn!("cannot remove the receivebox's filter: {e}");
        }
    }
}
