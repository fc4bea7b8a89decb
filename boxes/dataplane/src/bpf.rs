//! Loading the BPF programs that the build compiled.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Once;

use forebay_system::clock;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{
    Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramMut,
    TC_INGRESS, TcHook, XdpFlags,
};

use crate::error::Error;
use crate::framing::Framing;
use crate::netdev::Netdev;
use crate::verifier_log;

/// A compiled ELF object of BPF programs, with the name of its main program.
pub(crate) struct Source {
    pub(crate) name: &'static str,
    pub(crate) elf: &'static [u8],
}

/// The program on the ports of a box.
pub(crate) const PORT: Source =
    Source { name: "fb_port", elf: include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o")) };
/// The programs on the ports of a box over AF_PACKET; the second is [`TAP`].
pub(crate) const BYPASS: Source =
    Source { name: "fb_bypass", elf: include_bytes!(concat!(env!("OUT_DIR"), "/bypass.bpf.o")) };
/// The filter of the sockets of such a box, in the object [`BYPASS`].
pub(crate) const TAP: &str = "fb_tap";
/// The receivebox's program in XDP, before GRO.
pub(crate) const RECEIVEBOX: Source = Source {
    name: "fb_receivebox",
    elf: include_bytes!(concat!(env!("OUT_DIR"), "/receivebox.bpf.o")),
};
/// The receivebox's program at tc's ingress, after GRO.
pub(crate) const INGRESS: Source =
    Source { name: "fb_ingress", elf: include_bytes!(concat!(env!("OUT_DIR"), "/ingress.bpf.o")) };
/// The programs that see a sendbox's packets leave the kernel's queues.
pub(crate) const EGRESS: Source =
    Source { name: "fb_egress", elf: include_bytes!(concat!(env!("OUT_DIR"), "/egress.bpf.o")) };

/// DCTCP, for kernels without one.
pub(crate) const DCTCP: Source =
    Source { name: "dctcp", elf: include_bytes!(concat!(env!("OUT_DIR"), "/dctcp.bpf.o")) };
/// TCP Prague, for kernels without it.
pub(crate) const PRAGUE: Source =
    Source { name: "prague", elf: include_bytes!(concat!(env!("OUT_DIR"), "/prague.bpf.o")) };
/// The program that sets ECT(1) in packets.
pub(crate) const ECT1: Source =
    Source { name: "fb_ect1", elf: include_bytes!(concat!(env!("OUT_DIR"), "/ect1.bpf.o")) };

impl Source {
    /// Loads the programs, after `prepare` has set up their maps.
    pub(crate) fn load(
        &self,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), libbpf_rs::Error>,
    ) -> Result<Object, Error> {
        quiet();
        let wrap = |e| Error::bpf(format!("loading the BPF program {}", self.name), e);
        let mut open = ObjectBuilder::default().open_memory(self.elf).map_err(wrap)?;
        prepare(&mut open).map_err(wrap)?;
        verifier_log::clear();
        // The verifier's refusal may have the number of a missing right (EACCES), but it has a log.
        open.load().map_err(|e| match verifier_log::reason() {
            Some(reason) => Error::Verifier { program: self.name, reason },
            None => wrap(e),
        })
    }
}

/// Finds the object's program `name`.
pub(crate) fn program<'o>(object: &'o Object, name: &str) -> Result<ProgramMut<'o>, Error> {
    object.progs_mut().find(|p| p.name() == name).ok_or_else(|| missing(name))
}

/// Finds the object's map `name`.
pub(crate) fn map<'o>(object: &'o Object, name: &str) -> Result<Map<'o>, Error> {
    object.maps().find(|m| m.name() == name).ok_or_else(|| missing(name))
}

/// Sets an entry of a map.
pub(crate) fn update(map: &Map<'_>, key: &[u8], value: &[u8]) -> Result<(), Error> {
    map.update(key, value, MapFlags::ANY)
        .map_err(|e| Error::bpf(format!("writing to the BPF map {}", map.name().display()), e))
}

/// The settings of the programs that see super-packets (`struct settings` of bpf/skb.h).
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    /// The bit of `gso_type` which says that all segments keep the IPv4 ID.
    pub(crate) gso_fixed_id: u32,
    /// The index of the device to observe, and the inode of its network namespace.
    pub(crate) device: (u32, u32),
    /// A number that differs in every load, by which the programs recognise their own notes in
    /// packets.
    pub(crate) salt: u32,
    /// The framing of the device.
    pub(crate) framing: Framing,
}

impl Settings {
    /// Finds the settings of this kernel, for any device with this framing.
    pub(crate) fn of_this_kernel(framing: Framing) -> Self {
        // Its bit until Linux 6.17, for kernels without type information.
        let gso_fixed_id = kernel_enum("SKB_GSO_TCP_FIXEDID").unwrap_or(1 << 3);
        Self { gso_fixed_id, device: (0, 0), salt: clock::now().0 as u32, framing }
    }

