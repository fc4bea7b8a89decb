//! A box between two hosts: three namespaces, and a forwarder in the middle one, which is this test
//! binary run again as a process of its own, so that it can die.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use forebay_dataplane::{Method, Netdev, PortStats};
use forebay_test_support::namespace::{Namespace, run, within};

use crate::TIMEOUT;

/// Bytes for a frame that a host receives, more than any that is sent.
const MAX_FRAME: usize = 16_384;

/// The addresses of both hosts, IPv4 and IPv6.
const HOSTS: [[&str; 2]; 2] = [["10.9.4.1", "fd09:4::1"], ["10.9.4.2", "fd09:4::2"]];

/// A raw socket on a host's interface.
pub(crate) struct Host(OwnedFd);

impl Host {
    fn new(namespace: &str, interface: &'static str) -> Self {
        within(namespace, move || {
            let index = Netdev::find(interface).unwrap().index as i32;
            // SAFETY: a plain socket, bound to an address built here; ownership goes to `Host`.
            unsafe {
                let all = (libc::ETH_P_ALL as u16).to_be();
                let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
                assert!(fd >= 0);
                let mut address: libc::sockaddr_ll = std::mem::zeroed();
                address.sll_family = libc::AF_PACKET as u16;
                address.sll_protocol = all;
                address.sll_ifindex = index;
                let len = size_of::<libc::sockaddr_ll>() as u32;
                assert_eq!(libc::bind(fd, (&raw const address).cast(), len), 0);
                let one = 1i32;
                let (level, name) = (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING);
                libc::setsockopt(fd, level, name, (&raw const one).cast(), 4);
                libc::setsockopt(fd, level, libc::PACKET_AUXDATA, (&raw const one).cast(), 4);
                let room = 4i32 << 20;
                let force = libc::SO_RCVBUFFORCE;
                libc::setsockopt(fd, libc::SOL_SOCKET, force, (&raw const room).cast(), 4);
                let patience = libc::timeval { tv_sec: TIMEOUT.as_secs() as i64, tv_usec: 0 };
                let len = size_of::<libc::timeval>() as u32;
                let option = libc::SO_RCVTIMEO;
                libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const patience).cast(), len);
                Self(OwnedFd::from_raw_fd(fd))
            }
        })
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        // SAFETY: `frame` is valid for reading its length.
        let n = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(n, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }

    /// Whether a frame from this address has arrived. All frames so far are used up.
    fn saw(&self, from: [u8; 6]) -> bool {
        let (mut buf, mut seen) = ([0u8; MAX_FRAME], false);
        // SAFETY: the buffer is valid for writing its length.
        while let n @ 1.. = unsafe {
            let (at, len) = (buf.as_mut_ptr().cast(), buf.len());
            libc::recv(self.0.as_raw_fd(), at, len, libc::MSG_DONTWAIT)
        } {
            seen |= n >= 12 && buf[6..12] == from;
        }
        seen
    }

    /// The next frame of the test (the kernel's own chatter is passed over), with the VLAN tag that
    /// the kernel took out put back, since that is what was on the wire.
    pub(crate) fn receive_from(&self, from: [u8; 6], expected: &[u8]) -> Vec<u8> {
        loop {
            let (mut buf, mut control) = ([0u8; MAX_FRAME], [0u64; 8]);
            let mut iov = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
            // SAFETY: all-zero is a valid `msghdr`; its buffers live through the call.
            let (n, tag) = unsafe {
                let mut header: libc::msghdr = std::mem::zeroed();
                header.msg_iov = &mut iov;
                header.msg_iovlen = 1;
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = 64;
                let n = libc::recvmsg(self.0.as_raw_fd(), &mut header, 0);
                assert!(n > 0, "nothing arrived; expected {:02x?}...", &expected[..20]);
                let c = libc::CMSG_FIRSTHDR(&header);
                let aux = libc::CMSG_DATA(c).cast::<libc::tpacket_auxdata>().read_unaligned();
                let tagged = aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
                (n as usize, tagged.then_some((aux.tp_vlan_tpid, aux.tp_vlan_tci)))
            };
            if buf[6..12] != from {
                continue;
            }
            let mut frame = buf[..n].to_vec();
            if let Some((tpid, tci)) = tag {
                let tag = [tpid.to_be_bytes(), tci.to_be_bytes()].concat();
                frame.splice(12..12, tag);
            }
            return frame;
        }
    }
}

