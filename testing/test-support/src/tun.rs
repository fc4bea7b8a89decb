//! Tunnels of a test's own: TUN devices, between which threads of the test carry packets.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::namespace::{Namespace, run, within};

/// The header before each packet of a device with super-packets (`struct virtio_net_hdr`).
const VIRTIO_HEADER: usize = 10;
/// The longest packet: a super-packet with its header.
const MAX_PACKET: usize = VIRTIO_HEADER + 65_535;
/// The offloads of a device with super-packets: checksums, and segmentation of TCP and UDP in both
/// IP versions (linux/if_tun.h).
const OFFLOADS: libc::c_ulong = 0x01 | 0x02 | 0x04 | 0x20 | 0x40;
/// The request that sets the hardware type of a device (linux/if_tun.h).
const TUNSETLINK: libc::Ioctl = 0x4004_54cd;

/// A TUN device, which goes with this value. Its packets have no Ethernet header.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Makes the device `name` in a namespace, and brings it up. A device with super-packets gives
    /// and takes a header before each packet.
    pub fn new(namespace: &Namespace, name: &'static str, super_packets: bool) -> Self {
        let file = within(&namespace.0, move || open(name, super_packets, None));
        run(&format!("ip -n {} link set {name} up", namespace.0));
        Self(file)
    }

    /// Makes a device of another hardware type (`ARPHRD_…`), which stays down.
    pub fn of_type(namespace: &Namespace, name: &'static str, hardware: u16) -> Self {
        Self(within(&namespace.0, move || open(name, false, Some(hardware))))
    }

    /// Returns another descriptor of the device.
    pub fn other(&self) -> Self {
        Self(self.0.try_clone().unwrap())
    }

    /// Gives a packet to the device, as if it had arrived there. The device may be down.
    pub fn arrive(&self, packet: &[u8]) {
        let _ = (&self.0).write(packet);
    }
}

fn open(name: &str, super_packets: bool, hardware: Option<u16>) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options.open("/dev/net/tun").unwrap();
    // SAFETY: all-zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let header = if super_packets { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | header) as libc::c_short;
    let fd = file.as_raw_fd();
    // SAFETY: each request gets the argument that linux/if_tun.h documents: an `ifreq` that lives
    // through the call, or a number.
    unsafe {
        assert_eq!(libc::ioctl(fd, libc::TUNSETIFF, &mut request), 0);
        if super_packets {
            assert_eq!(libc::ioctl(fd, libc::TUNSETOFFLOAD, OFFLOADS), 0);
        }
        if let Some(hardware) = hardware {
            assert_eq!(libc::ioctl(fd, TUNSETLINK, libc::c_ulong::from(hardware)), 0);
        }
    }
    file
}

/// Threads that carry packets until this value is dropped.
#[derive(Debug, Default)]
pub struct Carrier {
    enough: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Carrier {
    /// Gives each packet that leaves by `from` to `deliver`.
    pub fn carry(&mut self, from: &Tun, mut deliver: impl FnMut(&[u8]) + Send + 'static) {
        let (from, enough) = (from.other(), Arc::clone(&self.enough));
        self.threads.push(std::thread::spawn(move || {
            let mut buffer = vec![0; MAX_PACKET];
            while !enough.load(Ordering::Relaxed) {
                match (&from.0).read(&mut buffer) {
                    Ok(len) => deliver(&buffer[..len]),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => wait(&from.0),
                    Err(e) => panic!("{e}"),
                }
            }
        }));
    }

    /// Gives each datagram of the socket to the device, without the socket's headers.
    pub fn unpack(&mut self, from: UdpSocket, to: &Tun) {
        let (to, enough) = (to.other(), Arc::clone(&self.enough));
        from.set_nonblocking(true).unwrap();
        self.threads.push(std::thread::spawn(move || {
            let mut buffer = vec![0; MAX_PACKET];
            while !enough.load(Ordering::Relaxed) {
                match from.recv(&mut buffer) {
                    Ok(len) => to.arrive(&buffer[..len]),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => wait(&from),
                    // The other end is not there yet, or no longer.
                    Err(_) => {}
                }
            }
        }));
    }

    /// Joins two devices.
    pub fn join(&mut self, one: &Tun, other: &Tun) {
        for (from, to) in [(one, other), (other, one)] {
            let to = to.other();
            self.carry(from, move |packet| to.arrive(packet));
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "packets were carried to the end");
        }
    }
}

/// Waits until there is something to read, or for a moment.
fn wait(file: &impl AsRawFd) {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which lives through the call.
    unsafe { libc::poll(&raw mut poll, 1, 50) };
}
