use std::collections::BTreeMap;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::*;
use crate::flows::encode::{self, FLOW, flow};
use crate::flows::relayed::Relay;
use crate::flows::report::{self, Report};
use crate::input;
use crate::network::Provider;
use crate::topology::{Router, Topology};

/// The time of the tests in seconds: 2026-11-22T13:00:00Z.
const NOW: u32 = 1_795_352_400;
/// The time of the tests in milliseconds.
const MILLIS: i64 = NOW as i64 * 1000;
const EXPORTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

struct Setting {
    topology: Topology,
    providers: Vec<Provider>,
    prefixes: BTreeMap<IpNet, Users>,
    exporters: Exporters,
}

/// Two routers. Provider x comes in at A by interface 1 and at B by 2, y at A by 3. The users of
/// 10/8 are at A, except for 10.1/16, which is at B.
fn setting(more: &str) -> Setting {
    let routers = ["A", "B"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
    let text = "[[provider]]\nname = \"x\"\nentry = [{ router = \"A\" }, { router = \"B\" }]\n\
                [[provider]]\nname = \"y\"\nentry = [{ router = \"A\" }]\n";
    let providers = input::providers("p".as_ref(), text, &topology).unwrap().providers;
    let text = "prefix,router\n10.0.0.0/8,A\n10.1.0.0/16,B\n2001:db8::/32,B\n";
    let prefixes = input::prefixes("x".as_ref(), text, &topology).unwrap();
    let text = format!(
        "[[exporter]]\naddress = \"192.0.2.1\"\nrouter = \"A\"\n{more}\n\
         interface = [{{ index = 1, provider = \"x\" }}, {{ index = 2, provider = \"x\", router = \"B\" }},\n\
         {{ index = 3, provider = \"y\" }}]\n"
    );
    let exporters = input::exporters("e".as_ref(), &text, &providers, &topology).unwrap();
    Setting { topology, providers, prefixes, exporters }
}

/// Returns a collector for the hundred seconds before now.
fn collector(more: &str) -> Collector {
    let Setting { prefixes, exporters, .. } = setting(more);
    let mut collector = Collector::new(exporters, &prefixes, Grain::Prefix);
    collector.begin(MILLIS - 100_000, 100_000, 1);
    collector
}

fn window() -> Window {
    Window { begin: MILLIS - 100_000, end: MILLIS }
}

/// Takes a datagram, and returns its errors.
fn take(collector: &mut Collector, octets: &[u8]) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    collector.datagram(EXPORTER, octets, MILLIS, &mut |t| troubles.push(t));
    troubles
}

/// Returns the times of a flow, given in seconds before now.
fn ago(start: i64, end: i64) -> (u64, u64) {
    ((MILLIS - start * 1000) as u64, (MILLIS - end * 1000) as u64)
}

fn rates(collector: &Collector) -> Vec<(u32, u32, u32, f64)> {
    let demands = collector.demands(window());
    demands.iter().map(|m| (m.place.provider, m.place.entry, m.router.0, m.rate)).collect()
}

fn template() -> Vec<u8> {
    encode::template(256, &FLOW)
}

fn message(sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    encode::ipfix(NOW, sequence, 0, sets)
}

#[test]
fn rates_by_entry_and_router() {
    let mut collector = collector("");
    let records = [
        flow(125_000, 100, 1, [10, 2, 0, 1], ago(90, 10)),
        flow(250_000, 100, 2, [10, 1, 0, 1], ago(50, 50)),
        // Half of the flow is before the window.
        flow(250_000, 100, 3, [10, 1, 0, 9], ago(150, 50)),
        flow(125_000, 100, 1, [10, 9, 0, 1], ago(90, 10)),
    ];
    assert!(
        take(&mut collector, &message(0, &[template(), encode::data(256, &records)])).is_empty()
    );
    let expected = [(0, 0, 0, 20_000.0), (0, 1, 1, 20_000.0), (1, 0, 1, 10_000.0)];
    assert_eq!(rates(&collector), expected);
    let window_left = collector.counted(Reason::Window);
    assert_eq!(window_left, Counted { times: 1, octets: 125_000.0 });
    assert_eq!(collector.shares(window()), [20_000.0, 30_000.0, 0.0]);
    assert!(collector.demands(window()).iter().all(|m| m.error == 0.0), "nothing was sampled");
}

/// Returns a table with 10/8 behind A, 10.1/16 behind B, 10.2/16 at an unknown next hop, and the
/// sources 198.51.100/24 of AS 64510 and 2001:db8:5::/48 of AS 64520.
fn route_users() -> RouteUsers {
    let mut table = forebay_routes::table::Table::new(Default::default());
    let peer = table.add_peer("r", EXPORTER, 64500).unwrap();
    for (prefix, hop, origin) in [
        ("10.0.0.0/8", 1, 64501),
        ("10.1.0.0/16", 2, 64502),
        ("10.2.0.0/16", 9, 64503),
        ("198.51.100.0/24", 9, 64510),
        ("2001:db8:5::/48", 9, 64520),
    ] {
        let attributes = table.share(forebay_routes::attributes::Attributes {
            path: [64500, origin].into(),
            next_hop: Some([192, 0, 2, hop].into()),
            ..Default::default()
        });
        table.announce(peer, prefix.parse().unwrap(), 0, &attributes);
    }
    let hops = [([192, 0, 2, 1].into(), RouterId(0)), ([192, 0, 2, 2].into(), RouterId(1))];
    RouteUsers {
        table: std::sync::Arc::new(std::sync::RwLock::new(table)),
        next_hops: std::sync::Arc::new(hops.into()),
    }
}