/// Two hosts and the box between them.
pub(crate) struct Pair {
    pub(crate) left: Host,
    pub(crate) right: Host,
    method: Method,
    forwarder: Option<Child>,
    middle: Namespace,
    ends: [Namespace; 2],
}

impl Pair {
    pub(crate) fn new(method: Method) -> Self {
        Self::over(method, 1500, 1)
    }

    /// The same over interfaces with this MTU and number of queues in each direction.
    pub(crate) fn over(method: Method, mtu: u32, queues: u32) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let [l, m, r] = ["l", "m", "r"].map(|n| Namespace::new(format!("fb-dp{id}-{n}")));
        for (end, port) in [(&l, "fbl"), (&r, "fbr")] {
            let (end, m) = (&end.0, &m.0);
            let kind = format!("mtu {mtu} numtxqueues {queues} numrxqueues {queues}");
            run(&format!(
                "ip -n {m} link add {port} {kind} type veth peer name eth0 {kind} netns {end}"
            ));
            for (namespace, device) in [(end, "eth0"), (m, port)] {
                run(&format!(
                    "ip netns exec {namespace} sysctl -qw net.ipv6.conf.{device}.disable_ipv6=1"
                ));
            }
            // GRO makes the far end of a veth receive what XDP sends to it (its driver's
            // condition). A port over AF_PACKET cannot send what GRO has merged.
            run(&format!("ip netns exec {end} ethtool -K eth0 gro on"));
            run(&format!("ip netns exec {m} ethtool -K {port} gro off"));
            for (namespace, device) in [(end, "eth0"), (m, port)] {
                run(&format!("ip -n {namespace} link set {device} up"));
            }
        }
        let (left, right) = (Host::new(&l.0, "eth0"), Host::new(&r.0, "eth0"));
        let mut pair = Self { left, right, method, forwarder: None, middle: m, ends: [l, r] };
        pair.forwarder = Some(pair.spawn());
        pair
    }

    fn spawn(&self) -> Child {
        let exe = std::env::current_exe().unwrap();
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.middle.0])
            .arg(exe)
            .args(["--exact", "pair::forwarder", "--nocapture"])
            .env("FB_FORWARDER", format!("{:?}", self.method))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|l| l.unwrap().contains("ready")), "the forwarder did not start");
        child
    }

    /// Gives the hosts addresses of both IP versions, those of [`HOSTS`].
    pub(crate) fn give_addresses(&self) {
        for (end, [v4, v6]) in self.ends.iter().zip(HOSTS) {
            let end = &end.0;
            let sysctl = "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0";
            run(&format!("ip netns exec {end} {sysctl}"));
            run(&format!("ip -n {end} address add {v4}/24 dev eth0"));
            run(&format!("ip -n {end} address add {v6}/64 dev eth0 nodad"));
            // A port takes frames and no super-packets.
            run(&format!("ip netns exec {end} ethtool -K eth0 tso off gso off"));
            run(&format!("ip netns exec {end} ethtool -K eth0 tx off"));
        }
    }

    /// Sends `len` bytes by TCP from host `from` to the other one.
    pub(crate) fn transfer(&self, from: usize, version: usize, len: usize) {
        let to: IpAddr = HOSTS[1 - from][version].parse().unwrap();
        let listener = within(&self.ends[1 - from].0, move || TcpListener::bind((to, 0)).unwrap());
        let address = listener.local_addr().unwrap();
        let sent: Vec<u8> = (0..len).map(|i| ((i * 31) >> 4) as u8).collect();
        let copy = sent.clone();
        let writer = within(&self.ends[from].0, move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_write_timeout(Some(TIMEOUT)).unwrap();
            std::thread::spawn(move || stream.write_all(&copy).unwrap())
        });
        let mut received = Vec::new();
        let mut reader = listener.accept().unwrap().0;
        reader.set_read_timeout(Some(TIMEOUT)).unwrap();
        reader.read_to_end(&mut received).unwrap();
        writer.join().unwrap();
        assert!(received == sent, "it is what was sent");
    }

    /// Packets that the driver of host `index` has sent.
    pub(crate) fn sent(&self, index: usize) -> u64 {
        let text = run(&format!("ip netns exec {} cat /proc/net/dev", self.ends[index].0));
        let line = text.lines().find_map(|l| l.trim().strip_prefix("eth0:")).unwrap();
        // After eight counters of receiving: bytes, packets.
        line.split_whitespace().nth(9).unwrap().parse().unwrap()
    }

    /// Ends the forwarder in an orderly way; what its ports counted.
    pub(crate) fn stop(mut self) -> [PortStats; 2] {
        self.end()
    }

    fn end(&mut self) -> [PortStats; 2] {
        let mut child = self.forwarder.take().unwrap();
        drop(child.stdin.take());
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let line =
            text.lines().find_map(|l| l.split("stats ").nth(1)).unwrap_or_else(|| panic!("{text}"));
        let mut numbers = line.split(' ').map(|n| n.parse().unwrap());
        [(); 2].map(|()| PortStats {
            received: numbers.next().unwrap(),
            sent: numbers.next().unwrap(),
            receive_lost: numbers.next().unwrap(),
            send_lost: numbers.next().unwrap(),
        })
    }

    /// Ends the forwarder in an orderly way.
    pub(crate) fn end_in_order(mut self) -> Self {
        self.end();
        self
    }

    /// Removes the program from each port; returns whether there was one.
    pub(crate) fn remove_programs(&self) -> [bool; 2] {
        within(&self.middle.0, || {
            ["fbl", "fbr"].map(|port| {
                forebay_dataplane::remove_program(&Netdev::find(port).unwrap()).unwrap()
            })
        })
    }

    pub(crate) fn link(&self) -> String {
        run(&format!("ip -n {} link show fbl", self.middle.0))
    }

    /// Whether a program of a box is on the left port, and makes it promiscuous.
    pub(crate) fn has_program(&self) -> bool {
        let link = self.link();
        let filters = run(&format!("tc -n {} filter show dev fbl ingress", self.middle.0));
        let has_program = link.contains("xdp") || filters.contains("fb_bypass");
        assert_eq!(link.contains("PROMISC"), has_program, "{link}");
        has_program
    }

    /// Makes the left port promiscuous, as an administrator does.
    pub(crate) fn make_promiscuous(&self) {
        run(&format!("ip -n {} link set fbl promisc on", self.middle.0));
    }

    /// Waits until frames pass from the left to the right.
    pub(crate) fn wait_until_frames_pass(&self) {
        // Frames of an earlier call may still arrive.
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let from = [2, 0, 0, 0, 1, CALLS.fetch_add(1, Ordering::Relaxed) as u8];
        let mut frame = [0xff; 60];
        frame[6..12].copy_from_slice(&from);
        let start = Instant::now();
        while !self.right.saw(from) {
            assert!(start.elapsed() < TIMEOUT, "no frame passes");
            self.left.send(&frame);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes the forwarder hang.
    pub(crate) fn hang(&self) {
        self.signal(libc::SIGSTOP);
        let threads = format!("/proc/{}/task", self.forwarder.as_ref().unwrap().id());
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
            text.rsplit(") ").next().unwrap().starts_with('T')
        };
        let start = Instant::now();
        while !std::fs::read_dir(&threads).unwrap().all(is_stopped) {
            assert!(start.elapsed() < TIMEOUT, "the forwarder does not stop");
            std::thread::yield_now();
        }
    }

    /// Lets the forwarder go on after [`Pair::hang`].
    pub(crate) fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) {
        let forwarder = self.forwarder.as_ref().unwrap();
        // SAFETY: takes integers; the process is this test's child, not yet waited for.
        assert_eq!(unsafe { libc::kill(forwarder.id() as i32, signal) }, 0);
    }

    /// Kills the forwarder without a chance to clean up.
    pub(crate) fn die(mut self) -> Self {
        let mut child = self.forwarder.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        self
    }

    pub(crate) fn restart(mut self, method: Method) -> Self {
        self.method = method;
        self.forwarder = Some(self.spawn());
        self
    }

    /// Tries to open the interface while a receivebox is on it, in one way after the other.
    pub(crate) fn open_beside_a_receivebox(
        &self,
        methods: [Method; 2],
    ) -> [Result<(), forebay_dataplane::Error>; 2] {
        within(&self.middle.0.clone(), move || {
            let netdev = Netdev::find("fbl").unwrap();
            let _receivebox = forebay_dataplane::Sampler::attach(&netdev, &[]).unwrap();
            methods.map(|method| open(&netdev, method))
        })
    }

    /// Tries to open the same interface again, from another process's point of view.
    pub(crate) fn open_second(&self, method: Method) -> Result<(), forebay_dataplane::Error> {
        within(&self.middle.0.clone(), move || open(&Netdev::find("fbl")?, method))
    }
}

