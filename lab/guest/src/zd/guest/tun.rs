//! A TUN device with a slow reader: the sender's packets wait in its qdisc and in its ring.
//!
//! ```text
//!   flows ── TCP ── pfifo_fast, ring of the TUN device ── a reader at a rate ── TUN device ── sink
//! ```

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use super::Failure;
use super::command::run;

/// The longest packet that a read returns: a virtio header and a super-packet.
const MAX_PACKET: usize = 10 + 65_535;
/// `TUNSETIFF` and `TUNSETOFFLOAD` (linux/if_tun.h), for which libc has no names.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
/// Checksums and segmentation of TCP over IPv4 and IPv6 are left to the reader
/// (`TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`).
const OFFLOADS: libc::c_ulong = 1 | 2 | 4;

/// Makes the device `name` in this thread's namespace, whose ring and qdisc hold `length` packets
/// each. It carries super-packets.
pub(super) fn device(name: &str, length: u32) -> Result<File, Failure> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all-zero is a valid `ifreq`; the calls read it, and an integer.
    let done = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        libc::ioctl(file.as_raw_fd(), TUNSETIFF, &request) == 0
            && libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, OFFLOADS) == 0
    };
    if !done {
        return Err(std::io::Error::last_os_error().into());
    }
    // The ring has the new length at once, the qdisc when the device goes up.
    run(&format!("ip link set {name} txqueuelen {length}"))?;
    Ok(file)
}

/// Carries packets from `from` to `to` for as long as the guest lives, with what their headers
/// leave to the device; at `rate` bit/s if it is given.
pub(super) fn carry(mut from: File, mut to: File, rate: Option<u64>) {
    thread::spawn(move || {
        let mut packet = vec![0; MAX_PACKET];
        let mut next = Instant::now();
        while let Ok(length) = from.read(&mut packet) {
            if let Some(rate) = rate {
                // It reads one packet at a time, and takes the next when this one has left.
                next = next.max(Instant::now());
                next += Duration::from_nanos(length as u64 * 8_000_000_000 / rate);
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            // The other device refuses packets while it is down, and nothing else.
            let _ = to.write(&packet[..length]);
        }
    });
}