#[test]
fn routes_tell_the_router_and_the_source_the_provider() {
    let shared = "interface = [{ index = 1, provider = \"x\" }, { index = 7 }]\n";
    let exporter = format!("[[exporter]]\naddress = \"192.0.2.1\"\nrouter = \"A\"\n{shared}");
    let Setting { topology, providers, .. } = setting("");
    let table = input::exporters("e".as_ref(), &exporter, &providers, &topology).unwrap();
    assert_eq!(table.shared(), Some((EXPORTER, 7)));
    let routes = route_users();
    let live = std::sync::Arc::clone(&routes.table);
    let asns = [(64510, 1), (64520, 0)].into();
    let mut collector = Collector::with_routes(table, routes, &providers, &asns, &topology);
    collector.begin(MILLIS - 100_000, 100_000, 1);
    // Octets, interface, both destinations and both sources.
    let fields = [(1, 4), (10, 4), (12, 4), (28, 16), (8, 4), (27, 16)];
    let template = encode::template(256, &fields);
    let record = |input: u32, to: [u8; 4], from: [u8; 4], from_v6: [u8; 16]| {
        let parts: [&[u8]; 6] =
            [&12_500_u32.to_be_bytes(), &input.to_be_bytes(), &to, &[0; 16], &from, &from_v6];
        parts.concat()
    };
    let (six, none) = ([0x20, 1, 0xd, 0xb8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0; 16]);
    let records = [
        record(1, [10, 1, 0, 1], [203, 0, 113, 1], none),
        record(7, [10, 9, 0, 1], [198, 51, 100, 7], none),
        record(7, [10, 1, 0, 1], [0; 4], six),
        record(7, [10, 1, 0, 1], [203, 0, 113, 1], none),
        record(7, [10, 2, 0, 1], [198, 51, 100, 7], none),
        record(8, [10, 1, 0, 1], [198, 51, 100, 7], none),
    ];
    // Records without times are at their export.
    let message = encode::ipfix(NOW - 10, 0, 0, &[template, encode::data(256, &records)]);
    assert_eq!(take(&mut collector, &message), []);
    // x comes in at A by its own interface and by the shared one, y by the shared one.
    assert_eq!(rates(&collector), [(0, 0, 1, 2000.0), (1, 0, 0, 1000.0)]);
    for reason in [Reason::Source, Reason::Prefix, Reason::Interface] {
        assert_eq!(collector.counted(reason), Counted { times: 1, octets: 12_500.0 }, "{reason:?}");
    }
    // A route that goes takes effect with the next flow.
    let peer = live.read().unwrap().peers().next().unwrap().0;
    live.write().unwrap().withdraw(peer, "10.1.0.0/16".parse().unwrap(), 0);
    let again = encode::ipfix(NOW - 10, 6, 0, &[encode::data(256, &records[..1])]);
    take(&mut collector, &again);
    assert_eq!(rates(&collector)[..2], [(0, 0, 0, 1000.0), (0, 0, 1, 2000.0)]);
}

#[test]
fn sums_by_router_and_by_prefix_agree() {
    let Setting { prefixes, exporters, .. } = setting("");
    let mut collector = Collector::new(exporters, &prefixes, Grain::Router);
    collector.begin(MILLIS - 100_000, 100_000, 1);
    let records = [[10, 1, 0, 1], [10, 2, 0, 1]].map(|to| flow(1250, 1, 1, to, ago(9, 9)));
    take(&mut collector, &message(0, &[template(), encode::data(256, &records)]));
    assert_eq!(rates(&collector), [(0, 0, 0, 100.0), (0, 0, 1, 100.0)]);
}