    /// Writes them into an object that is about to be loaded.
    pub(crate) fn write(self, open: &mut OpenObject) -> Result<(), libbpf_rs::Error> {
        let Self { gso_fixed_id, device: (device, namespace), salt, framing } = self;
        set_constants(open, &[gso_fixed_id, device, namespace, salt, framing.number()])
    }
}

/// Sets the constants of an object that is about to be loaded, which are `words`.
pub(crate) fn set_constants(open: &mut OpenObject, words: &[u32]) -> Result<(), libbpf_rs::Error> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let is_constants = |name: &OsStr| name.as_bytes().ends_with(b".rodata");
    match open.maps_mut().find(|m| is_constants(m.name())) {
        Some(mut map) => map.set_initial_value(&bytes),
        None => Err(io::Error::from(io::ErrorKind::NotFound).into()),
    }
}

/// Makes the XDP programs of an object that is about to be loaded accept frames in several buffers
/// (Linux 5.18). They see the first one.
pub(crate) fn accept_fragments(open: &mut OpenObject) {
    for mut program in open.progs_mut() {
        program.set_flags(libbpf_sys::BPF_F_XDP_HAS_FRAGS);
    }
}

/// Whether XDP programs can read the kernel's coarse clock, which costs a tenth of the exact one.
pub(crate) fn has_coarse_clock() -> bool {
    let (kind, helper) = (libbpf_sys::BPF_PROG_TYPE_XDP, libbpf_sys::BPF_FUNC_ktime_get_coarse_ns);
    quiet();
    // SAFETY: plain numbers, and no options; it loads and unloads a minimal program.
    unsafe { libbpf_sys::libbpf_probe_bpf_helper(kind, helper, std::ptr::null()) == 1 }
}

/// Returns the value of an enumerator in the running kernel, which may differ from the headers.
fn kernel_enum(name: &str) -> Option<u32> {
    let btf = Btf::from_vmlinux().ok()?;
    let has_name = |n: Option<&OsStr>| n.is_some_and(|n| n == name);
    btf.type_by_kind::<Enum<'_>>().find_map(|e| {
        let member = e.iter().find(|m| has_name(m.name));
        member.map(|m| m.value as u32)
    })
}

/// Returns the kernel's id and the name of the XDP program on an interface.
pub(crate) fn attached(ifindex: u32) -> Result<Option<(u32, OsString)>, Error> {
    let mut id = 0;
    // SAFETY: `id` is valid for writing; the kernel only answers.
    let answer = unsafe { libbpf_sys::bpf_xdp_query_id(ifindex as i32, 0, &mut id) };
    if answer < 0 {
        let source = io::Error::from_raw_os_error(-answer);
        return Err(Error::system("asking for XDP programs", source));
    }
    if id == 0 {
        return Ok(None);
    }
    Ok(Some((id, name_of(id))))
}

/// Returns the name of the program with this id; empty if there is none.
pub(crate) fn name_of(id: u32) -> OsString {
    ProgInfoIter::default().find(|p| p.id == id).map(|p| p.name).unwrap_or_default()
}

/// Attaches a program to an interface as a filter of the clsact qdisc at its ingress, with `number`
/// as its handle and priority. A filter with this number is replaced without a gap.
pub(crate) fn attach_filter(
    program: &ProgramMut<'_>,
    netdev: &Netdev,
    number: u32,
) -> Result<TcHook, Error> {
    let wrap = |e| Error::bpf(format!("adding a filter to `{}`", netdev.name), e);
    let mut hook = TcHook::new(program.as_fd());
    hook.ifindex(netdev.index as i32)
        .attach_point(TC_INGRESS)
        .handle(number)
        .priority(number)
        .replace(true);
    hook.create().map_err(wrap)?;
    hook.attach().map_err(wrap)?;
    Ok(hook)
}

/// Sets what the programs of a port know about the port itself (bpf/own.h).
pub(crate) fn set_own(object: &Object, netdev: &Netdev, is_promiscuous: bool) -> Result<(), Error> {
    let mut mac = [0; 8];
    mac[..6].copy_from_slice(&netdev.mac);
    mac[PROMISCUOUS] = u8::from(is_promiscuous);
    update(&map(object, OWN_MAC)?, &0u32.to_ne_bytes(), &mac)?;
    let own = map(object, "own_addresses")?;
    for address in &netdev.addresses {
        let address = match address {
            IpAddr::V4(a) => a.to_ipv6_mapped(),
            IpAddr::V6(a) => *a,
        };
        update(&own, &address.octets(), &[1])?;
    }
    Ok(())
}