fn open(netdev: &Netdev, method: Method) -> Result<(), forebay_dataplane::Error> {
    let mut pool = forebay_dataplane::Pool::new(16, netdev.mtu)?;
    forebay_dataplane::open_ports(std::slice::from_ref(netdev), method, &mut pool).map(|_| ())
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(child) = &mut self.forwarder {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The process in the middle; as a test of its own it has nothing to do.
#[test]
fn forwarder() {
    use std::collections::VecDeque;

    use forebay_dataplane::{Pool, open_wire};
    use forebay_system::clock;
    use forebay_system::wait::Waiter;
    use forebay_units::Nanos;

    let Ok(method) = std::env::var("FB_FORWARDER") else { return };
    let method = match method.as_str() {
        "Packet" => Method::Packet,
        "Xdp" => Method::Xdp,
        _ => Method::Auto,
    };
    let devices = ["fbl", "fbr"].map(|n| Netdev::find(n).unwrap());
    let mut pool = Pool::new(16384, devices[0].mtu).unwrap();
    let mut ports = open_wire(&devices, method, &mut pool).unwrap();
    ports.iter_mut().for_each(|port| port.report_alive(clock::now()));
    println!("ready {}", ports[0].describe());
    std::io::stdout().flush().unwrap();
    let mut fds = vec![0];
    fds.extend(ports.iter().flat_map(|p| p.descriptors()));
    let mut waiter = Waiter::new(fds);
    let mut batch = Vec::new();
    let mut out = [VecDeque::new(), VecDeque::new()];
    loop {
        ports.iter_mut().for_each(|port| port.report_alive(clock::now()));
        waiter.wait_until(clock::now() + Nanos::from_millis(100));
        for i in 0..2 {
            ports[i].receive(&mut pool, &mut batch, 256);
            out[1 - i].extend(batch.drain(..));
            ports[1 - i].send(&mut pool, &mut out[1 - i]);
        }
        if waiter.is_ready(0) {
            break;
        }
    }
    print!("stats");
    for p in &mut ports {
        let s = p.stats();
        print!(" {} {} {} {}", s.received, s.sent, s.receive_lost, s.send_lost);
    }
    println!();
}