#[test]
fn flows_outside_the_demands_are_counted_by_reason() {
    let mut collector = collector("");
    let leaving: Vec<encode::Field> = [&FLOW[..], &[(61, 1)]].concat();
    let backwards = ago(10, 20);
    let sets = [
        template(),
        encode::template(257, &leaving),
        encode::template(258, &[(1, 4)]),
        encode::data(
            256,
            &[
                flow(10, 1, 9, [10, 0, 0, 1], ago(9, 9)),
                flow(20, 1, 1, [11, 0, 0, 1], ago(9, 9)),
                flow(30, 1, 1, [10, 0, 0, 1], backwards),
                flow(40, 1, 1, [10, 0, 0, 1], ago(900, 800)),
            ],
        ),
        encode::data(257, &[[flow(50, 1, 1, [10, 0, 0, 1], ago(9, 9)), vec![1]].concat()]),
        encode::data(258, &[vec![0, 0, 0, 1]]),
        encode::data(999, &[vec![0; 8]]),
    ];
    assert!(take(&mut collector, &message(0, &sets)).is_empty());
    let mut stranger = |octets: &[u8], from: &str| {
        collector.datagram(from.parse().unwrap(), octets, MILLIS, &mut |t| panic!("{t:?}"));
    };
    stranger(&message(0, &[template()]), "198.51.100.1");
    stranger(&[1, 2, 3], "2001:db8::1");
    let version = take(&mut collector, &[0, 7, 0, 1]);
    assert_eq!((version[0].at, version.len()), (0, 1));
    let broken = [message(6, &[template()]), vec![0, 10, 0, 99]].concat();
    assert_eq!(take(&mut collector, &broken)[0].at, broken.len() - 4, "where in the datagram");
    let expected = [
        (Reason::Exporter, 2, 0.0),
        (Reason::Version, 1, 0.0),
        (Reason::Malformed, 1, 0.0),
        (Reason::Domain, 0, 0.0),
        (Reason::Template, 1, 0.0),
        (Reason::Interface, 1, 10.0),
        (Reason::Prefix, 1, 20.0),
        (Reason::Leaving, 1, 50.0),
        (Reason::Incomplete, 1, 0.0),
        (Reason::Times, 1, 30.0),
        (Reason::Window, 1, 40.0),
        (Reason::Full, 0, 0.0),
    ];
    for (reason, times, octets) in expected {
        assert_eq!(collector.counted(reason), Counted { times, octets }, "{reason:?}");
    }
    assert!(rates(&collector).is_empty());
    let Setting { topology, providers, .. } = setting("");
    let report = Report::new(&collector, window(), window(), &providers, &topology);
    assert_eq!((report.interfaces[0].index, report.strangers.len()), (9, 2));
    let text = report.to_string();
    assert!(
        text.contains("interface 9 of 192.0.2.1") && text.contains("from 2001:db8::1"),
        "{text}"
    );
}

#[test]
fn sampling_is_corrected_by_the_reported_factor() {
    let flows = encode::data(256, &[flow(1000, 1, 1, [10, 0, 0, 1], ago(9, 9))]);
    let options = encode::options_template(257, 1, &[(149, 4), (34, 4)]);
    let said = encode::data(257, &[vec![0, 0, 0, 0, 0, 0, 0, 100]]);
    // The sampler may come after the flows of its message.
    let mut sampled = collector("");
    take(&mut sampled, &message(0, &[template(), flows.clone(), options.clone(), said.clone()]));
    assert_eq!(rates(&sampled), [(0, 0, 0, 8000.0)]);
    let error = sampled.demands(window())[0].error;
    // One packet of at most 1500 octets, of which 1000 were counted.
    assert!((error - 1.96 * (0.99_f64 * 1.5).sqrt()).abs() < 1e-9, "{error}");
    // The table of exporters overrides the exporter.
    let mut overridden = collector("sampling = 10");
    take(&mut overridden, &message(0, &[template(), flows.clone(), options.clone(), said.clone()]));
    assert_eq!(rates(&overridden), [(0, 0, 0, 800.0)]);
    // The first flow has no sampling factor, which is reported; the second has the one of the
    // first.
    let mut unsaid = collector("");
    take(&mut unsaid, &message(0, &[template(), flows.clone()]));
    take(&mut unsaid, &message(1, &[options, said]));
    assert_eq!((rates(&unsaid), unsaid.heard[0].unsaid), (vec![(0, 0, 0, 80.0)], 1));
    unsaid.begin(MILLIS - 100_000, 100_000, 1);
    take(&mut unsaid, &message(0, &[template(), flows]));
    assert_eq!((rates(&unsaid), unsaid.heard[0].unsaid), (vec![(0, 0, 0, 8000.0)], 0));
}

#[test]
fn options_of_domain_0_hold_for_all_domains() {
    let mut collector = collector("");
    let options = encode::options_template(257, 1, &[(149, 4), (34, 4)]);
    let said = encode::data(257, &[vec![0, 0, 0, 0, 0, 0, 0, 10]]);
    take(&mut collector, &encode::ipfix(NOW, 0, 0, &[options, said]));
    let flows = encode::data(256, &[flow(1000, 1, 1, [10, 0, 0, 1], ago(9, 9))]);
    take(&mut collector, &encode::ipfix(NOW, 0, 77, &[template(), flows]));
    assert_eq!(rates(&collector), [(0, 0, 0, 800.0)]);
}

#[test]
fn a_late_template_and_lost_messages() {
    let mut collector = collector("");
    let records =
        |n: usize| encode::data(256, &vec![flow(1250, 1, 1, [10, 0, 0, 1], ago(9, 9)); n]);
    take(&mut collector, &message(0, &[records(2)]));
    assert_eq!(collector.counted(Reason::Template).times, 1, "it waits");
    take(&mut collector, &message(2, &[template()]));
    assert_eq!(collector.counted(Reason::Template).times, 0);
    assert_eq!(rates(&collector), [(0, 0, 0, 200.0)]);
    take(&mut collector, &message(2, &[records(4)]));
    assert_eq!(collector.lost(0), 0.0);
    // Four records are missing before these four.
    take(&mut collector, &message(10, &[records(4)]));
    assert_eq!(collector.lost(0), 4.0 / 12.0);
}

