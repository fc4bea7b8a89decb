//! Two namespaces with a veth between them, and what the tests run in them.

use std::net::UdpSocket;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_tc::{
    BundleQueues, CakeDiffserv, CakeFlows, Device, Discipline, Features, FifoLimit, Foreign, Found,
    Object, Plan, Programs, Step, Tree, steps,
};
use forebay_units::{Bytes, Nanos};

use crate::namespace::{Namespace, run, within};

/// The device that the tree is on; its other end is in the other namespace.
pub const WAN: &str = "wan";

/// HTB's priorities, and so the maximum number of classes of a bundle.
const MAX_CLASSES: usize = 8;

/// A network of 10.9.0.0/24: `wan` has .1, and the far end .2 to .9.
#[derive(Debug)]
pub struct Network {
    near: Namespace,
    far: Namespace,
}

impl Network {
    /// Makes the network, whose devices have one queue.
    #[allow(clippy::new_without_default, reason = "it makes devices")]
    pub fn new() -> Self {
        Self::with_queues(1)
    }

    /// The same, where both ends have `queues` queues in each direction.
    pub fn with_queues(queues: u32) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let [near, far] = ["a", "b"].map(|end| Namespace::new(format!("fb-tc-{id}-{end}")));
        let network = Self { near, far };
        let (near, far) = (&network.near.0, &network.far.0);
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
    pub fn within<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        within(&self.near.0, f)
    }

    /// A socket at the far end.
    pub fn far_socket(&self, address: &str) -> UdpSocket {
        within(&self.far.0, || UdpSocket::bind(address).unwrap())
    }

    /// What `tc` says of `wan`.
    pub fn tc(&self, arguments: &str) -> String {
        run(&format!("tc -n {} {arguments}", self.near.0))
    }

    /// What `ip` says in the namespace of `wan`.
    pub fn ip(&self, arguments: &str) -> String {
        run(&format!("ip -n {} {arguments}", self.near.0))
    }
}

/// A classifier of the tests: the last byte of the destination, less one, is the class.
#[derive(Debug)]
pub struct ByAddress(OwnedFd);

impl ByAddress {
    /// Loads the program.
    pub fn load() -> Self {
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

    /// The programs of a tree.
    pub fn programs(&self) -> Programs<'_> {
        Programs { bundles: self.0.as_fd() }
    }
}

/// A FIFO with a limit in packets.
pub const fn fifo(packets: u32) -> Discipline {
    Discipline::Fifo { limit: FifoLimit::Packets(packets) }
}

/// The plan of `bundles` on this machine's kernel.
pub fn plan(bundles: &[&[Discipline]]) -> Plan {
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
pub fn install(bundles: &[&[Discipline]]) -> Tree {
    let program = ByAddress::load();
    let device = Device::find(WAN).unwrap();
    Tree::install(device, plan(bundles), &program.programs(), Foreign::Refuse).unwrap().0
}

/// Makes each discipline that the running kernel has, alone and as a class, and finds it on the
/// device with the settings that it was made with. Returns the disciplines' names.
///
/// # Panics
/// If what is found differs from what was planned.
pub fn made_and_found() -> Vec<&'static str> {
    let (limit, ms) = (300, |n| Some(Nanos::from_millis(n)));
    let us = |n| Some(Nanos::from_micros(n));
    let all = [
        fifo(limit),
        Discipline::Fifo { limit: FifoLimit::Bytes(Bytes(30_000)) },
        Discipline::Sfq { limit, perturb: ms(10_000) },
        Discipline::FqCodel { limit, target: ms(5), interval: ms(100), ecn: true },
        Discipline::Pie { limit, target: ms(15), ecn: true },
        // A time that is no multiple of what the kernel counts in.
        Discipline::Pie { limit, target: us(15_001), ecn: true },
        Discipline::FqPie { limit: Some(limit), target: ms(15), ecn: false },
        Discipline::FqPie { limit: None, target: us(1), ecn: true },
        Discipline::Cake { memory: None, rtt: None, flows: None, diffserv: None },
        Discipline::Cake {
            memory: Some(Bytes(1 << 20)),
            rtt: ms(50),
            flows: Some(CakeFlows::DualDsthost),
            diffserv: Some(CakeDiffserv::Besteffort),
        },
        Discipline::DualPi2 { limit: None, target: None },
        Discipline::DualPi2 { limit: Some(limit), target: ms(15) },
    ];
    let network = Network::new();
    network.within(|| {
        let has: Vec<&str> = Features::probe().unwrap().kinds().collect();
        let all: Vec<Discipline> = all.into_iter().filter(|d| has.contains(&d.kind())).collect();
        let alone = all.iter().map(std::slice::from_ref);
        let bundles: Vec<&[Discipline]> = alone.chain(all.chunks(MAX_CLASSES)).collect();
        drop(install(&bundles));
        let found = Found::of(&Device::find(WAN).unwrap()).unwrap();
        let mut left = steps(&found, &plan(&bundles));
        left.retain(|step| !matches!(step, Step::Make(Object::Filter(_))));
        assert_eq!(left, [], "{}", network.tc("qdisc show dev wan"));
        // Adopted, which compares the queues as well.
        install(&bundles).remove().unwrap();
        has
    })
}
