//! L4S traffic from this machine's own TCP: scalable congestion controls for kernels without them,
//! and ECT(1), which a socket cannot ask the kernel for.

use std::fs;
use std::os::fd::AsFd;

use libbpf_rs::{Link, MapCore, TC_EGRESS, TcHook};

use crate::bpf;
use crate::error::Error;
use crate::netdev::Netdev;

/// The mark (`SO_MARK`) of sockets whose packets are sent with ECT(1), as in bpf/ect1.bpf.c. The
/// kernel itself sends ECT(0): in all packets of a connection with DCTCP, in all but SYNs with
/// Prague.
pub const L4S_MARK: u32 = 0xfb15;

/// The handle and the priority of the filter. A second filter replaces it.
const FILTER: u32 = 0xfb;

/// A scalable congestion control of this kernel, in all namespaces, until this value is dropped.
/// Connections that use it then keep it.
#[derive(Debug)]
pub struct CongestionControl {
    name: String,
    /// The registration of the program; `None` where the kernel has one of its own.
    _link: Option<Link>,
}

impl CongestionControl {
    /// Finds the kernel's own DCTCP (RFC 8257), or else registers one as `fb_ID`. Registrations at
    /// the same time need different values of `id`, of which 12 bytes count.
    ///
    /// # Errors
    /// If the kernel takes no congestion control as a BPF program: it has no `struct_ops` (before
    /// Linux 6.4) or no type information (BTF), or this process is not root.
    pub fn dctcp(id: &str) -> Result<Self, Error> {
        Self::register(&bpf::DCTCP, "fb_", id)
    }

    /// Finds the kernel's own TCP Prague, or else registers one as `fbpID`. Its connections
    /// negotiate accurate ECN (RFC 9768), if both ends have it.
    ///
    /// # Errors
    /// As [`CongestionControl::dctcp`], and if the kernel has no accurate ECN that a congestion
    /// control can ask for.
    pub fn prague(id: &str) -> Result<Self, Error> {
        Self::register(&bpf::PRAGUE, "fbp", id)
    }

    fn register(source: &bpf::Source, prefix: &str, id: &str) -> Result<Self, Error> {
        let list = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let available =
            fs::read_to_string(list).map_err(|e| Error::system(format!("reading {list}"), e))?;
        if available.split_whitespace().any(|name| name == source.name) {
            return Ok(Self { name: source.name.to_owned(), _link: None });
        }
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        let name = format!("{prefix}{id}");
        let mut object = source.load(|open| {
            for mut map in open.maps_mut() {
                // `name` is the first field, of 16 bytes; the ID leaves room for a zero at its end.
                if map.name() == source.name
                    && let Some(value) = map.initial_value_mut()
                {
                    value[..16].fill(0);
                    value[..name.len()].copy_from_slice(name.as_bytes());
                }
            }
            Ok(())
        })?;
        let mut map = object.maps_mut().find(|m| m.name() == source.name);
        let map = map.as_mut().ok_or_else(|| bpf::missing(source.name))?;
        let wrap = |e| Error::bpf(format!("registering the congestion control {name}"), e);
        let link = map.attach_struct_ops().map_err(wrap)?;
        Ok(Self { name, _link: Some(link) })
    }

    /// Returns the name for `TCP_CONGESTION`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Makes packets of sockets with [`L4S_MARK`] leave `netdev` with ECT(1), as long as the interface
/// exists.
///
/// # Errors
/// If the kernel takes no BPF filter.
pub fn send_ect1(netdev: &Netdev) -> Result<(), Error> {
    let object = bpf::ECT1.load(|_| Ok(()))?;
    let program = bpf::program(&object, bpf::ECT1.name)?;
    let wrap = |e| Error::bpf(format!("adding a filter to `{}`", netdev.name), e);
    let mut hook = TcHook::new(program.as_fd());
    hook.ifindex(netdev.index as i32)
        .attach_point(TC_EGRESS)
        .handle(FILTER)
        .priority(FILTER)
        .replace(true);
    hook.create().map_err(wrap)?;
    hook.attach().map_err(wrap)?;
    Ok(())
}