#[test]
fn an_empty_text_loses_nothing() {
    let mut collector = collector("");
    let fields: Vec<encode::Field> = [&FLOW[..], &[(82, 65535)]].concat();
    let record = |text: &[u8]| {
        [flow(1250, 1, 1, [10, 0, 0, 1], ago(9, 9)), vec![text.len() as u8], text.to_vec()].concat()
    };
    let data = encode::data(256, &[record(b"a"), record(b""), record(b"c")]);
    take(&mut collector, &message(0, &[encode::template(256, &fields), data]));
    take(&mut collector, &message(3, &[encode::data(256, &[record(b"d")])]));
    assert_eq!(collector.lost(0), 0.0);
    // Four times 1250 octets in 100 s.
    assert_eq!(rates(&collector), [(0, 0, 0, 400.0)]);
}

#[test]
fn records_that_cannot_be_read_are_told_and_count_as_lost() {
    let mut collector = collector("");
    let fields: Vec<encode::Field> = [&FLOW[..], &[(82, 65535)]].concat();
    let record = |length: u8| [flow(1250, 1, 1, [10, 0, 0, 1], ago(9, 9)), vec![length]].concat();
    let sets = [encode::template(256, &fields), encode::data(256, &[record(0), record(99)])];
    let troubles = take(&mut collector, &message(0, &sets));
    assert_eq!((troubles.len(), collector.counted(Reason::Malformed).times), (1, 1));
    assert!(troubles[0].what.contains("after its first 1 records"), "{}", troubles[0].what);
    take(&mut collector, &message(2, &[encode::data(256, &[record(0)])]));
    assert_eq!(rates(&collector), [(0, 0, 0, 200.0)]);
}

/// Traffic would come out a thousand times too small.
#[test]
fn a_sampling_rate_beside_an_empty_name_counts() {
    let mut collector = collector("");
    // selectorId, selectorName, samplingPacketInterval, samplingPacketSpace.
    let options = [(302, 8), (335, 65535), (305, 4), (306, 4)];
    let said = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 3, 0xe7].to_vec();
    let flows = encode::data(256, &[flow(1250, 1, 1, [10, 0, 0, 1], ago(9, 9))]);
    let sets =
        [template(), encode::options_template(257, 1, &options), encode::data(257, &[said]), flows];
    assert!(take(&mut collector, &message(0, &sets)).is_empty());
    // One packet of 1000: 1250 octets stand for 1.25 million, in 100 s.
    assert_eq!(rates(&collector), [(0, 0, 0, 100_000.0)]);
}

#[test]
fn a_template_of_both_families_goes_to_the_right_router() {
    let mut collector = collector("");
    let fields = [(1, 4), (252, 4), (12, 4), (28, 16)];
    let record = |four: [u8; 4], six: &str| {
        let six = six.parse::<std::net::Ipv6Addr>().unwrap().octets();
        [&1250_u32.to_be_bytes()[..], &1_u32.to_be_bytes(), &four, &six].concat()
    };
    let records = [record([10, 2, 0, 1], "::"), record([0; 4], "2001:db8::7")];
    let sets = [encode::template(256, &fields), encode::data(256, &records)];
    // The time of the records is that of their export, so that must be in the window.
    take(&mut collector, &encode::ipfix(NOW - 10, 0, 0, &sets));
    assert_eq!(rates(&collector), [(0, 0, 0, 100.0), (0, 0, 1, 100.0)]);
}

#[test]
fn netflow_5_is_collected() {
    let mut collector = collector("");
    let mut octets = super::super::decoder::tests::NETFLOW5;
    // Both records are sampled one of 100, within a second before the export.
    octets[8..12].copy_from_slice(&(NOW - 10).to_be_bytes());
    assert!(take(&mut collector, &octets).is_empty());
    // 3000 and 40 octets, times 100, in 100 s: 10.1/16 is at B by interface 3, the rest at A.
    assert_eq!(rates(&collector), [(0, 0, 0, 320.0), (1, 0, 1, 24_000.0)]);
    octets[19] = 9 + 4;
    take(&mut collector, &octets);
    assert_eq!(collector.lost(0), 4.0 / 8.0, "four records are missing before the two");
}

/// The datagrams of `sflow::tests`, which came in at the collector's interface 3 of y, and by IPv6
/// at interface 1 of x.
fn sflow_messages() -> (Vec<u8>, Vec<u8>) {
    let (ipv4, mut ipv6) =
        (super::super::sflow::tests::IPV4.to_vec(), super::super::sflow::tests::IPV6.to_vec());
    for at in [56, 76] {
        ipv6[at..at + 4].copy_from_slice(&[0, 0, 0, 1]);
    }
    (ipv4, ipv6)
}

