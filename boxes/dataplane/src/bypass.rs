//! The programs that keep a wire over AF_PACKET alive when its process is dead or hangs.
//!
//! A program at the process's socket decides which frames the socket takes: all of them while the
//! process writes heartbeats (see [`crate::heartbeat`]), and none when it hangs. A filter at tc's
//! ingress, which outlives the process, handles each frame directly afterwards. It keeps a frame
//! that the socket has taken from this machine's stack, and sends any other frame to the other
//! port.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use forebay_units::Nanos;
use libbpf_rs::{Object, TC_INGRESS, TcHook};

use crate::af_packet::set;
use crate::bpf;
use crate::error::Error;
use crate::heartbeat;
use crate::netdev::Netdev;

/// The handle and the priority of the filter. It comes after the filter of a receivebox, which lets
/// all frames pass.
const FILTER: u32 = 0xfc;

/// The programs of one port.
pub(crate) struct Bypass {
    object: Object,
    hook: TcHook,
    /// Whether the filter stays when this value is dropped.
    stays: bool,
}

// SAFETY: what keeps it from being `Send` is a pointer in the hook to the name of a qdisc, which is
// null for the hook at tc's ingress.
unsafe impl Send for Bypass {}

impl Bypass {
    /// Attaches the filter to `netdev`. It sends frames to the interface with the index `other`,
    /// until there is a socket and a heartbeat. A filter that a process left is replaced without a
    /// gap.
    pub(crate) fn attach(netdev: &Netdev, other: u32, is_promiscuous: bool) -> Result<Self, Error> {
        let found = attached(netdev.index)?;
        if let Some((id, _)) = found.as_ref().filter(|(_, name)| name != bpf::BYPASS.name) {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            let what = format!("attaching a filter to `{}`, where program {id} is", netdev.name);
            return Err(Error::System { what, source });
        }
        let object = bpf::BYPASS.load(|_| Ok(()))?;
        bpf::set_own(&object, netdev, is_promiscuous)?;
        let map = bpf::map(&object, "other_device")?;
        bpf::update(&map, &0u32.to_ne_bytes(), &other.to_ne_bytes())?;
        let program = bpf::program(&object, bpf::BYPASS.name)?;
        let hook = bpf::attach_filter(&program, netdev, FILTER)?;
        Ok(Self { object, hook, stays: found.is_some() })
    }

    /// Attaches the program that lets `socket` take frames only while the process is alive.
    pub(crate) fn guard(&self, socket: &OwnedFd) -> Result<(), Error> {
        let tap = bpf::program(&self.object, bpf::TAP)?;
        set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &tap.as_fd().as_raw_fd())
    }

    /// Writes a heartbeat; a time of zero makes frames pass without this process.
    pub(crate) fn beat(&self, now: Nanos) -> Result<(), Error> {
        heartbeat::beat(&self.object, now)
    }

    /// Takes the filter off the interface when this value is dropped.
    pub(crate) fn unplug(&mut self) {
        self.stays = false;
    }

    /// Leaves the filter on the interface when this value is dropped.
    pub(crate) fn keep(&mut self) {
        self.stays = true;
    }
}

impl Drop for Bypass {
    fn drop(&mut self) {
        if self.stays {
            if let Err(e) = self.beat(Nanos::ZERO) {
                tracing::debug!("cannot take back the heartbeat of a port: {e}");
            }
        } else if let Err(e) = self.hook.detach() {
            tracing::debug!("cannot detach the filter of a port: {e}");
        }
    }
}

/// The place of the filter on an interface.
fn place(ifindex: u32) -> (libbpf_sys::bpf_tc_hook, libbpf_sys::bpf_tc_opts) {
    let hook = libbpf_sys::bpf_tc_hook {
        sz: size_of::<libbpf_sys::bpf_tc_hook>() as libbpf_sys::size_t,
        ifindex: ifindex as i32,
        attach_point: TC_INGRESS,
        ..Default::default()
    };
    let options = libbpf_sys::bpf_tc_opts {
        sz: size_of::<libbpf_sys::bpf_tc_opts>() as libbpf_sys::size_t,
        handle: FILTER,
        priority: FILTER,
        ..Default::default()
    };
    (hook, options)
}

/// Returns the kernel's id and the name of the program that is in the place of the filter.
pub(crate) fn attached(ifindex: u32) -> Result<Option<(u32, OsString)>, Error> {
    let (hook, mut options) = place(ifindex);
    bpf::quiet();
    // SAFETY: both structures say their own size; the kernel only answers.
    let answer = unsafe { libbpf_sys::bpf_tc_query(&raw const hook, &raw mut options) };
    match -answer {
        0 => Ok(Some((options.prog_id, bpf::name_of(options.prog_id)))),
        // There is no such filter, or no qdisc that it could be on.
        libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP => Ok(None),
        errno => {
            let source = io::Error::from_raw_os_error(errno);
            Err(Error::system("asking for filters at tc's ingress", source))
        }
    }
}

/// Detaches the filter that a box left on the interface, and returns whether there was one.
///
/// The caller holds the interface's lock, so no box uses the filter.
pub(crate) fn remove_leftover(ifindex: u32) -> Result<bool, Error> {
    if attached(ifindex)?.is_none_or(|(_, name)| name != bpf::BYPASS.name) {
        return Ok(false);
    }
    let (hook, options) = place(ifindex);
    // SAFETY: as above.
    match unsafe { libbpf_sys::bpf_tc_detach(&raw const hook, &raw const options) } {
        0 => Ok(true),
        errno => Err(Error::system(
            "removing a filter at tc's ingress",
            io::Error::from_raw_os_error(-errno),
        )),
    }
}
