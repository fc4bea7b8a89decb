//! Gathering the facts about this machine, without judging them and without changing the machine.

use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use forebay_dataplane::kernel::{EgressObserver, LoadedEgress};
use forebay_dataplane::{
    Framing, Hook, Method, Netdev, Pool, Sampler, bpf_parts, open_ports, try_bypass,
};
use forebay_system::clock;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_tc::{Device, Features, Found, Route};
use forebay_units::Nanos;

use super::facts::{Answer, Bpf, Clock, Facts, Interface, Kernel, Peer, PeerRoute, Plan, Root};
use super::target::Target;
use super::{peers, scratch};
use crate::sendbox;

pub(super) fn facts(target: Option<&Target>) -> Facts {
    let features = Features::probe().map_err(|e| e.to_string());
    let interfaces = target.map_or_else(every_interface, |t| t.interfaces.clone());
    Facts {
        kernel: kernel(),
        bpf: bpf(),
        capabilities: capabilities().unwrap_or(0),
        memlock: memlock(),
        clock: clocks(),
        interfaces: interfaces.iter().filter_map(|name| interface(name)).collect(),
        plan: target.map(|t| plan(t, &features)),
        qdiscs: features.map(|f| f.kinds().collect()),
    }
}

fn kernel() -> Kernel {
    let release = text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let version = numbers.next().and_then(Result::ok).zip(numbers.next().and_then(Result::ok));
    Kernel { release, version }
}

/// Reads a small file of the kernel.
fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

fn bpf() -> Bpf {
    // Each trial has a loopback interface of its own, and leaves it as it was.
    let trial = |f: fn(&Netdev) -> Result<String, forebay_dataplane::Error>| {
        let tried = scratch::within(|| Netdev::find("lo").and_then(|lo| f(&lo)));
        tried.map_err(|e| e.to_string()).and_then(|result| result.map_err(|e| e.to_string()))
    };
    Bpf {
        parts: bpf_parts(),
        types: Path::new("/sys/kernel/btf/vmlinux").exists(),
        jit: text("/proc/sys/net/core/bpf_jit_enable").map(|t| t != "0"),
        observer: trial(|lo| EgressObserver::attach(lo).map(|_| String::new())).map(drop),
        ingress: trial(|lo| Sampler::attach_at(lo, &[], Hook::Tc).map(|_| String::new())).map(drop),
        tunnel_observer: LoadedEgress::check_loading(Framing::BareIp).map_err(|e| e.to_string()),
        tunnel_ingress: Sampler::check_loading(Framing::BareIp).map_err(|e| e.to_string()),
        bypass: trial(|lo| try_bypass(lo).map(|()| String::new())).map(drop),
        af_xdp: trial(|lo| {
            let mut pool = Pool::new(256, 1_500)?;
            // The MTU of loopback is larger than a chunk, but no frame arrives.
            let mut lo = lo.clone();
            lo.mtu = 1_500;
            let ports = open_ports(std::slice::from_ref(&lo), Method::Xdp, &mut pool)?;
            Ok(ports.first().map(|p| p.describe()).unwrap_or_default())
        }),
    }
}

/// Returns the bits of the effective capabilities from `/proc/self/status`.
fn capabilities() -> Option<u64> {
    let status = text("/proc/thread-self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn memlock() -> Option<u64> {
    // SAFETY: all-zero is a valid `rlimit`, which the call fills.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit);
        (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
    }
}

/// The number of timed sleeps, and their length.
const SLEEPS: usize = 50;
const SLEEP: Nanos = Nanos::from_micros(500);
/// The number of clock readings that are timed together.
const READINGS: u64 = 10_000;

fn clocks() -> Clock {
    let start = clock::now();
    for _ in 0..READINGS {
        std::hint::black_box(clock::now());
    }
    let read = Nanos(clock::now().saturating_sub(start).0 / READINGS);
    let coarse = resolution(libc::CLOCK_MONOTONIC_COARSE);
    Clock {
        source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        resolution: resolution(libc::CLOCK_MONOTONIC),
        hertz: (coarse > Nanos::ZERO).then(|| (1_000_000_000 + coarse.0 / 2) / coarse.0.max(1)),
        read,
        late: lateness(),
        slew: slew(),
    }
}

fn resolution(of: libc::clockid_t) -> Nanos {
    // SAFETY: all-zero is a valid `timespec`, which the call fills.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_getres(of, &raw mut time);
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

/// Measures the lateness of sleeps like those of a sendbox, median and maximum. It uses a thread of
/// its own, so that only its timers become precise.
fn lateness() -> (Nanos, Nanos) {
    let measured = std::thread::spawn(|| {
        precise_timers();
        let mut waiter = Waiter::new([]);
        let mut late: Vec<Nanos> = (0..SLEEPS)
            .map(|_| {
                let due = clock::now() + SLEEP;
                waiter.wait_until(due);
                clock::now().saturating_sub(due)
            })
            .collect();
        late.sort_unstable();
        (late[SLEEPS / 2], late[SLEEPS - 1])
    });
    measured.join().unwrap_or_default()
}

/// Returns the slewing rate in parts per million. The kernel's unit is 2^-16 of that
/// (`adjtimex(2)`).
fn slew() -> Option<f64> {
    // SAFETY: all-zero is a valid `timex`, and asks for nothing to be changed.
    unsafe {
        let mut timex: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&raw mut timex) >= 0).then(|| timex.freq as f64 / 65_536.0)
    }
}