/// Takes a datagram of sFlow that arrives in the window.
fn take_sflow(collector: &mut Collector, octets: &[u8]) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    collector.datagram(EXPORTER, octets, MILLIS - 1000, &mut |t| troubles.push(t));
    troubles
}

#[test]
fn sflow_is_collected() {
    let mut collector = collector("");
    let (ipv4, ipv6) = sflow_messages();
    for octets in [&ipv4, &ipv6] {
        assert_eq!(take_sflow(&mut collector, octets), []);
    }
    // 1500 octets, one packet of 1000, in 100 s, are 120 kbit/s to 10.1/16 at B. 100 octets, one
    // of 512, are 4096 bit/s to 2001:db8::/32 at B.
    assert_eq!(rates(&collector), [(0, 0, 1, 4096.0), (1, 0, 1, 120_000.0)]);
    assert_eq!(collector.counted(Reason::Packetless).times, 1);
    assert_eq!((collector.heard[0].messages, collector.heard[0].flows), (2, 2));
    assert_eq!((collector.heard[0].unsaid, collector.heard[0].factors), (0, Some((512.0, 1000.0))));
    assert_eq!(collector.exported(), Some(Window { begin: MILLIS - 1000, end: MILLIS - 1000 }));
    // The table of exporters overrides the agent.
    let mut overridden = self::collector("sampling = 10");
    take_sflow(&mut overridden, &ipv4);
    assert_eq!(rates(&overridden), [(1, 0, 1, 1200.0)]);
}

#[test]
fn losses_of_sflow_are_messages_and_drops() {
    let mut collector = collector("");
    let (mut octets, _) = sflow_messages();
    let mut take = |message: u8, sample: u8, drops: u8| {
        (octets[19], octets[39], octets[55]) = (message, sample, drops);
        assert_eq!(take_sflow(&mut collector, &octets), []);
        (collector.lost(0), collector.counted(Reason::Dropped).times)
    };
    assert_eq!(take(9, 21, 2), (0.0, 0), "what was dropped before is not known");
    // One message is missing: 1 of 3. One sample was dropped: 1 of 3. Of what was sampled,
    // 1 - 2/3 * 2/3 did not arrive.
    let (lost, dropped) = take(11, 23, 3);
    assert!((lost - 5.0 / 9.0).abs() < 1e-12, "{lost}");
    assert_eq!(dropped, 1);
    // The missing one is late: 1 of 4 was dropped.
    assert_eq!(take(10, 22, 2), (1.0 / 4.0, 1));
}

#[test]
fn samples_that_are_no_flows_are_counted_by_reason() {
    let mut collector = collector("");
    let (ipv4, _) = sflow_messages();
    let changed = |changes: &[(usize, u8)]| {
        let mut octets = ipv4.clone();
        for (at, value) in changes {
            octets[*at] = *value;
        }
        octets
    };
    // ARP behind the tag; sampled at its output; at an interface of nobody.
    assert_eq!(take_sflow(&mut collector, &changed(&[(133, 6)])), []);
    assert_eq!(take_sflow(&mut collector, &changed(&[(43, 4), (19, 10)])), []);
    assert_eq!(take_sflow(&mut collector, &changed(&[(59, 9), (19, 11)])), []);
    // A record that is longer than its sample.
    let troubles = take_sflow(&mut collector, &changed(&[(75, 200), (19, 12)]));
    assert_eq!((troubles.len(), troubles[0].at), (1, 28));
    let bad = take_sflow(&mut collector, &[0, 0, 0, 5, 0, 0, 0, 9]);
    assert!(bad[0].what.contains("unknown type 9"), "{}", bad[0].what);
    let old = take_sflow(&mut collector, &[0, 0, 0, 4, 0, 0, 0, 1]);
    assert!(old[0].what.contains("is sFlow v4"), "{}", old[0].what);
    let expected = [
        (Reason::NotIp, 1, 0.0),
        (Reason::Leaving, 1, 1.5e6),
        (Reason::Interface, 1, 1.5e6),
        (Reason::Malformed, 2, 0.0),
        (Reason::Version, 1, 0.0),
        (Reason::Packetless, 4, 0.0),
    ];
    for (reason, times, octets) in expected {
        assert_eq!(collector.counted(reason), Counted { times, octets }, "{reason:?}");
    }
    assert_eq!(rates(&collector), []);
}

#[test]
fn sflow_in_a_file_without_times_is_told() {
    let mut collector = collector("");
    let (ipv4, _) = sflow_messages();
    let troubles = file(&mut collector, &ipv4);
    assert!(troubles[0].what.contains("sFlow v5, which has no time"), "{}", troubles[0].what);
    assert_eq!(collector.counted(Reason::Version).times, 1);
}

/// Takes a file, and returns its errors.
fn file(collector: &mut Collector, octets: &[u8]) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    collector.file(EXPORTER, octets, &mut |t| troubles.push(t));
    troubles
}

