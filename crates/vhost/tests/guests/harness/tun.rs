//! TCP through a TUN device whose reader is the bottleneck, inside one guest.
//!
//! ```text
//!   8 threads ── TCP ── qdisc, TUN's ring ── a thread reads and writes ── TUN ── TCP ── sink
//!   one namespace                                                            another namespace
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use forebay_guest::sockopt;
use forebay_guest::stamps::{self, Stamps};
use serde_json::{Value, json};

use super::guest::ip;
use super::percentiles;
use super::stream::retransmissions;

/// Number of flows, each with a thread, as `iperf3 -P 8`.
const FLOWS: usize = 8;
/// Bytes passed to the kernel at a time, as iperf3 does for TCP.
const PIECE: usize = 128 << 10;
/// The sender's device.
const NEAR: &str = "fb-tun0";
/// The sink's device, and its address.
const FAR: &str = "fb-tun1";
const SINK: &str = "10.97.0.2";
const PORT: u16 = 5001;
/// Packets that the sink's device holds: enough for all acknowledgements.
const FAR_LENGTH: u32 = 1_000;
/// The longest packet that a read returns: a virtio header and a super-packet.
const LONGEST: usize = 10 + 65_535;
/// `TUNSETIFF` and `TUNSETOFFLOAD` (linux/if_tun.h), for which libc has no names.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
/// Checksums and segmentation of TCP over IPv4 and IPv6 are left to the reader.
const OFFLOADS: libc::c_ulong = 1 | 2 | 4;

/// Runs the flows over a TUN device of `length` packets, of its ring and of its qdisc each.
pub(super) fn run(length: u32, warm_up: Duration, measured: Duration) -> Value {
    let near = device(NEAR, "10.97.0.1", length);
    let bytes = Arc::new(AtomicU64::new(0));
    let (tell, told) = channel();
    let counter = Arc::clone(&bytes);
    thread::spawn(move || {
        // SAFETY: concerns this thread alone.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let far = device(FAR, SINK, FAR_LENGTH);
        let listener = TcpListener::bind((SINK, PORT)).unwrap();
        tell.send(far).unwrap();
        for flow in listener.incoming() {
            let (flow, counter) = (flow.unwrap(), Arc::clone(&counter));
            thread::spawn(move || discard(&flow, &counter));
        }
    });
    let far = told.recv().unwrap();
    let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    thread::spawn(move || relay(from, to));
    thread::spawn(move || relay(far, near));
    let (begin, ends) = (Arc::new(Barrier::new(FLOWS + 1)), Arc::new(AtomicBool::new(false)));
    let senders: Vec<_> = (0..FLOWS)
        .map(|_| {
            let (begin, ends) = (Arc::clone(&begin), Arc::clone(&ends));
            thread::spawn(move || send(&begin, &ends, warm_up))
        })
        .collect();
    begin.wait();
    thread::sleep(warm_up);
    let (before, dropped, begun) = (bytes.load(Ordering::Relaxed), dropped(), Instant::now());
    thread::sleep(measured);
    let seconds = begun.elapsed().as_secs_f64();
    let arrived = bytes.load(Ordering::Relaxed) - before;
    let lost = self::dropped() - dropped;
    ends.store(true, Ordering::Relaxed);
    let (mut samples, mut resent) = (Vec::new(), 0);
    for sender in senders {
        let (times, again) = sender.join().unwrap();
        samples.extend(times);
        resent += again;
    }
    json!({
        "mbps": arrived as f64 * 8.0 / 1e6 / seconds,
        "dropped": lost,
        "retransmissions": resent,
        "rtt_ms": percentiles::of(samples),
    })
}

/// Makes a TUN device in this thread's namespace that carries super-packets.
fn device(name: &str, address: &str, length: u32) -> File {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
    // SAFETY: all-zero is a valid `ifreq`; the calls read it, and an integer.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        assert_eq!(libc::ioctl(file.as_raw_fd(), TUNSETIFF, &request), 0);
        assert_eq!(libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, OFFLOADS), 0);
    }
    ip("link set lo up");
    ip(&format!("address add {address}/24 dev {name}"));
    // The qdisc, a pfifo_fast, has the device's length from when the device goes up.
    ip(&format!("link set {name} txqueuelen {length}"));
    ip(&format!("link set {name} up"));
    file
}

/// Carries packets from one device to the other, with what their headers leave to the device.
fn relay(mut from: File, mut to: File) {
    let mut packet = vec![0; LONGEST];
    while let Ok(length) = from.read(&mut packet) {
        // The other device refuses packets while it is down, and nothing else.
        let _ = to.write(&packet[..length]);
    }
}

fn discard(flow: &TcpStream, counter: &AtomicU64) {
    loop {
        // SAFETY: with MSG_TRUNC, TCP throws bytes away and touches no buffer (tcp(7)).
        let got =
            unsafe { libc::recv(flow.as_raw_fd(), std::ptr::null_mut(), 1 << 20, libc::MSG_TRUNC) };
        match u64::try_from(got) {
            Ok(got) if got > 0 => counter.fetch_add(got, Ordering::Relaxed),
            _ => return,
        };
    }
}

/// Sends until `ends`; returns the round trips after `warm_up`, and the segments sent again.
fn send(begin: &Barrier, ends: &AtomicBool, warm_up: Duration) -> (Vec<u64>, u64) {
    let flow = TcpStream::connect((SINK, PORT)).unwrap();
    flow.set_nonblocking(true).unwrap();
    sockopt::set(&flow, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps::FLAGS).unwrap();
    let (mut stamps, piece) = (Stamps::default(), vec![7; PIECE]);
    begin.wait();
    let (begun, mut before) = (Instant::now(), None);
    while !ends.load(Ordering::Relaxed) {
        if before.is_none() && begun.elapsed() >= warm_up {
            before = Some(retransmissions(std::slice::from_ref(&flow)));
            stamps.begin();
        }
        let mut polled = libc::pollfd { fd: flow.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&mut polled, 1, 100) };
        if polled.revents & libc::POLLERR != 0 {
            stamps.collect(polled.fd);
        }
        if polled.revents & libc::POLLOUT != 0 {
            stamps.send(polled.fd, &piece);
        }
    }
    let resent = retransmissions(std::slice::from_ref(&flow)) - before.unwrap_or_default();
    stamps.finish();
    (stamps.round_trips, resent)
}

/// Packets that the sender's device and its qdisc dropped: the 4th number of transmission in
/// `/proc/net/dev`, and the qdisc's own.
fn dropped() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(NEAR)?.strip_prefix(':'));
    let numbers: Vec<u64> =
        line.unwrap().split_whitespace().map(|word| word.parse().unwrap()).collect();
    numbers[11] + super::guest::queue_drops(NEAR).unwrap_or_else(|e: io::Error| panic!("{e}"))
}
