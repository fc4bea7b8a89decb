//! Tests of QUIC over the simulator: durations, repeatability, ECN, loss, the MTU and qlog.

mod path;
#[cfg(feature = "qlog")]
mod qlog;

use forebay_queue::{DualPi2, Ecn, Fifo, FqCodel, Limit, dualpi2, fifo, fq_codel};
use forebay_sim::Queue;
use forebay_sim_quic::quinn_proto::TransportConfig;
use forebay_units::{Bytes, Nanos, Rate};

use path::{Bottleneck, Datagram, Net};

fn fifo_queue(bytes: u64) -> Queue {
    Box::new(Fifo::new(fifo::Config { limit: Limit::bytes(Bytes(bytes)) }).unwrap())
}

fn fq_codel_queue() -> Queue {
    Box::new(FqCodel::new(fq_codel::Config::default()).unwrap())
}

/// 10 Mbit/s and a round trip of 40 ms.
fn bottleneck(seed: u64, queue: Queue) -> Bottleneck {
    Bottleneck { rate: Rate::from_mbps(10), delay: Nanos::from_millis(20), queue, seed }
}

fn net(seed: u64, queue: Queue) -> Net {
    Net::new(bottleneck(seed, queue), TransportConfig::default())
}

#[test]
fn downloads_take_round_trips_and_then_the_bottleneck_s_time() {
    // In milliseconds: from three round trips on, and at the rate with slow start and headers.
    for (kilobytes, from, to) in [(1, 80, 85), (100, 160, 320), (10_000, 8_300, 9_200)] {
        let mut net = net(1, fq_codel_queue());
        let client = net.client(kilobytes * 1000, TransportConfig::default());
        net.sim.run_until(Nanos::from_secs(60));
        let download = net.download(client);
        let took = download.finished.unwrap().as_millis_f64();
        assert!(took > f64::from(from) && took < f64::from(to), "{kilobytes} kB: {took} ms");
        assert_eq!((download.received, &download.failed), (kilobytes * 1000, &None));
        assert_eq!(net.sim.endpoint(net.server).application().failed, 0);
        assert_eq!(net.sim.endpoint(net.server).connections().count(), 0, "it is closed");
    }
}

/// Returns the datagrams of two clients that share the bottleneck.
fn trace(seed: u64) -> [Vec<Datagram>; 2] {
    let mut net = net(seed, fifo_queue(20_000));
    let clients = [(); 2].map(|()| net.client(300_000, TransportConfig::default()));
    net.sim.run_until(Nanos::from_secs(60));
    assert!(net.sim.link(net.down).dropped > 0, "recovery from loss is part of the trace");
    clients.map(|client| {
        assert!(net.download(client).finished.is_some());
        net.datagrams(client).to_vec()
    })
}

#[test]
fn a_seed_gives_the_same_bytes_at_the_same_times() {
    let first = trace(1);
    // The other simulation runs in between, and the clock of this machine has advanced.
    let other = trace(2);
    assert!(first == trace(1), "two runs of a seed differ");
    assert!(first != other && first[0] != first[1]);
    assert_ne!(first[0][0].payload, other[0][0].payload);
}

#[test]
fn a_marking_queue_slows_quic_down_without_loss() {
    let mut net = net(1, fq_codel_queue());
    let client = net.client(3_000_000, TransportConfig::default());
    net.sim.run_until(Nanos::from_secs(60));
    let datagrams = net.datagrams(client);
    let marked = datagrams.iter().filter(|d| !d.sent && d.ecn == Ecn::Ce).count() as u64;
    let link = net.sim.link(net.down);
    assert!(marked > 0 && link.marked == marked && link.dropped == 0, "{marked}, {link:?}");
    assert!(datagrams.iter().any(|d| d.sent && d.ecn == Ecn::Ect0), "the client sends ECT too");
    assert!(net.download(client).finished.unwrap() < Nanos::from_secs(4));
}

#[test]
fn the_queue_decides_how_long_packets_wait() {
    // The round trip that the server measures while it sends a long download.
    let round_trip = |queue| {
        let mut net = net(1, queue);
        net.client(10_000_000, TransportConfig::default());
        net.sim.run_until(Nanos::from_secs(5));
        net.sim.endpoint(net.server).connections().next().unwrap().rtt().as_millis()
    };
    let fifo = round_trip(fifo_queue(250_000));
    let dualpi2 = round_trip(Box::new(DualPi2::new(dualpi2::Config::default()).unwrap()));
    assert!(fifo > 100 && (40..80).contains(&dualpi2), "{fifo} ms, {dualpi2} ms");
}

#[test]
fn clients_share_a_server_and_its_link() {
    let mut net = net(1, fq_codel_queue());
    let clients = [(); 5].map(|()| net.client(1_000_000, TransportConfig::default()));
    net.sim.run_until(Nanos::from_secs(3));
    for client in clients {
        let received = net.download(client).received;
        assert!((500_000..850_000).contains(&received), "a fifth of 10 Mbit/s, not {received} B");
    }
    net.sim.run_until(Nanos::from_secs(20));
    assert!(clients.iter().all(|client| net.download(*client).finished.is_some()));
}

#[test]
fn discovery_finds_the_mtu_of_the_path() {
    for (mtu, payload) in [(1500, 1452), (1300, 1252)] {
        let mut net = net(1, fq_codel_queue());
        let client = net.client(2_000_000, TransportConfig::default());
        net.sim.set_mtu(client, net.server, Bytes(mtu)).unwrap();
        net.sim.run_until(Nanos::from_secs(20));
        assert!(net.download(client).finished.is_some());
        let longest = net.datagrams(client).iter().filter(|d| !d.sent).map(|d| d.payload.len());
        let longest = longest.max().unwrap();
        // IPv6 and UDP have 48 bytes. The search halves the interval down to steps of 20 bytes.
        assert!(longest <= payload && longest + 40 > payload, "{longest} of {payload}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_reported() {
    let mut net = net(1, fq_codel_queue());
    let client = net.client(1000, TransportConfig::default());
    // Nothing passes: the smallest datagram of a handshake has 1200 bytes.
    net.sim.set_mtu(client, net.server, Bytes(1000)).unwrap();
    net.sim.run_until(Nanos::from_secs(100));
    assert_eq!(net.download(client).failed.as_deref(), Some("timed out"));
    assert_eq!(net.sim.endpoint_counters(net.server).received, 0);
}