#[test]
fn zeros_in_a_file_cost_no_message() {
    let flows = encode::data(256, &[flow(1250, 1, 1, [10, 0, 0, 1], ago(9, 9))]);
    let ipfix = [message(0, &[template(), flows.clone()]), message(1, &[flows])];
    let (fields, record) = ([(1, 4), (10, 4), (12, 4)], [0, 0, 4, 0xe2, 0, 0, 0, 1, 10, 0, 0, 1]);
    let data = encode::data(256, &[record.to_vec()]);
    let netflow = |sequence, sets: &[Vec<u8>]| {
        let mut message = encode::netflow(NOW - 10, 1, sequence, 0, sets);
        message[3] = sets.len() as u8;
        message
    };
    let netflow =
        [netflow(0, &[encode::netflow_template(256, &fields), data.clone()]), netflow(1, &[data])];
    for messages in [&ipfix, &netflow] {
        for zeros in [1, 7, 64, 1472] {
            let mut collector = collector("");
            let whole = [&messages[0][..], &vec![0; zeros], &messages[1]].concat();
            let troubles = file(&mut collector, &whole);
            assert_eq!(rates(&collector), [(0, 0, 0, 200.0)], "{zeros} zeros");
            assert_eq!((troubles.len(), troubles[0].at), (1, messages[0].len()), "{zeros} zeros");
            assert_eq!(collector.lost(0), 0.0);
        }
        let mut collector = collector("");
        assert_eq!(file(&mut collector, &messages.concat()), []);
        assert_eq!(rates(&collector), [(0, 0, 0, 200.0)]);
    }
    // A message that is cut off at the end is told.
    let mut collector = collector("");
    let cut = file(&mut collector, &ipfix.concat()[..ipfix[0].len() + 30]);
    assert_eq!((cut.len(), cut[0].at), (1, ipfix[0].len()));
    assert_eq!(rates(&collector), [(0, 0, 0, 100.0)]);
}

#[test]
fn domains_are_bounded() {
    let mut collector = collector("");
    for domain in 0..MOST_DOMAINS_OF_ONE as u32 + 3 {
        take(&mut collector, &encode::ipfix(NOW, 0, domain, &[template()]));
    }
    assert_eq!(collector.domains.len(), MOST_DOMAINS_OF_ONE);
    assert_eq!(collector.counted(Reason::Domain).times, 3);
    let again = encode::ipfix(
        NOW,
        0,
        5,
        &[encode::data(256, &[flow(1250, 1, 1, [10, 0, 0, 1], ago(9, 9))])],
    );
    take(&mut collector, &again);
    assert_eq!(rates(&collector), [(0, 0, 0, 100.0)], "those that are there go on");
}

#[test]
fn ipv6_and_netflow_are_collected() {
    let mut collector = collector("");
    let fields = [(1, 4), (10, 2), (28, 16), (22, 4), (21, 4)];
    let to = "2001:db8::7".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let times = [50_000_u32, 60_000].map(u32::to_be_bytes).concat();
    let record = [&1250_u32.to_be_bytes()[..], &[0, 1], &to, &times].concat();
    let sets = [encode::netflow_template(256, &fields), encode::data(256, &[record])];
    assert!(take(&mut collector, &encode::netflow(NOW, 100_000, 1, 9, &sets)).is_empty());
    assert_eq!(rates(&collector), [(0, 0, 1, 100.0)]);
}

#[test]
fn silent_exporters_are_listed() {
    let mut collector = collector("");
    assert_eq!(collector.silent(MILLIS), [EXPORTER]);
    take(&mut collector, &message(0, &[template()]));
    assert!(collector.silent(MILLIS).is_empty());
    assert_eq!(collector.silent(MILLIS + 1), [EXPORTER]);
    let Setting { prefixes, exporters, .. } = setting("optional = true");
    assert!(Collector::new(exporters, &prefixes, Grain::Router).silent(MILLIS).is_empty());
}

#[test]
fn written_demands_and_shares_are_read_back() {
    let mut collector = collector("");
    let records =
        [flow(125_000, 9, 1, [10, 2, 0, 1], ago(9, 1)), flow(0, 1, 3, [10, 0, 0, 1], ago(9, 1))];
    take(&mut collector, &message(0, &[template(), encode::data(256, &records)]));
    let Setting { topology, providers, prefixes, .. } = setting("");
    let demands = report::demands(&collector.demands(window()));
    assert_eq!(demands.len(), 1, "no traffic is no demand");
    let text = crate::estimate::csv_of(&demands, &providers, &topology);
    assert_eq!(input::demands_csv("d".as_ref(), &text, &providers, &topology).unwrap(), demands);
    let text = report::shares(&collector, window(), &prefixes, &topology);
    let read = input::prefixes("x".as_ref(), &text, &topology).unwrap();
    let shares: Vec<f64> = read.values().map(|u| u.share).collect();
    assert_eq!(shares, [0.01, 1e-6, 1e-6]);
    assert_eq!(Report::new(&collector, window(), window(), &providers, &topology).unmeasured, []);
}

