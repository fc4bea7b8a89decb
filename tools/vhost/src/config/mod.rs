//! The back end's configuration: a TOML file that is checked as a whole before anything changes.

mod policy;

use std::collections::BTreeSet;
use std::path::PathBuf;

use forebay_config::{
    ConfigError, Configuration, DurationValue, Limit as LimitValue, RateValue, Source, Spanned,
};
use forebay_dataplane::{Method, Netdev};
use forebay_discipline::Settings;
use forebay_queue::Limit;
use forebay_units::{Bytes, Nanos, Rate};
use serde::Deserialize;

use self::policy::PolicyValue;
use crate::egress::Outside;
use crate::session::MAX_PAIRS;

/// Maximum number of virtual machines.
const MAX_VMS: usize = 64;
/// Maximum number of packets in the scheduled buffer.
const MAX_PACKETS: u64 = 1_000_000;
/// Maximum length in bytes of a socket's path (`sun_path`, with its terminator).
const MAX_PATH: usize = 107;
/// Default burst, as time at the rate: how late the timers of a host may be that runs virtual
/// machines on the same cores.
const BURST: Nanos = Nanos::from_millis(1);
/// Minimum default of `in_buffer` in packets: two turns of the scheduler.
const MIN_IN_BUFFER: u64 = 16;
/// Length in bytes of a full Ethernet frame.
const FULL_FRAME: u64 = 1514;
/// Length in bytes of the longest packet, a super-packet, that each queue must have room for twice.
const MAX_PACKET: u64 = 65_550;

/// What happens when the scheduled buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Virtual machines are paused: their packets stay in their rings.
    #[default]
    Zd,
    /// Packets are taken at once and dropped if they do not fit, as by vhost-net over a qdisc.
    Drop,
}

/// Order in which packets leave the scheduled buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Schedule {
    /// One queue for all virtual machines.
    #[default]
    Fifo,
    /// One queue for each virtual machine, served by weight (deficit round robin).
    Fair,
    /// One queue for each virtual machine; the first of the file is always served first.
    Strict,
    /// One L queue and one C queue for all virtual machines (RFC 9332), with the settings of the
    /// discipline, limit included.
    DualPi2(Settings),
}

/// Settings of the scheduled buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfig {
    /// What happens when the buffer is full.
    pub mode: Mode,
    /// Order in which packets leave.
    pub schedule: Schedule,
    /// Rate at which it is emptied; `None` is as fast as the port takes packets.
    pub rate: Option<Rate>,
    /// Burst that may leave at once after a pause, as time at the rate.
    pub burst: Nanos,
    /// Size of the buffer for all virtual machines together.
    pub limit: Limit,
    /// Maximum number of packets of one virtual machine in the buffer, in mode zD. The rest stays
    /// in its ring, where it does not delay others. `u16::MAX` means no limit.
    pub in_buffer: u16,
}

/// Settings of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    /// Name in messages and reports.
    pub name: String,
    /// Path of the socket that its front end connects to.
    pub socket: PathBuf,
    /// Ethernet address, which other virtual machines cannot take over.
    pub mac: [u8; 6],
    /// Share relative to the other virtual machines under [`Schedule::Fair`].
    pub weight: u32,
    /// Maximum rate at which it may send; `None` is no limit.
    pub rate: Option<Rate>,
    /// Number of pairs of rings, 1 to 16. Flows in different rings are paused separately.
    pub queues: u8,
}

/// Configuration of a back end.
#[derive(Clone, Debug)]
pub struct VhostConfig {
    /// Interface or device through which packets leave.
    pub outside: Outside,
    /// Settings of the scheduled buffer.
    pub scheduler: SchedulerConfig,
    /// The virtual machines, in the order of the file.
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
    policy: Option<Spanned<PolicyValue>>,
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
    queues: Option<Spanned<u8>>,
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
            Schedule::Fifo | Schedule::DualPi2(_) => 1,
            Schedule::Fair | Schedule::Strict => vms.len() as u32,
        };
        if let Some(limit) = &table.limit
            && (scheduler.limit.packets < 2 * own
                || scheduler.limit.bytes.is_some_and(|b| b.0 < 2 * MAX_PACKET * u64::from(own)))
        {
            let message = "is too small: each queue needs room for two packets, of up to 65550 B";
            return Err(source.error_at(limit.span(), "vhost.limit", message));
        }
        // This comes last, because it asks the machine.
        let outside = outside(source, &span, &table, scheduler.schedule)?;
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
                    // Converted to bytes, because packets are never dropped for their age.
                    Some(rate) => Limit::bytes(rate.bytes_in(time).max(Bytes(1)))
                        .and(Limit::packets(1_000_000)),
                    None => return Err(refused("a time goes with `rate`")),
                },
                LimitValue::Bdp(_) => {
                    return Err(refused(
                        "the round-trip time is not known: give packets, bytes or a time",
                    ));
                }
            }
        }
    };
    let schedule = policy::check(source, table, rate)?;
    let burst = burst.map_or(BURST, |b| b.get_ref().0);
    let in_buffer = match &table.in_buffer {
        Some(given) if *given.get_ref() == 0 || table.mode == Mode::Drop => {
            let message = "goes with mode = \"zd\", and is at least 1";
            return Err(source.error_at(given.span(), "vhost.in_buffer", message));
        }
        Some(given) => *given.get_ref(),
        None => in_buffer(rate, burst),
    };
    Ok(SchedulerConfig { mode: table.mode, schedule, rate, burst, limit, in_buffer })
}