/// Returns the names of all interfaces that are up, without loopback.
fn every_interface() -> Vec<String> {
    // SAFETY: the list ends with a zero index, its names are valid C strings, and it is freed once.
    unsafe {
        let list = libc::if_nameindex();
        let mut names = Vec::new();
        let mut next = list;
        while !next.is_null() && (*next).if_index != 0 {
            names.push(CStr::from_ptr((*next).if_name).to_string_lossy().into_owned());
            next = next.add(1);
        }
        if !list.is_null() {
            libc::if_freenameindex(list);
        }
        names.retain(|n| n != "lo" && Netdev::find(n).is_ok_and(|d| d.check_up().is_ok()));
        names
    }
}

fn interface(name: &str) -> Option<Interface> {
    let netdev = Netdev::find(name).ok()?;
    Some(Interface {
        up: netdev.check_up().is_ok(),
        framing: netdev.framing().map_err(|e| e.to_string()),
        mtu: netdev.mtu,
        queues: netdev.queues,
        features: netdev.features(),
        xdp: netdev.xdp().map_err(|e| e.to_string()),
        root: root(name).map_err(|e| e.to_string()),
        name: netdev.name,
    })
}

fn root(name: &str) -> Result<Root, forebay_tc::Error> {
    Ok(match Found::of(&Device::find(name)?)?.root() {
        forebay_tc::Root::Default => Root::Default,
        forebay_tc::Root::Ours => Root::Ours,
        forebay_tc::Root::Foreign { kind, handle } => Root::Foreign(format!("{kind} {handle}")),
    })
}

fn plan(target: &Target, features: &Answer<Features>) -> Plan {
    let kernel = target.role == super::Role::SendboxKernel;
    let tree = target.sendbox().filter(|_| kernel).zip(features.as_ref().ok());
    let tree = tree.map(|(config, features)| {
        let plan = sendbox::plan(&config.bundles, config.limit, features);
        plan.map(|p| p.objects.len()).map_err(|e| e.to_string())
    });
    Plan {
        file: target.file.clone(),
        role: target.role,
        trouble: target.config.as_ref().err().cloned(),
        interfaces: target.interfaces.clone(),
        method: target.method(),
        take_over: target.take_over(),
        tree,
        pool: target.pool(),
        peers: peers_of(target),
    }
}

fn peers_of(target: &Target) -> Vec<Peer> {
    if let Some(config) = target.receivebox() {
        let peer = |p: &crate::config::PeerConfig| Peer {
            bundle: p.name.clone(),
            address: p.sendbox.found(),
            route: route_to(p.sendbox.found()),
            strays: Vec::new(),
            reply: None,
        };
        return config.peers.iter().map(peer).collect();
    }
    let Some(config) = target.sendbox() else { return Vec::new() };
    let Some(listen) = config.listen else { return Vec::new() };
    let replies = peers::ask(listen, &config.bundles);
    let outer = &config.outside.name;
    let peer = |(bundle, reply): (&crate::config::BundleConfig, _)| Peer {
        bundle: bundle.name.clone(),
        address: bundle.receivebox.found(),
        route: route_to(bundle.receivebox.found()),
        strays: bundle.prefixes.iter().filter_map(|p| stray(p, outer)).collect(),
        reply: Some(reply),
    };
    config.bundles.iter().zip(replies).map(peer).collect()
}

/// Returns the prefix and the device for its packets, if that is not `outer`.
fn stray(prefix: &ipnet::IpNet, outer: &str) -> Option<(String, String)> {
    // The first host represents the prefix: longer routes within it are not checked.
    let host = prefix.hosts().next()?;
    let route = find_route(host).ok()?;
    (route.device != *outer).then(|| (prefix.to_string(), route.device))
}

fn route_to(to: Option<SocketAddr>) -> Answer<PeerRoute> {
    let to = to.ok_or("the address of the other box is not in the file")?;
    find_route(to.ip())
}

fn find_route(to: IpAddr) -> Answer<PeerRoute> {
    let route = Route::find(to).map_err(|e| e.to_string())?;
    let route = route.ok_or_else(|| format!("there is no route to {to}"))?;
    let device = name(route.device).ok_or("its interface is gone")?;
    let own = Netdev::find(&device).map_err(|e| e.to_string())?.mtu;
    Ok(PeerRoute { mtu: route.mtu.map_or(own, |m| m.min(own)), device, source: route.source })
}

fn name(index: i32) -> Option<String> {
    let mut buffer = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call asks for, and holds a C string if it succeeds.
    unsafe {
        let name = libc::if_indextoname(index as u32, buffer.as_mut_ptr());
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}