/// A flow of the property: octets of its packets, interface, destination, and times.
type Synthetic = (Vec<u16>, u32, u8, (i64, i64));

fn synthetic() -> impl Strategy<Value = Synthetic> {
    let packets = prop::collection::vec(40_u16..1500, 1..200);
    (packets, 1_u32..=3, 0_u8..2, (0_i64..200, 0_i64..100))
}

/// Encodes flows in messages of a few, as IPFIX or NetFlow v9; each packet is taken with
/// probability 1 / `factor`.
fn encoded(
    flows: &[Synthetic],
    factor: u32,
    netflow: bool,
    random: &mut ChaCha8Rng,
) -> Vec<Vec<u8>> {
    let fields: &[encode::Field] =
        if netflow { &[(1, 8), (2, 4), (10, 4), (12, 4), (22, 4), (21, 4)] } else { &FLOW };
    let mut records = Vec::new();
    for (packets, input, net, (start, length)) in flows {
        let taken: Vec<u64> = packets
            .iter()
            .filter(|_| random.next_u32().is_multiple_of(factor))
            .map(|octets| u64::from(*octets))
            .collect();
        if taken.is_empty() {
            continue;
        }
        let (start, end) = ago(*start, start - length);
        let (octets, count, to) = (taken.iter().sum(), taken.len() as u32, [10, *net, 0, 1]);
        let mut record = flow(octets, count, *input, to, (start, end));
        if netflow {
            record.truncate(20);
            for at in [start, end] {
                // The exporter was up for 1000 s.
                record.extend(((at as i64 - MILLIS + 1_000_000) as u32).to_be_bytes());
            }
        }
        records.push(record);
    }
    let sampler = factor.to_be_bytes().to_vec();
    let mut sequence = 0;
    let mut messages = Vec::new();
    for (part, number) in records.chunks(7).zip(0..) {
        let mut sets = Vec::new();
        if number == 0 && netflow {
            sets.push(encode::netflow_template(256, fields));
            sets.push(encode::netflow_options_template(257, &[(1, 0)], &[(34, 4)]));
            sets.push(encode::data(257, std::slice::from_ref(&sampler)));
        } else if number == 0 {
            sets.push(encode::template(256, fields));
            sets.push(encode::options_template(257, 1, &[(149, 4), (34, 4)]));
            sets.push(encode::data(257, &[[vec![0; 4], sampler.clone()].concat()]));
        }
        sets.push(encode::data(256, part));
        messages.push(match netflow {
            true => encode::netflow(NOW, 1_000_000, number, 0, &sets),
            false => encode::ipfix(NOW, sequence, 0, &sets),
        });
        sequence += part.len() as u32 + u32::from(number == 0);
    }
    messages
}

/// Returns the true octets of the flows in the window, by entry and network.
fn truth(flows: &[Synthetic]) -> BTreeMap<(u32, u8), f64> {
    let mut sums = BTreeMap::new();
    for (packets, input, net, (start, length)) in flows {
        let (start, end) = ago(*start, start - length);
        let span = crate::flows::time::Span { start: start as i64, end: end as i64 };
        let octets: f64 = packets.iter().map(|o| f64::from(*o)).sum();
        *sums.entry((*input, *net)).or_default() += octets * window().share(span);
    }
    sums
}

fn measured(
    flows: &[Synthetic],
    factor: u32,
    netflow: bool,
    seed: u64,
) -> BTreeMap<(u32, u8), Measured> {
    let mut collector = collector("");
    for message in encoded(flows, factor, netflow, &mut ChaCha8Rng::seed_from_u64(seed)) {
        assert_eq!(take(&mut collector, &message), []);
    }
    assert_eq!(collector.lost(0), 0.0);
    let by = |m: Measured| {
        let input = match (m.place.provider, m.place.entry) {
            (0, 0) => 1,
            (0, _) => 2,
            _ => 3,
        };
        ((input, m.router.0 as u8), m)
    };
    collector.demands(window()).into_iter().map(by).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn unsampled_flows_are_measured_exactly(
        flows in prop::collection::vec(synthetic(), 1..60),
        netflow in any::<bool>(),
    ) {
        let measured = measured(&flows, 1, netflow, 0);
        for (key, octets) in truth(&flows) {
            let rate = measured.get(&key).map_or(0.0, |m| m.rate);
            prop_assert!((rate - octets * 8.0 / 100.0).abs() <= 1e-6 * rate.max(1.0), "{key:?}");
        }
    }

    /// Within six standard deviations, of which the error has 1.96.
    #[test]
    fn sampled_flows_are_measured_within_the_error(
        flows in prop::collection::vec(synthetic(), 40..120),
        factor in 2_u32..8,
        netflow in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let measured = measured(&flows, factor, netflow, seed);
        let (mut all, mut variance, mut sum) = (0.0, 0.0, 0.0);
        for (key, octets) in truth(&flows) {
            all += octets * 8.0 / 100.0;
            if let Some(m) = measured.get(&key) {
                variance += (m.rate * m.error / 1.96).powi(2);
                sum += m.rate;
            }
        }
        prop_assert!((sum - all).abs() <= 6.0 * variance.sqrt() + 1e-6, "{sum} of {all}");
    }
}

