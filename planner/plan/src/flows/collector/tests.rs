use std::collections::BTreeMap;

use super::*;
use crate::flows::encode::{self, FLOW, flow};
use crate::flows::relayed::Relay;
use crate::flows::report::{self, Report};
use crate::input;
use crate::network::Provider;
use crate::topology::{Router, Topology};

mod relayed;
mod sampled;
mod sflow;

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
    for domain in 0..MAX_DOMAINS_OF_ONE as u32 + 3 {
        take(&mut collector, &encode::ipfix(NOW, 0, domain, &[template()]));
    }
    assert_eq!(collector.domains.len(), MAX_DOMAINS_OF_ONE);
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
