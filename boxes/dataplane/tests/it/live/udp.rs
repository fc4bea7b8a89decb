//! The sender of many UDP flows, between two namespaces.

use std::collections::HashMap;
use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use forebay_dataplane::udp::{Segments, Source, UdpSender, UdpStats};
use forebay_queue::egress::{Ask, Config, FlowId, Hint, Next, Policy, Settings};
use forebay_system::clock;
use forebay_test_support::has_root;
use forebay_test_support::namespace::{Namespace, run, within};
use forebay_units::{Bytes, Nanos, Rate};

use crate::{TIMEOUT, cpus};

const FLOWS: u32 = 300;
const PACKETS: u32 = 40;
const PORTS: [u16; 3] = [7001, 7002, 7003];
/// Packets that may be on their way before more are sent. The kernel's queue between the namespaces
/// (`netdev_max_backlog`) holds 1000, and a poll sends at most 8 flows of 40 packets.
const WINDOW: u64 = 500;

/// The length of a packet of a flow: all alike, but for the last one.
fn length(flow: u32, number: u32) -> usize {
    let length = 100 + 4 * flow as usize;
    if number + 1 == PACKETS { length / 2 } else { length }
}

/// The content of a packet after its flow and number.
fn filler(flow: u32, number: u32) -> u8 {
    (flow * 7 + number) as u8
}

/// Two connected namespaces.
struct Pair {
    near: Namespace,
    far: Namespace,
}

impl Pair {
    fn new(name: &str) -> Self {
        let id = std::process::id();
        let [near, far] = ["a", "b"].map(|end| Namespace::new(format!("fb-{name}{id}-{end}")));
        let link = |end: u8| format!("eth0 address 02:00:00:00:00:0{end}");
        let (one, two) = (link(1), link(2));
        run(&format!("ip -n {} link add {one} type veth peer name {two} netns {}", near.0, far.0));
        for (namespace, end, other) in [(&near, 1, 2), (&far, 2, 1)] {
            let place = &namespace.0;
            // The kernel's own packets, of ARP and IPv6, may leave by another CPU, and with them
            // those of the test that wait in the same qdisc.
            run(&format!("ip netns exec {place} sysctl -qw net.ipv6.conf.all.disable_ipv6=1"));
            run(&format!("ip -n {place} address add 10.9.1.{end}/24 dev eth0"));
            run(&format!("ip -n {place} link set eth0 up"));
            run(&format!(
                "ip -n {place} neighbour replace 10.9.1.{other} dev eth0 nud permanent lladdr \
                 02:00:00:00:00:0{other}"
            ));
        }
        Self { near, far }
    }
}

/// The flows' packets, by the flow's number.
struct Packets {
    sent: Vec<u32>,
}

impl Source for Packets {
    fn fill(&mut self, ask: &Ask<'_>, segments: &mut Segments<'_>) -> Next {
        let flow = ask.flow.index();
        let sent = &mut self.sent[flow as usize];
        while *sent < PACKETS
            && let Some(packet) = segments.push(length(flow, *sent))
        {
            packet[..4].copy_from_slice(&flow.to_be_bytes());
            packet[4..8].copy_from_slice(&sent.to_be_bytes());
            packet[8..].fill(filler(flow, *sent));
            *sent += 1;
        }
        if *sent < PACKETS { Next::Ready(Hint::default()) } else { Next::Idle }
    }
}

fn set(socket: &UdpSocket, option: libc::c_int, value: libc::c_int) {
    // SAFETY: the kernel reads an integer of the given size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
}

/// What a run of all flows did.
struct Outcome {
    stats: UdpStats,
    /// The polls after which packets waited for room in the socket.
    blocked: u32,
}

/// Sends all flows from this thread. With a count of `received` packets, few are on their way.
fn send(
    socket: UdpSocket,
    segmentation: bool,
    received: Option<&AtomicU64>,
    to: impl Fn(u32) -> SocketAddr,
) -> Outcome {
    // The kernel has a queue between the namespaces for each CPU, and packets of two queues have no
    // order.
    cpus::stay_on(cpus::current());
    let config = Config { flows: FLOWS, turns: 8, ..Config::default() };
    let mut sender = UdpSender::new(socket, config, Policy::Paced).unwrap();
    if !segmentation {
        sender.without_segmentation();
    }
    let rate = Some(Rate::from_mbps(100));
    let flows: Vec<FlowId> = (0..FLOWS)
        .map(|n| sender.open(to(n), Settings { rate, ..Settings::default() }).unwrap().unwrap())
        .collect();
    assert_eq!(sender.open(to(0), Settings::default()).unwrap(), None, "no more flows than asked");
    let mut source = Packets { sent: vec![0; FLOWS as usize] };
    let wakes: Vec<_> = flows.into_iter().map(|flow| (flow, Hint::default())).collect();
    assert_eq!(sender.wake_all(clock::now(), &wakes), FLOWS);
    let mut blocked = 0;
    loop {
        let began = Instant::now();
        while let Some(received) = received
            && sender.stats().packets > received.load(Ordering::Relaxed) + WINDOW
        {
            assert!(began.elapsed() < TIMEOUT, "packets are lost");
            std::thread::yield_now();
        }
        let polled = sender.poll(clock::now(), &mut source).unwrap();
        blocked += u32::from(sender.is_blocked());
        match polled.next {
            Some(next) => sender.wait_until(next),
            None if sender.is_blocked() => sender.wait_until(Nanos::MAX),
            None => break,
        }
    }
    assert_eq!(source.sent, vec![PACKETS; FLOWS as usize]);
    Outcome { stats: sender.stats(), blocked }
}