#[test]
fn the_mean_of_a_hundred_samplings_is_right() {
    let packets = |n: usize| (0..n).map(|i| if i % 2 == 0 { 1500 } else { 40 }).collect();
    let flows: Vec<Synthetic> = (0..20).map(|n| (packets(100 + n), 1, 0, (90, 50))).collect();
    let truth = truth(&flows)[&(1, 0)] * 8.0 / 100.0;
    let sampled: Vec<Measured> =
        (0..100).map(|seed| measured(&flows, 10, seed % 2 == 0, seed)[&(1, 0)]).collect();
    let mean = sampled.iter().map(|m| m.rate).sum::<f64>() / 100.0;
    // 2190 packets, one of 10: the deviation of each sampling is about 8 %, and that of the mean
    // about 0.8 %.
    assert!((mean / truth - 1.0).abs() < 0.03, "{mean} of {truth}");
    let within = sampled.iter().filter(|m| (m.rate - truth).abs() <= m.error * m.rate).count();
    assert!(within >= 88, "{within} of 100 are within the error that is said");
}

/// Returns a field of Protocol Buffers with a number below 16 and octets.
fn octets_field(number: u8, octets: &[u8]) -> Vec<u8> {
    let length = octets.len();
    let length = [(length & 0x7f) as u8 | 0x80, (length >> 7) as u8];
    [&[number << 3 | 2][..], &length, octets].concat()
}

/// Returns a field of Protocol Buffers with a number.
fn number_field(number: u8, mut value: u64) -> Vec<u8> {
    let mut field = match number {
        ..16 => vec![number << 3],
        _ => vec![(number << 3) | 0x80, number >> 4],
    };
    while value >= 0x80 {
        field.push(value as u8 | 0x80);
        value >>= 7;
    }
    field.push(value as u8);
    field
}

#[test]
fn relayed_records_and_datagrams_count_as_direct_ones() {
    let mut collector = collector("");
    let mut troubles = Vec::new();
    let nanos = |seconds: i64| ((MILLIS - seconds * 1000) * 1_000_000) as u64;
    // Of goflow2: 1250 octets, of one packet in 100, to 10.2.0.1 at interface 1, all in the window.
    let record = [
        &[8, 4][..],
        &octets_field(7, &[10, 2, 0, 1]),
        &number_field(9, 1250),
        &number_field(10, 1),
        &octets_field(11, &[192, 0, 2, 1]),
        &number_field(18, 1),
        &number_field(3, 100),
        &number_field(110, nanos(5)),
        &number_field(111, nanos(90)),
        &number_field(112, nanos(10)),
    ]
    .concat();
    let mut take =
        |relay, octets: &[u8]| collector.relayed(relay, octets, &mut |t| troubles.push(t));
    take(Relay::Goflow2, &record);
    // Of akvorado: the same template and a record as a router sent it.
    let records = [flow(250_000, 100, 3, [10, 1, 0, 9], ago(50, 50))];
    let message = message(0, &[template(), encode::data(256, &records)]);
    let datagram = [
        &number_field(1, u64::from(NOW))[..],
        &octets_field(2, &message),
        &octets_field(3, &std::net::Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets()),
        &[0x28, 1],
    ]
    .concat();
    take(Relay::Akvorado, &datagram);
    for broken in [&record[..record.len() - 1], &[8, 4, 0x5a, 4, 192, 0, 2, 9], &[8, 7]] {
        take(Relay::Goflow2, broken);
    }
    take(Relay::Akvorado, &datagram[..9]);
    assert_eq!(rates(&collector), [(0, 0, 0, 10_000.0), (1, 0, 1, 20_000.0)]);
    let counted = |reason| collector.counted(reason).times;
    let reasons = [Reason::Malformed, Reason::Version, Reason::Exporter];
    assert_eq!(reasons.map(counted), [2, 1, 1]);
    assert_eq!(troubles.len(), 3);
    assert!(troubles[0].what.starts_with("the message cannot be read: it ends"), "{troubles:?}");
    let heard = &collector.heard[0];
    assert_eq!((heard.messages, heard.flows, heard.factors), (2, 2, Some((1.0, 100.0))));
    assert_eq!(heard.last, Some(MILLIS), "it is the time at the relay");
}

#[test]
fn a_file_of_relayed_messages_is_read_up_to_what_is_broken() {
    let mut collector = collector("");
    let record = [&[8, 4][..], &octets_field(11, &[192, 0, 2, 1])].concat();
    let one = [&[record.len() as u8][..], &record].concat();
    let file = [&one[..], &one, &one[..4]].concat();
    let mut troubles = Vec::new();
    collector.relayed_file(Relay::Goflow2, &file, &mut |t| troubles.push(t));
    assert_eq!(collector.heard[0].messages, 2);
    assert_eq!((troubles.len(), troubles[0].at), (1, 2 * one.len()));
    assert!(troubles[0].what.contains("ends early"), "{troubles:?}");
}
