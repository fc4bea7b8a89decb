//! Devices with several transmit queues, whose root without a sendbox is `mq`.

use std::fs::File;
use std::io::Read;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use forebay_tc::{Device, Error, Foreign, Found, Root, Statistics, Tree};
use forebay_test_support::has_root;
use forebay_test_support::namespace::run;
use forebay_test_support::queues::{ByAddress, Network, WAN, fifo, install, plan};
use forebay_units::Rate;

use super::RECEIVE_TIMEOUT;

/// The queues of the device in each direction.
const QUEUES: u32 = 4;

/// Sets up `mq` as an administrator does: a name of its own, and queues of several kinds below it.
fn set_up_mq(network: &Network) {
    for command in [
        "qdisc replace dev wan root handle 1: mq",
        "qdisc replace dev wan parent 1:1 handle 10: tbf rate 50mbit burst 20k latency 30ms",
        "qdisc replace dev wan parent 1:2 pfifo limit 77",
        "qdisc replace dev wan parent 1:4 handle 40: htb default 1",
        "class add dev wan parent 40: classid 40:1 htb rate 90mbit burst 15k",
    ] {
        network.tc(command);
    }
}

/// What `tc` says of the device, as sorted lines: the kernel lists queues by a hash of their names.
/// HTB counts what passed it before it had a class, so that counter is left out.
fn state(network: &Network) -> Vec<String> {
    let text = network.tc("qdisc show dev wan") + &network.tc("class show dev wan");
    let line = |line: &str| line.split("direct_packets_stat").next().unwrap().to_owned();
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort_unstable();
    lines
}

fn found() -> Found {
    Found::of(&Device::find(WAN).unwrap()).unwrap()
}

#[test]
fn a_root_of_mq_is_refused_or_put_back_with_its_queues() {
    if !has_root() {
        return;
    }
    let network = Network::with_queues(QUEUES);
    set_up_mq(&network);
    let before = state(&network);
    network.within(|| {
        let program = ByAddress::load();
        let device = || Device::find(WAN).unwrap();
        let install =
            |foreign| Tree::install(device(), plan(&[&[fifo(9)]]), &program.programs(), foreign);
        let refused = install(Foreign::Refuse).unwrap_err();
        assert!(matches!(&refused, Error::Foreign { kind, .. } if kind == "mq"), "{refused}");
        assert_eq!(state(&network), before);
        let (tree, _) = install(Foreign::Replace).unwrap();
        let lines = network.tc("qdisc show dev wan");
        assert_eq!(lines.lines().count(), 2, "the tree's root and one queue alone: {lines}");
        // Killed, and started again.
        drop(tree);
        let (tree, _) = install(Foreign::Refuse).unwrap();
        assert_eq!(found().root(), Root::Ours);
        tree.remove().unwrap();
    });
    assert_eq!(state(&network), before);
}

/// A TUN device with several queues has `mq` without anybody's doing.
#[test]
fn the_mq_that_the_kernel_set_up_is_replaced_and_returns() {
    if !has_root() {
        return;
    }
    let network = Network::new();
    network.within(|| {
        let queues: Vec<File> = (0..2).map(|_| tun_queue()).collect();
        network.ip("link set fb-tun up");
        network.ip("address add 10.77.0.1/24 dev fb-tun");
        let before = network.tc("qdisc show dev fb-tun");
        assert!(before.starts_with("qdisc mq 0: root"), "{before}");
        let program = ByAddress::load();
        let device = Device::find("fb-tun").unwrap();
        assert_eq!(Found::of(&device).unwrap().root(), Root::Default);
        let (tree, _) =
            Tree::install(device, plan(&[&[fifo(9)]]), &program.programs(), Foreign::Refuse)
                .unwrap();
        let during = network.tc("qdisc show dev fb-tun");
        assert!(during.contains("qdisc htb fb0: root") && !during.contains("mq"), "{during}");
        // A program closes one of the device's queues, and the other goes on.
        drop(queues);
        tree.remove().unwrap();
        let after = network.tc("qdisc show dev fb-tun");
        assert!(after.starts_with("qdisc mq 0: root"), "{after}");
    });
}

/// Opens a queue of the TUN device `fb-tun`, which stays when the queue is closed.
fn tun_queue() -> File {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb;
    let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    let mut request = [0u8; 40];
    request[..6].copy_from_slice(b"fb-tun");
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE;
    request[16..18].copy_from_slice(&(flags as u16).to_ne_bytes());
    // SAFETY: the request is an `ifreq`, which has 40 bytes; the second call takes an integer.
    unsafe {
        let fd = file.as_raw_fd();
        assert_eq!(libc::ioctl(fd, TUNSETIFF, request.as_mut_ptr()), 0);
        assert_eq!(libc::ioctl(fd, TUNSETPERSIST, 1), 0);
    }
    file
}