/// Receives all packets of the flows of one port, and checks that each flow is complete and in
/// order. Returns the number of packets and bytes.
fn receive(socket: &UdpSocket, port: usize, count: &AtomicU64) -> (u64, u64) {
    let mut next: HashMap<u32, u32> = HashMap::new();
    let expected = (0..FLOWS).filter(|n| *n as usize % PORTS.len() == port).count() as u64;
    let (mut packets, mut bytes) = (0, 0);
    let mut buffer = [0; 2048];
    while packets < expected * u64::from(PACKETS) {
        let received = socket.recv(&mut buffer).expect("a packet is lost");
        count.fetch_add(1, Ordering::Relaxed);
        let packet = &buffer[..received];
        let [flow, number] =
            [0, 4].map(|at| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap()));
        assert_eq!(flow as usize % PORTS.len(), port, "each flow to its own destination");
        let expected = next.entry(flow).or_default();
        assert_eq!(number, *expected, "flow {flow} is in order");
        *expected += 1;
        assert_eq!(received, length(flow, number), "flow {flow}, packet {number}");
        assert!(packet[8..].iter().all(|&b| b == filler(flow, number)), "flow {flow}");
        packets += 1;
        bytes += received as u64;
    }
    assert!(next.values().all(|&count| count == PACKETS));
    (packets, bytes)
}

/// Sends all flows from one namespace to the other, and compares what arrives.
fn everything_arrives(pair: &Pair, segmentation: bool, send_buffer: Option<i32>) -> Outcome {
    let sockets = within(&pair.far.0, || {
        PORTS.map(|port| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
            set(&socket, libc::SO_RCVBUFFORCE, 64 << 20);
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            socket
        })
    });
    let received = Arc::new(AtomicU64::new(0));
    let receivers = sockets.into_iter().enumerate();
    let receivers: Vec<_> = receivers
        .map(|(port, socket)| {
            let received = Arc::clone(&received);
            std::thread::spawn(move || receive(&socket, port, &received))
        })
        .collect();
    let outcome = within(&pair.near.0, move || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        if let Some(bytes) = send_buffer {
            set(&socket, libc::SO_SNDBUF, bytes);
        }
        let to = |flow: u32| ([10, 9, 1, 2], PORTS[flow as usize % PORTS.len()]).into();
        send(socket, segmentation, Some(&received), to)
    });
    let arrived: Vec<(u64, u64)> = receivers.into_iter().map(|r| r.join().unwrap()).collect();
    let stats = outcome.stats;
    assert_eq!(stats.packets, u64::from(FLOWS * PACKETS));
    assert_eq!(stats.refused, 0);
    assert_eq!(arrived.iter().map(|a| a.0).sum::<u64>(), stats.packets);
    assert_eq!(Bytes(arrived.iter().map(|a| a.1).sum()), stats.bytes);
    outcome
}

#[test]
fn what_the_engine_releases_arrives_in_order_and_whole() {
    if !has_root() {
        return;
    }
    let pair = Pair::new("udp");
    let Outcome { stats, .. } = everything_arrives(&pair, true, None);
    assert!(stats.messages * 4 < stats.packets, "a message has several packets: {stats:?}");
    assert!(stats.calls < stats.messages, "a call sends several messages: {stats:?}");
    let Outcome { stats, .. } = everything_arrives(&pair, false, None);
    assert_eq!(stats.messages, stats.packets, "each packet alone");
    assert!(stats.calls < stats.messages, "a call sends several messages: {stats:?}");
}

/// 8.3 MB need most of a second at 80 Mbit/s, and the socket holds 50 kB of them.
#[test]
fn flows_wait_while_the_socket_has_no_room() {
    if !has_root() {
        return;
    }
    let pair = Pair::new("udpw");
    let tbf = "tbf rate 80mbit burst 64kb limit 8mb";
    run(&format!("tc -n {} qdisc add dev eth0 root {tbf}", pair.near.0));
    for segmentation in [true, false] {
        let Outcome { blocked, .. } = everything_arrives(&pair, segmentation, Some(25_000));
        assert!(blocked > 0, "the socket was never full");
    }
}

#[test]
fn packets_that_the_kernel_refuses_are_counted_and_hold_nobody_up() {
    if !has_root() {
        return;
    }
    let pair = Pair::new("udpr");
    let outcome = within(&pair.near.0, || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        // There is no route to every second destination.
        let to = |flow: u32| ([10, 9 + (flow % 2) as u8, 1, 2], 7001).into();
        send(socket, true, None, to)
    });
    assert_eq!(outcome.stats.refused, u64::from(FLOWS * PACKETS / 2));
    assert_eq!(outcome.stats.packets, u64::from(FLOWS * PACKETS / 2));
}
