//! What real hosts need to send L4S traffic: a scalable congestion control where the kernel has none,
//! and the codepoint that says so, which no kernel sends that cannot negotiate accurate ECN.

use std::fs;
use std::os::fd::AsFd;

use libbpf_rs::{Link, MapCore, TC_EGRESS, TcHook};

use crate::bpf;
use crate::error::Error;
use crate::netdev::Netdev;

/// The mark of sockets whose packets say ECT(1), as bpf/ect1.bpf.c has it. With DCTCP the kernel
/// sends ECT(0), and sends it for all of a connection's packets.
pub const L4S_MARK: u32 = 0xfb15;

/// The handle and the priority of our filter: a second one replaces it.
const FILTER: u32 = 0xfb;

/// DCTCP (RFC 8257) as a congestion control of this kernel, in all its namespaces, for as long as this
/// value is there. Connections that have it then keep it.
#[derive(Debug)]
pub struct Dctcp {
    name: String,
    /// Of the program; `None` where the kernel has a DCTCP of its own.
    _link: Option<Link>,
}

impl Dctcp {
    /// The kernel's own if it has one; else ours, registered as `fb_ID`. `id` tells those apart that
    /// are registered at the same time, and is cut to 12 bytes.
    ///
    /// # Errors
    /// If the kernel takes no congestion control as a BPF program: without `struct_ops` (before Linux
    /// 6.4), without its own type information, or without root.
    pub fn register(id: &str) -> Result<Self, Error> {
        const OF_THE_KERNEL: &str = "dctcp";
        let list = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let available =
            fs::read_to_string(list).map_err(|e| Error::system(format!("reading {list}"), e))?;
        if available.split_whitespace().any(|name| name == OF_THE_KERNEL) {
            return Ok(Self { name: OF_THE_KERNEL.to_owned(), _link: None });
        }
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        let name = format!("fb_{id}");
        let mut object = bpf::DCTCP.load(|open| {
            for mut map in open.maps_mut() {
                // `name` is its first field, and the ID short enough to leave a zero after it.
                if map.name() == "dctcp"
                    && let Some(value) = map.initial_value_mut()
                {
                    value[..16].fill(0);
                    value[..name.len()].copy_from_slice(name.as_bytes());
                }
            }
            Ok(())
        })?;
        let mut map = object.maps_mut().find(|m| m.name() == "dctcp");
        let map = map.as_mut().ok_or_else(|| bpf::missing("dctcp"))?;
        let wrap = |e| Error::bpf(format!("registering the congestion control {name}"), e);
        let link = map.attach_struct_ops().map_err(wrap)?;
        Ok(Self { name, _link: Some(link) })
    }

    /// What to ask the kernel for (`TCP_CONGESTION`).
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Has packets of sockets with [`L4S_MARK`] say ECT(1) when they leave through `netdev`, for as long as
/// it exists.
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