/// Threads on all cores send through the one tree to a device with two queues: each flow arrives
/// whole and in order, in one queue of the device.
#[test]
fn flows_of_several_cores_keep_their_order() {
    if !has_root() {
        return;
    }
    /// Packets of a flow. The ring of a queue of a TUN device holds 500.
    const EACH: u32 = 100;
    const FLOWS: u32 = 4;
    let network = Network::new();
    network.within(|| {
        let queues = [tun_queue(), tun_queue()];
        network.ip("address add 10.77.0.1/24 dev fb-tun");
        network.ip("link set fb-tun up");
        let program = ByAddress::load();
        let device = Device::find("fb-tun").unwrap();
        let planned = plan(&[&[fifo(1_000)], &[fifo(1_000)], &[fifo(1_000)]]);
        let (mut tree, _) =
            Tree::install(device, planned, &program.programs(), Foreign::Refuse).unwrap();
        tree.set_rate(0, Some(Rate::from_mbps(20)));
        tree.flush().unwrap();
        std::thread::scope(|scope| {
            for flow in 0..FLOWS {
                let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
                scope.spawn(move || {
                    for number in 0..EACH {
                        let mut payload = [0; 400];
                        payload[..4].copy_from_slice(&number.to_be_bytes());
                        // Byte 33 of the packet, by which the program selects one of three classes,
                        // or none.
                        payload[5] = flow as u8 + 2;
                        socket.send_to(&payload, "10.77.0.2:9").unwrap();
                    }
                });
            }
        });
        let mut arrived = [0; FLOWS as usize];
        let mut queue_of = [None; FLOWS as usize];
        while arrived != [EACH; FLOWS as usize] {
            let (queue, packet) = read_from_any(&queues);
            // The kernel itself sends too, for IPv6.
            if packet[0] != 0x45 {
                continue;
            }
            let payload = &packet[28..];
            let flow = usize::from(payload[5]) - 2;
            assert_eq!(payload[..4], arrived[flow].to_be_bytes(), "flow {flow}");
            arrived[flow] += 1;
            assert_eq!(*queue_of[flow].get_or_insert(queue), queue, "flow {flow}");
        }
        tree.remove().unwrap();
    });
}

/// Waits for a packet at any of these queues; returns the number of the queue, and the packet.
fn read_from_any(queues: &[File; 2]) -> (usize, Vec<u8>) {
    let mut waits = queues.each_ref().map(|queue| libc::pollfd {
        fd: queue.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: the two structures live through the call.
    let ready = unsafe { libc::poll(waits.as_mut_ptr(), 2, RECEIVE_TIMEOUT.as_millis() as i32) };
    assert!(ready > 0, "no packet comes");
    let queue = waits.iter().position(|wait| wait.revents != 0).unwrap();
    let mut packet = vec![0; 2_000];
    let len = (&queues[queue]).read(&mut packet).unwrap();
    packet.truncate(len);
    (queue, packet)
}

/// The kernel empties the queues of a device that loses channels (`ethtool -L`), whatever they are.
/// The tree and its rates stay, and packets flow on.
#[test]
fn a_tree_outlives_fewer_channels() {
    if !has_root() {
        return;
    }
    let network = Network::with_queues(QUEUES);
    let far = network.far_socket("10.9.0.2:9");
    far.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
    network.within(|| {
        let mut tree = install(&[&[fifo(100)]]);
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        let send = || assert_eq!(socket.send_to(&[0; 1_000], "10.9.0.2:9").unwrap(), 1_000);
        let first = |tree: &mut Tree| -> Statistics {
            let mut all = Vec::new();
            tree.statistics(&mut all).unwrap();
            all[0]
        };
        send();
        far.recv(&mut [0; 2_000]).unwrap();
        // A frame takes 8 s at this rate.
        tree.set_rate(0, Some(Rate::from_bps(1_000)));
        tree.flush().unwrap();
        for _ in 0..20 {
            send();
        }
        let before = first(&mut tree);
        assert!(before.queued >= 18, "{before:?}");
        run("ethtool -L wan tx 2");
        let after = first(&mut tree);
        assert!(after.queued <= before.queued, "{after:?}");
        assert_eq!(found().root(), Root::Ours);
        tree.set_rate(0, Some(Rate::from_bps(1_000)));
        assert_eq!(tree.flush().unwrap(), 0, "the rate stayed");
        tree.set_rate(0, None);
        tree.flush().unwrap();
        send();
        far.recv(&mut [0; 2_000]).unwrap();
        tree.remove().unwrap();
    });
}
