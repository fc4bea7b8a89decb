//! Datagrams of sFlow.

use super::*;

/// The datagrams of `sflow::tests`, which came in at the collector's interface 3 of y, and by IPv6
/// at interface 1 of x.
fn sflow_messages() -> (Vec<u8>, Vec<u8>) {
    let (ipv4, mut ipv6) =
        (crate::flows::sflow::tests::IPV4.to_vec(), crate::flows::sflow::tests::IPV6.to_vec());
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
