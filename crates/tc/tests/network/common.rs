//! Two namespaces with a veth between them, and what the tests run in them.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_tc::{
    BundleQueues, Device, Discipline, Features, FifoLimit, Foreign, Plan, Programs, Tree,
};
pub(crate) use forebay_test_support::has_root;

/// The device that the tree is on; its other end is in the other namespace.
pub(crate) const WAN: &str = "wan";

pub(crate) fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let out = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(out.status.success(), "{command}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A network of 10.9.0.0/24: `wan` has .1, and the far end .2 to .9.
pub(crate) struct Network {
    near: String,
    far: String,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self::with_queues(1)
    }

    /// The same, where both ends have `queues` queues in each direction.
    pub(crate) fn with_queues(queues: u32) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (near, far) = (format!("fb-tc-{id}-a"), format!("fb-tc-{id}-b"));
        let network = Self { near, far };
        let (near, far) = (&network.near, &network.far);
        run(&format!("ip netns add {near}"));
        run(&format!("ip netns add {far}"));
        let queues = format!("numtxqueues {queues} numrxqueues {queues}");
        run(&format!(
            "ip -n {near} link add {WAN} {queues} type veth peer name far {queues} netns {far}"
        ));
        run(&format!("ip -n {near} address add 10.9.0.1/24 dev {WAN}"));
        for host in 2..10 {
            run(&format!("ip -n {far} address add 10.9.0.{host}/24 dev far"));
        }
        run(&format!("ip -n {near} link set {WAN} up"));
        run(&format!("ip -n {far} link set far up"));
        network
    }

    /// Runs `f` on a thread in the namespace of `wan`; what it starts is there too.
    pub(crate) fn within<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        enter(&self.near, f)
    }

    /// A socket at the far end.
    pub(crate) fn far_socket(&self, address: &str) -> UdpSocket {
        enter(&self.far, || UdpSocket::bind(address).unwrap())
    }

    /// What `tc` says of `wan`.
    pub(crate) fn tc(&self, arguments: &str) -> String {
        run(&format!("tc -n {} {arguments}", self.near))
    }

    pub(crate) fn ip(&self, arguments: &str) -> String {
        run(&format!("ip -n {} {arguments}", self.near))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn enter<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{name}")).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: moves this thread alone, which ends after `f`.
            assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            f()
        });
        thread.join().unwrap()
    })
}

/// A classifier of the tests: the last byte of the destination, less one, is the class.
pub(crate) struct ByAddress(OwnedFd);

impl ByAddress {
    pub(crate) fn load() -> Self {
        // r6 = r1; r0 = byte 33 of the frame; r0 -= 1; tc_classid = r0; return TC_ACT_OK.
        let code: [u64; 6] =
            [0x16bf, 0x30 | 33 << 32, 0x07 | 0xffff_ffff << 32, 0x0663 | 72 << 16, 0xb7, 0x95];
        #[repr(C)]
        struct Attributes(u32, u32, u64, u64, [u64; 6]);
        let license = c"Apache-2.0".as_ptr() as u64;
        let attributes = Attributes(3, code.len() as u32, code.as_ptr() as u64, license, [0; 6]);
        // SAFETY: the start of the kernel's `union bpf_attr`, whose pointers live through the call.
        unsafe {
            let (at, length) = (&raw const attributes, size_of::<Attributes>());
            let fd = libc::syscall(libc::SYS_bpf, 5, at, length);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            Self(OwnedFd::from_raw_fd(fd as i32))
        }
    }

    pub(crate) fn programs(&self) -> Programs<'_> {
        Programs { bundles: self.0.as_fd() }
    }
}

pub(crate) const fn fifo(packets: u32) -> Discipline {
    Discipline::Fifo { limit: FifoLimit::Packets(packets) }
}

/// The plan of `bundles` on this machine's kernel.
pub(crate) fn plan(bundles: &[&[Discipline]]) -> Plan {
    let bundles: Vec<BundleQueues> = bundles
        .iter()
        .enumerate()
        .map(|(number, classes)| BundleQueues {
            shares: Vec::new(),
            share: forebay_tc::Share::default(),
            number,
            name: format!("b{number}"),
            classes: classes.to_vec(),
        })
        .collect();
    Plan::new(&bundles, &Features::probe().unwrap()).unwrap()
}

/// Installs the tree of `bundles` on `wan`.
pub(crate) fn install(bundles: &[&[Discipline]]) -> Tree {
    let program = ByAddress::load();
    let device = Device::find(WAN).unwrap();
    Tree::install(device, plan(bundles), &program.programs(), Foreign::Refuse).unwrap().0
}
