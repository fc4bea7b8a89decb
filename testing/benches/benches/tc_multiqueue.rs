//! What the tree costs on a device with several transmit queues, where it takes the place of `mq`:
//! its one lock is shared by all cores. `cargo bench -p forebay-benches --features live --bench
//! tc_multiqueue` as root.
//!
//! A thread on each core sends UDP to a TUN device that nobody reads, in a network namespace of its
//! own. The device has a queue for each thread, and discards what does not fit into its rings, so
//! the figures are an upper bound of what the path above the driver carries. A super-packet is 40
//! datagrams in one call, as GSO makes them (`UDP_SEGMENT`); the device takes it whole.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::fs::{self, File};
use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_tc::{
    BundleQueues, Device, Discipline, Features, FifoLimit, Foreign, Plan, Programs, Tree,
};

const DEVICE: &str = "wan";
/// Bytes of payload of a datagram.
const PAYLOAD: usize = 1_400;
/// Datagrams of a super-packet.
const SEGMENTS: usize = 40;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(500);

fn main() {
    // SAFETY: takes a flag, and changes the namespace of this thread alone, before there are
    // others.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        eprintln!("skipped: a network namespace needs root");
        return;
    }
    let cores = thread::available_parallelism().unwrap().get();
    let mut queues: Vec<File> = (0..cores).map(|_| tun_queue()).collect();
    command("ip", &format!("address add 10.9.0.1/24 dev {DEVICE}"));
    command("ip", &format!("link set {DEVICE} up"));
    let sockets: Vec<UdpSocket> = (0..cores).map(|queue| socket_of(&mut queues, queue)).collect();
    println!("datagrams in a call  root  threads  million datagrams a second (median, min, max)");
    for segments in [1, SEGMENTS] {
        for root in ["mq", "tree"] {
            for threads in [1, cores] {
                let mut rates: Vec<f64> = (0..ROUNDS)
                    .map(|_| {
                        let tree = set_up(root);
                        let rate = send(&sockets[..threads], segments);
                        if let Some(tree) = tree {
                            tree.remove().unwrap();
                        }
                        rate / 1e6
                    })
                    .collect();
                rates.sort_by(f64::total_cmp);
                let (median, least, most) = (rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
                println!(
                    "{segments:19}  {root:4}  {threads:7}  {median:.3}, {least:.3}, {most:.3}"
                );
            }
        }
    }
}

/// Gives the device `mq` with the kernel's queues, or a sendbox's tree with a bundle without a
/// limit.
fn set_up(root: &str) -> Option<Tree> {
    if root == "mq" {
        command("tc", &format!("qdisc replace dev {DEVICE} root handle 1: mq"));
        return None;
    }
    let limit = FifoLimit::Packets(1_000);
    let bundle = BundleQueues {
        number: 0,
        name: "b".to_owned(),
        classes: vec![Discipline::Fifo { limit }],
        shares: Vec::new(),
        share: forebay_tc::Share::default(),
    };
    let plan = Plan::new(&[bundle], &Features::probe().unwrap()).unwrap();
    let program = first_bundle();
    let programs = Programs { bundles: program.as_fd() };
    let device = Device::find(DEVICE).unwrap();
    Some(Tree::install(device, plan, &programs, Foreign::Replace).unwrap().0)
}

/// Sends by each socket from a core of its own for one round; returns datagrams per second that the
/// device got.
fn send(sockets: &[UdpSocket], segments: usize) -> f64 {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (core, socket) in sockets.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                pin(core);
                let payload = vec![0; PAYLOAD * segments];
                while !stop.load(Ordering::Relaxed) {
                    // A full queue of the tree is an error, and the device does not count it.
                    let _ = socket.send(&payload);
                }
            });
        }
        thread::sleep(ROUND / 10);
        let (start, before) = (Instant::now(), packets());
        thread::sleep(ROUND);
        let (elapsed, sent) = (start.elapsed(), packets() - before);
        stop.store(true, Ordering::Relaxed);
        (sent * segments as u64) as f64 / elapsed.as_secs_f64()
    })
}

/// Packets that the device has taken or discarded. A super-packet counts once.
fn packets() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find_map(|l| l.trim().strip_prefix("wan:")).unwrap();
    let counters: Vec<u64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
    // After eight counters of receiving: bytes, packets, errors, drops.
    counters[9] + counters[11]
}

/// Opens a queue of the device, which takes super-packets of UDP.
fn tun_queue() -> File {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
    /// Checksums, and super-packets of UDP over both IP versions (Linux 6.2).
    const OFFLOADS: libc::c_ulong = 0x01 | 0x20 | 0x40;
    let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    let mut request = [0u8; 40];
    request[..DEVICE.len()].copy_from_slice(DEVICE.as_bytes());
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE | libc::IFF_VNET_HDR;
    request[16..18].copy_from_slice(&(flags as u16).to_ne_bytes());
    // SAFETY: the request is an `ifreq`, which has 40 bytes; the other calls take integers.
    unsafe {
        let fd = file.as_raw_fd();
        assert_eq!(libc::ioctl(fd, TUNSETIFF, request.as_mut_ptr()), 0);
        assert_eq!(libc::ioctl(fd, TUNSETOFFLOAD, OFFLOADS), 0, "Linux 6.2");
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
    }
    file
}

/// Returns a socket whose packets the device puts into this queue, by its hash of flows.
fn socket_of(queues: &mut [File], queue: usize) -> UdpSocket {
    loop {
        for file in queues.iter_mut() {
            while file.read(&mut [0; 2_000]).is_ok() {}
        }
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        socket.connect(("10.9.0.2", 9)).unwrap();
        socket.send(&[0x5a; 77]).unwrap();
        let mut packet = [0; 2_000];
        // A header for offloads of 10 bytes, IPv4 and UDP. The kernel's own packets differ.
        while let Ok(len) = queues[queue].read(&mut packet) {
            if len == 10 + 28 + 77 {
                set_segments(&socket);
                return socket;
            }
        }
    }
}

/// Makes a longer payload several datagrams.
fn set_segments(socket: &UdpSocket) {
    const UDP_SEGMENT: i32 = 103;
    let size = PAYLOAD as i32;
    // SAFETY: the value is an int that lives through the call.
    let rc = unsafe {
        let value = (&raw const size).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, value, 4)
    };
    assert_eq!(rc, 0);
}

/// Keeps this thread on one core.
fn pin(core: usize) {
    // SAFETY: all-zero is an empty set; the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// A classifier that puts every packet into the class of the first bundle.
fn first_bundle() -> OwnedFd {
    // tc_classid = 1; return TC_ACT_OK.
    let code = [0x0162u64 | 72 << 16 | 1 << 32, 0xb7, 0x95];
    #[repr(C)]
    struct Attributes(u32, u32, u64, u64, [u64; 6]);
    let license = c"Apache-2.0".as_ptr() as u64;
    let attributes = Attributes(3, code.len() as u32, code.as_ptr() as u64, license, [0; 6]);
    // SAFETY: the start of the kernel's `union bpf_attr`, whose pointers live through the call.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, 5, &raw const attributes, size_of::<Attributes>());
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd as i32)
    }
}

fn command(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {arguments}");
}