/// Whether the program with this id, which a box left on a port, says that the box made the
/// interface promiscuous.
pub(crate) fn made_promiscuous(id: u32) -> bool {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let Some(program) = ProgInfoIter::with_query_opts(options).find(|p| p.id == id) else {
        return false;
    };
    let mut maps = program.map_ids.into_iter().filter_map(|id| MapHandle::from_map_id(id).ok());
    let own = maps.find(|map| map.name() == OWN_MAC);
    let mac = own.and_then(|map| map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten());
    mac.is_some_and(|mac| mac.get(PROMISCUOUS) == Some(&1))
}

/// The map that has a port's MAC address, and the byte after it that says whether the box made the
/// interface promiscuous.
const OWN_MAC: &str = "own_mac";
const PROMISCUOUS: usize = 6;

/// What is known about XDP on an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XdpSupport {
    /// What the driver supports. Kernels before Linux 6.3 do not say, so nothing is set there.
    pub driver: XdpDriver,
    /// The name of the program that is attached.
    pub attached: Option<String>,
}

/// What a driver supports of XDP (`enum netdev_xdp_act` of `linux/netdev.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpDriver {
    /// It runs programs.
    pub native: bool,
    /// It redirects packets to sockets and other devices.
    pub redirect: bool,
    /// It shares memory with sockets.
    pub zero_copy: bool,
}

impl XdpDriver {
    fn new(flags: u64) -> Self {
        let has = |bit: u32| flags >> bit & 1 == 1;
        Self { native: has(0), redirect: has(1), zero_copy: has(3) }
    }
}

/// Returns what an interface supports of XDP, and the program that is attached.
pub(crate) fn support(ifindex: u32) -> Result<XdpSupport, Error> {
    let attached = attached(ifindex)?.map(|(_, name)| name.to_string_lossy().into_owned());
    let mut options = libbpf_sys::bpf_xdp_query_opts {
        sz: size_of::<libbpf_sys::bpf_xdp_query_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    quiet();
    // SAFETY: options whose size they say themselves; the kernel only answers. A kernel
    // that does not know the question leaves the flags at zero.
    let answer = unsafe { libbpf_sys::bpf_xdp_query(ifindex as i32, 0, &raw mut options) };
    let flags = if answer == 0 { options.feature_flags } else { 0 };
    Ok(XdpSupport { driver: XdpDriver::new(flags), attached })
}

/// Tries the parts of BPF that a box needs, and returns whether the kernel has each.
pub fn parts() -> Vec<(&'static str, bool)> {
    use libbpf_sys as sys;
    quiet();
    // SAFETY: plain numbers, and no options; each loads and unloads something minimal.
    let program = |kind| unsafe { sys::libbpf_probe_bpf_prog_type(kind, std::ptr::null()) } == 1;
    // SAFETY: as above.
    let map = |kind| unsafe { sys::libbpf_probe_bpf_map_type(kind, std::ptr::null()) } == 1;
    vec![
        ("XDP programs", program(sys::BPF_PROG_TYPE_XDP)),
        ("classifier programs", program(sys::BPF_PROG_TYPE_SCHED_CLS)),
        ("raw tracepoint programs", program(sys::BPF_PROG_TYPE_RAW_TRACEPOINT)),
        ("longest-prefix maps", map(sys::BPF_MAP_TYPE_LPM_TRIE)),
        ("ring buffers", map(sys::BPF_MAP_TYPE_RINGBUF)),
        ("maps of AF_XDP sockets", map(sys::BPF_MAP_TYPE_XSKMAP)),
    ]
}

/// Detaches the program that a dead box left on the interface, and returns whether there was one.
///
/// The caller holds the interface's lock, so no box uses the program.
pub(crate) fn remove_leftover(ifindex: u32) -> Result<bool, Error> {
    if attached(ifindex)?.is_none_or(|(_, name)| name != PORT.name) {
        return Ok(false);
    }
    for mode in [XdpFlags::DRV_MODE, XdpFlags::SKB_MODE] {
        // SAFETY: file descriptor -1 asks the kernel to detach; no pointers but a null are given.
        unsafe {
            libbpf_sys::bpf_xdp_attach(ifindex as i32, -1, mode.bits(), std::ptr::null());
        }
    }
    Ok(true)
}

/// The error for a map or program that an object lacks.
pub(crate) fn missing(what: &str) -> Error {
    let source = io::Error::from(io::ErrorKind::NotFound);
    Error::System { what: format!("finding {what} in a BPF object"), source }
}

/// Sends libbpf's messages to the log instead of standard error.
pub(crate) fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Debug, |level, text| {
            let text = text.trim_end();
            verifier_log::note(text);
            match level {
                PrintLevel::Warn => tracing::debug!(target: "libbpf", "{text}"),
                _ => tracing::trace!(target: "libbpf", "{text}"),
            }
        })));
    });
}
