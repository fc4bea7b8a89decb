//! The back end's configuration: TOML, checked whole before anything is touched.

use std::collections::BTreeSet;
use std::path::PathBuf;

use forebay_config::{
    ConfigError, Configuration, DurationValue, Limit as LimitValue, RateValue, Source, Spanned,
};
use forebay_dataplane::{Method, Netdev};
use forebay_queue::Limit;
use forebay_units::{Bytes, Nanos, Rate};
use serde::Deserialize;

use crate::egress::Outside;

/// Virtual machines, at most.
const MAX_VMS: usize = 64;
/// Packets that may wait, at most.
const MAX_PACKETS: u64 = 1_000_000;
/// The length of a socket's path, at most (`sun_path`, with its terminator).
const MAX_PATH: usize = 107;
/// What may leave at once after a pause, as time at the rate: as late as the timers of a host may be that
/// runs virtual machines on the same cores.
const BURST: Nanos = Nanos::from_millis(1);
/// What a virtual machine may have in the buffer at the least, where nothing is said: two turns of the scheduler's.
const LEAST_IN_BUFFER: u64 = 16;
/// A full frame of Ethernet.
const FULL_FRAME: u64 = 1514;

/// What a scheduled buffer that is full does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its sources are paused: packets stay in the rings of their virtual machines.
    #[default]
    Zd,
    /// Packets are taken at once, and those that do not fit are dropped, as by vhost-net over a qdisc.
    Drop,
}

/// Which packet leaves next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// One queue for all.
    #[default]
    Fifo,
    /// A queue for each virtual machine, served by weight (deficit round robin).
    Fair,
    /// A queue for each virtual machine, the first of the file before all others.
    Strict,
}

/// The scheduled buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfig {
    /// What it does when it is full.
    pub mode: Mode,
    /// Which packet leaves next.
    pub schedule: Schedule,
    /// How fast it is emptied; as fast as the port takes packets if `None`.
    pub rate: Option<Rate>,
    /// What may leave at once after a pause, as time at the rate.
    pub burst: Nanos,
    /// What may wait, all virtual machines together.
    pub limit: Limit,
    /// Packets of one virtual machine that may wait, in mode zD: the rest of what it sends stays in its ring, where it
    /// delays nobody else's. `u16::MAX` means no limit.
    pub in_buffer: u16,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    /// What people call it.
    pub name: String,
    /// Where its front end connects.
    pub socket: PathBuf,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its share where the schedule is fair, as a ratio.
    pub weight: u32,
    /// What it may send, at most.
    pub rate: Option<Rate>,
}