/// Default of `in_buffer`: as many packets as may leave at once, which must be in the buffer to
/// leave. Without a rate there is no limit, because the port's rate is not known.
fn in_buffer(rate: Option<Rate>, burst: Nanos) -> u16 {
    let at_once = rate.map(|rate| (rate.bytes_in(burst).0 / FULL_FRAME).max(MIN_IN_BUFFER));
    at_once.and_then(|packets| u16::try_from(packets).ok()).unwrap_or(u16::MAX)
}

fn rate(
    source: &Source,
    key: &str,
    given: &Option<Spanned<RateValue>>,
) -> Result<Option<Rate>, ConfigError> {
    match given {
        Some(rate) if rate.get_ref().0 == Rate::ZERO => Err(source.error_at(
            rate.span(),
            key,
            "a rate of zero stops all traffic: give a rate above zero",
        )),
        given => Ok(given.as_ref().map(|r| r.get_ref().0)),
    }
}

fn outside(
    source: &Source,
    span: &std::ops::Range<usize>,
    table: &VhostTable,
    schedule: Schedule,
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
                let message = "is not an interface name: use 1 to 15 letters and digits";
                return Err(source.error_at(tap.span(), "vhost.tap", message));
            }
            // A super-packet is marked as a whole, so DualPI2 splits them before it decides, as
            // Linux's does.
            let whole = !matches!(schedule, Schedule::DualPi2(_));
            let super_packets = table.super_packets.as_ref().map_or(whole, |s| *s.get_ref());
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
            let message = "another virtual machine has this name: names must differ";
            return Err(source.error_at(table.name.span(), "vm.name", message));
        }
        let socket = table.socket.get_ref().clone();
        if !socket.is_absolute() || socket.as_os_str().len() > MAX_PATH {
            let message = format!("must be an absolute path of at most {MAX_PATH} bytes");
            return Err(source.error_at(table.socket.span(), "vm.socket", message));
        }
        if !sockets.insert(socket.clone()) {
            let message = "another virtual machine has this socket";
            return Err(source.error_at(table.socket.span(), "vm.socket", message));
        }
        let (mac, at) = match &table.mac {
            Some(text) => (mac(source, text)?, text.span()),
            None => (derived_mac(&name), table.name.span()),
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
        let shared = matches!(schedule, Schedule::Fifo | Schedule::DualPi2(_));
        if let Some(rate) = table.rate.as_ref().filter(|_| shared) {
            let message = "a single queue has one rate: set policy = \"fair\" or \"strict\"";
            return Err(source.error_at(rate.span(), "vm.rate", message));
        }
        if let Some(queues) = &table.queues
            && !(1..=MAX_PAIRS).contains(queues.get_ref())
        {
            let message = format!("is a number of pairs of rings from 1 to {MAX_PAIRS}");
            return Err(source.error_at(queues.span(), "vm.queues", message));
        }
        let weight = table.weight.map_or(1, Spanned::into_inner);
        let queues = table.queues.map_or(1, Spanned::into_inner);
        vms.push(VmConfig { name, socket, mac, weight, rate: own, queues });
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
        let message = "is not a unicast Ethernet address, such as \"52:54:00:12:34:56\"";
        source.error_at(text.span(), "vm.mac", message)
    })
}

/// Derives a locally administered address from `name`: a fixed prefix and the name's FNV-1a hash.
fn derived_mac(name: &str) -> [u8; 6] {
    let hash =
        name.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    let [a, b, c, d] = hash.to_be_bytes();
    [0x02, 0xfb, a, b, c, d]
}

#[cfg(test)]
mod tests;
