//! Records that other collectors relay.

use super::*;

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
fn a_message_that_is_too_large_is_not_read() {
    let mut collector = collector("");
    let large = vec![0; crate::flows::relayed::MAX_MESSAGE + 1];
    let mut told = Vec::new();
    for relay in Relay::ALL {
        collector.relayed(relay, &large, &mut |trouble| told.push(trouble.what));
    }
    assert_eq!(collector.counted(Reason::Malformed).times, 2);
    assert!(told.iter().all(|what| what.contains("above the limit of 131072")), "{told:?}");
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