/// A back end.
#[derive(Clone, Debug)]
pub struct VhostConfig {
    /// Where packets go.
    pub outside: Outside,
    /// How they wait.
    pub scheduler: SchedulerConfig,
    /// Whose they are.
    pub vms: Vec<VmConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    vhost: Spanned<VhostTable>,
    #[serde(default)]
    vm: Vec<VmTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VhostTable {
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    policy: Schedule,
    rate: Option<Spanned<RateValue>>,
    burst: Option<Spanned<DurationValue>>,
    limit: Option<Spanned<LimitValue>>,
    in_buffer: Option<Spanned<u16>>,
    interface: Option<Spanned<String>>,
    method: Option<Spanned<Method>>,
    tap: Option<Spanned<String>>,
    super_packets: Option<Spanned<bool>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VmTable {
    name: Spanned<String>,
    socket: Spanned<PathBuf>,
    mac: Option<Spanned<String>>,
    weight: Option<Spanned<u32>>,
    rate: Option<Spanned<RateValue>>,
}

impl Configuration for VhostConfig {
    type File = File;

    fn check(file: File, source: &Source) -> Result<Self, ConfigError> {
        let span = file.vhost.span();
        let error = |message: String| source.error_at(span.clone(), "vm", message);
        if file.vm.is_empty() {
            return Err(error("missing: no virtual machine (`[[vm]]`)".to_owned()));
        }
        if file.vm.len() > MAX_VMS {
            return Err(error(format!("{} virtual machines: at most {MAX_VMS}", file.vm.len())));
        }
        let table = file.vhost.into_inner();
        let scheduler = scheduler(source, &table)?;
        let vms = vms(source, scheduler.schedule, file.vm)?;
        let own = match scheduler.schedule {
            Schedule::Fifo => 1,
            Schedule::Fair | Schedule::Strict => vms.len() as u32,
        };
        if let Some(limit) = &table.limit
            && (scheduler.limit.packets < 2 * own
                || scheduler.limit.bytes.is_some_and(|b| b.0 < 2 * 65_550 * u64::from(own)))
        {
            let message = "is too small: each queue needs room for two packets, of up to 65550 B";
            return Err(source.error_at(limit.span(), "vhost.limit", message));
        }
        // Last, since it looks at the machine.
        let outside = outside(source, &span, &table)?;
        Ok(Self { outside, scheduler, vms })
    }
}

fn scheduler(source: &Source, table: &VhostTable) -> Result<SchedulerConfig, ConfigError> {
    let rate = rate(source, "vhost.rate", &table.rate)?;
    let burst = table.burst.as_ref();
    if let Some(wrong) = burst.filter(|b| b.get_ref().0 > Nanos::from_secs(1) || rate.is_none()) {
        let message = "goes with `rate`, and is at most 1 s";
        return Err(source.error_at(wrong.span(), "vhost.burst", message));
    }
    let limit = match &table.limit {
        None => Limit::default(),
        Some(limit) => {
            let refused = |message: &str| source.error_at(limit.span(), "vhost.limit", message);
            match *limit.get_ref() {
                LimitValue::Packets(n) if n <= MAX_PACKETS => Limit::packets(n as u32),
                LimitValue::Packets(_) => return Err(refused("more than a million packets")),
                LimitValue::Bytes(bytes) => Limit::bytes(bytes).and(Limit::packets(1_000_000)),
                LimitValue::Time(time) => match rate {
                    // In bytes, since what waits is never dropped for its age.
                    Some(rate) => Limit::bytes(rate.bytes_in(time).max(Bytes(1)))
                        .and(Limit::packets(1_000_000)),
                    None => return Err(refused("a time goes with `rate`")),
                },
                LimitValue::Bdp(_) => {
                    return Err(refused(
                        "the round trip is not known: give packets, bytes or a time",
                    ));
                }
            }
        }
    };
    let burst = burst.map_or(BURST, |b| b.get_ref().0);
    let in_buffer = match &table.in_buffer {
        Some(given) if *given.get_ref() == 0 || table.mode == Mode::Drop => {
            let message = "goes with mode = \"zd\", and is at least 1";
            return Err(source.error_at(given.span(), "vhost.in_buffer", message));
        }
        Some(given) => *given.get_ref(),
        None => in_buffer(rate, burst),
    };
    Ok(SchedulerConfig { mode: table.mode, schedule: table.policy, rate, burst, limit, in_buffer })
}

/// What of one virtual machine may wait where nothing is said: as much as may leave at once, for that must be there to
/// leave. Without a rate the port's pace is not known, and there is no limit.
fn in_buffer(rate: Option<Rate>, burst: Nanos) -> u16 {
    let at_once = rate.map(|rate| (rate.bytes_in(burst).0 / FULL_FRAME).max(LEAST_IN_BUFFER));
    at_once.and_then(|packets| u16::try_from(packets).ok()).unwrap_or(u16::MAX)
}

fn rate(
    source: &Source,
    key: &str,
    given: &Option<Spanned<RateValue>>,
) -> Result<Option<Rate>, ConfigError> {
    match given {
        Some(rate) if rate.get_ref().0 == Rate::ZERO => {
            Err(source.error_at(rate.span(), key, "a rate of zero lets nothing out"))
        }
        given => Ok(given.as_ref().map(|r| r.get_ref().0)),
    }
}

fn outside(
    source: &Source,
    span: &std::ops::Range<usize>,
    table: &VhostTable,
) -> Result<Outside, ConfigError> {
    match (&table.interface, &table.tap) {
        (None, None) => {
            let message = "missing: where packets go (`interface = ...` or `tap = ...`)";
            Err(source.error_at(span.clone(), "vhost.interface", message))
        }
        (Some(_), Some(tap)) => {
            Err(source.error_at(tap.span(), "vhost.tap", "goes without `interface`"))
        }
        (None, Some(tap)) => {
            if let Some(method) = &table.method {
                let message = "goes with `interface`";
                return Err(source.error_at(method.span(), "vhost.method", message));
            }
            let name = tap.get_ref();
            let allowed = |c: char| c.is_ascii_graphic() && c != '/' && c != '%';
            if name.is_empty() || name.len() >= libc::IFNAMSIZ || !name.chars().all(allowed) {
                let message = "is no name for an interface: 1 to 15 letters and digits";
                return Err(source.error_at(tap.span(), "vhost.tap", message));
            }
            let super_packets = table.super_packets.as_ref().is_none_or(|s| *s.get_ref());
            Ok(Outside::Tap { name: name.clone(), super_packets })
        }
        (Some(interface), None) => {
            if let Some(key) = &table.super_packets {
                let message = "goes with `tap`: a port carries full frames";
                return Err(source.error_at(key.span(), "vhost.super_packets", message));
            }
            let at = |e| source.error_at(interface.span(), "vhost.interface", e);
            let netdev = Netdev::find(interface.get_ref()).map_err(at)?;
            netdev.check().map_err(at)?;
            let method = table.method.as_ref().map(|m| *m.get_ref()).unwrap_or_default();
            Ok(Outside::Port { netdev, method })
        }
    }
}

fn vms(
    source: &Source,
    schedule: Schedule,
    tables: Vec<VmTable>,
) -> Result<Vec<VmConfig>, ConfigError> {
    let (mut names, mut sockets, mut macs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut vms = Vec::new();
    for table in tables {
        let name = table.name.get_ref().clone();
        if name.is_empty() || !names.insert(name.clone()) {
            let message = "each virtual machine has a name of its own";
            return Err(source.error_at(table.name.span(), "vm.name", message));
        }
        let socket = table.socket.get_ref().clone();
        if !socket.is_absolute() || socket.as_os_str().len() > MAX_PATH {
            let message = format!("write a whole path, from /, of at most {MAX_PATH} bytes");
            return Err(source.error_at(table.socket.span(), "vm.socket", message));
        }
        if !sockets.insert(socket.clone()) {
            let message = "another virtual machine has this socket";
            return Err(source.error_at(table.socket.span(), "vm.socket", message));
        }
        let (mac, at) = match &table.mac {
            Some(text) => (mac(source, text)?, text.span()),
            None => (derived(&name), table.name.span()),
        };
        if !macs.insert(mac) {
            let message = "another virtual machine has this address";
            return Err(source.error_at(at, "vm.mac", message));
        }
        if let Some(weight) = &table.weight {
            let message = match weight.get_ref() {
                _ if schedule != Schedule::Fair => "goes with policy = \"fair\" only",
                1..=100 => "",
                _ => "is a ratio from 1 to 100",
            };
            if !message.is_empty() {
                return Err(source.error_at(weight.span(), "vm.weight", message));
            }
        }
        let own = rate(source, "vm.rate", &table.rate)?;
        if let Some(rate) = table.rate.as_ref().filter(|_| schedule == Schedule::Fifo) {
            let message = "one queue for all has one rate: write policy = \"fair\" or \"strict\"";
            return Err(source.error_at(rate.span(), "vm.rate", message));
        }
        let weight = table.weight.map_or(1, Spanned::into_inner);
        vms.push(VmConfig { name, socket, mac, weight, rate: own });
    }
    Ok(vms)
}

fn mac(source: &Source, text: &Spanned<String>) -> Result<[u8; 6], ConfigError> {
    let read = || {
        let mut mac = [0; 6];
        let mut parts = text.get_ref().split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|p| p.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        (parts.next().is_none() && mac[0] & 1 == 0 && mac != [0; 6]).then_some(mac)
    };
    read().ok_or_else(|| {
        let message = "is no station's Ethernet address, such as \"52:54:00:12:34:56\"";
        source.error_at(text.span(), "vm.mac", message)
    })
}

/// A local address that a name always has: the low bits of its FNV-1a hash behind a prefix of ours.
fn derived(name: &str) -> [u8; 6] {
    let hash =
        name.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    let [a, b, c, d] = hash.to_be_bytes();
    [0x02, 0xfb, a, b, c, d]
}

#[cfg(test)]
mod tests;
