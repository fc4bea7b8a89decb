use forebay_units::{Nanos, Rate};

use super::*;

fn error(text: &str) -> String {
    Network::parse(text).unwrap_err().to_string()
}

const P2P: &str = "--delay=15ms --bandwidth=10Mbps --queue=25";

#[test]
fn the_scenarios_of_the_interop_runner_are_read() {
    let plain = Network::parse(&format!("simple-p2p {P2P}")).unwrap();
    let expected = Network {
        delay: Nanos::from_millis(15),
        rate: Rate::from_mbps(10),
        queue: 25,
        to_client: Drops::default(),
        to_server: Drops::default(),
        outage: None,
    };
    assert_eq!(plain, expected);

    let text = format!(
        "drop-rate {P2P} --rate_to_server=2 --rate_to_client=30 --burst_to_client=3 \
         --burst_to_server=1"
    );
    let drops = Network {
        to_client: Drops { rate: 0.3, burst: Some(3) },
        to_server: Drops { rate: 0.02, burst: Some(1) },
        ..expected.clone()
    };
    assert_eq!(Network::parse(&text), Ok(drops));

    let text = format!("blackhole {P2P} --on=5s --off=2s --repeat=3 --direction=toclient");
    let outage = OutageSpec {
        on_ns: 5_000_000_000,
        off_ns: 2_000_000_000,
        times: 3,
        to_right: false,
        to_left: true,
    };
    assert_eq!(Network::parse(&text), Ok(Network { outage: Some(outage), ..expected }));
}

#[test]
fn units_are_those_of_ns_3() {
    let read = |delay: &str, bandwidth: &str| {
        let text = format!("simple-p2p --delay={delay} --bandwidth={bandwidth} -queue=1");
        Network::parse(&text).map(|n| (n.delay.0, n.rate.as_bps())).map_err(|e| e.to_string())
    };
    assert_eq!(read("0.5s", "2.5Mbps"), Ok((500_000_000, 2_500_000)));
    assert_eq!(read("2", "1000000"), Ok((2_000_000_000, 1_000_000)));
    assert_eq!(read("0ns", "1MBps"), Ok((0, 8_000_000)));
    assert_eq!(read("300us", "1Gb/s"), Ok((300_000, 1_000_000_000)));
    for (delay, bandwidth) in [
        ("15 ms", "1Mbps"),
        ("", "1Mbps"),
        ("-1ms", "1Mbps"),
        ("ms", "1Mbps"),
        ("1d", "1Mbps"),
        ("2h", "1Mbps"),
        ("1e3ms", "1Mbps"),
        ("1ms", "0bps"),
        ("1ms", "200Gbps"),
        ("1ms", "fast"),
        ("1ms", "1.2.3Mbps"),
    ] {
        assert!(read(delay, bandwidth).is_err(), "{delay}, {bandwidth}");
    }
}

#[test]
fn errors_name_the_argument() {
    assert!(error(" ").starts_with("no scenario: write it in the variable SCENARIO"));
    assert_eq!(
        error("simple --delay=1ms"),
        "unknown scenario `simple`: there are simple-p2p, drop-rate and blackhole"
    );
    assert_eq!(
        error("rebind --first-rebind=1s"),
        "scenario `rebind` is not supported, since the link does not change addresses and ports; \
         there are simple-p2p, drop-rate and blackhole"
    );
    assert!(error("tcp-cross-traffic --crossdatarate=5Mbps").contains("makes traffic"));
    assert_eq!(error("simple-p2p --delay=1ms --queue=5"), "--bandwidth is missing");
    assert_eq!(
        error("simple-p2p --delay=fast --bandwidth=1Mbps --queue=5"),
        "--delay=fast: write a time of at most an hour, such as 15ms"
    );
    assert_eq!(
        error("simple-p2p --delay=1ms --bandwidth=1Mbps --queue=0"),
        "--queue=0: write a number of packets, 1 to 100000"
    );
    assert_eq!(
        error("simple-p2p delay=1ms"),
        "`delay=1ms` is no argument of a scenario: write --NAME=VALUE"
    );
    assert_eq!(error("simple-p2p --delay=1ms --delay=2ms"), "--delay occurs twice");
    assert_eq!(
        error(&format!("simple-p2p {P2P} --rate_to_client=3")),
        "scenario `simple-p2p` has no argument --rate_to_client"
    );
    assert_eq!(
        error(&format!("drop-rate {P2P} --rate_to_server=1")),
        "--rate_to_client is missing"
    );
    assert_eq!(
        error(&format!("drop-rate {P2P} --rate_to_server=1 --rate_to_client=100")),
        "--rate_to_client=100: write a percentage, 0 to 99"
    );
    assert_eq!(error(&format!("blackhole {P2P} --on=1s")), "--off is missing");
    assert_eq!(
        error(&format!("blackhole {P2P} --on=1s --off=1s --direction=up")),
        "--direction=up: write both, toclient or toserver"
    );
}

#[test]
fn both_directions_have_the_queue_and_their_own_losses() {
    let text =
        format!("drop-rate {P2P} --rate_to_server=0 --rate_to_client=30 --burst_to_client=3");
    let network = Network::parse(&text).unwrap();
    let spec =
        |kind| network.spec(["eth0".to_owned(), "eth1".to_owned()], kind, 7, PathBuf::from("c"));
    let fifo = spec(Kind::Fifo).unwrap();
    assert_eq!((fifo.left.as_str(), fifo.right.as_str()), ("eth0", "eth1"));
    assert_eq!((fifo.loss, fifo.most_lost_in_a_row.to_right), (Loss::None, None));
    assert_eq!(fifo.back.unwrap().loss, Loss::Random(0.3));
    assert_eq!(fifo.most_lost_in_a_row.to_left, Some(3));
    let BottleneckSpec::Forebay { queue } = fifo.queue else { panic!("the queue is ours") };
    assert_eq!((queue.packets(), fifo.back_queue), (25, Some(queue)));
    for kind in [Kind::FqCodel, Kind::Codel, Kind::DualPi2, Kind::Pie, Kind::Sfq] {
        assert!(spec(kind).is_ok(), "{kind:?}");
    }
    assert_eq!(spec(Kind::Cake), Err(ScenarioError::Queue("cake")), "only the kernel has it");
}
