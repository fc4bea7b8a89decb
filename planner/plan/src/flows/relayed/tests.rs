use super::*;
use crate::flows::record::Fields;

/// What goflow2 2.2.6 wrote, with `-format bin -transport file -transport.file.sep ""`, for a
/// record of IPFIX with IPv4 and one with IPv6, both sampled 1 in 1000, a record of NetFlow v5
/// sampled 1 in 100, and a sample of sFlow, 1 in 256, of a tagged frame of 1022 octets. Its format
/// `json` prints the values that are tested, in nanoseconds.
const GOFLOW2: &str = "\
    4d080418e80720013204c63364093a040a02000148c8d00750645a047f00\
    0001900101a00106f0018010b00407f006f59bac9bb8f088f618f80680b8\
    e8e19eed97f518800780f8e4e4c8ef97f51852080418e80720023a102001\
    0db80000000000000000000000094890a10f50c8015a047f000001900102\
    f001dd8d02b00407f006c3ceeffab8f088f618f80680d8a6e3b3ee97f518\
    800780d8a6e3b3ee97f51855080218643204c63364093a040a0100014888\
    27500a5a047f000001620400000000900103980109a00106a80101b00102\
    f0018010f0069fd3addab9f088f618f80680f8e4e4c8ef97f518800780dc\
    fcb4dbef97f51870080118800220013204c63364093a040a01000948fe07\
    50015a04c0000201900103980104a00111c80140d80182848890a040e001\
    82848890a040e80105f0018010ba060400060104c206040e041408f006f5\
    86d9babaf088f618f806f586d9babaf088f6188007f586d9babaf088f618";

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(octet).collect()
}

/// The octets, packets, interface, destination and sampling factor of a record.
type Summary = (Option<u64>, Option<u64>, Option<u32>, Option<String>, Option<f64>);

fn summary(fields: &Fields) -> Summary {
    let destination = fields.destination().map(|a| a.to_string());
    (fields.octets, fields.packets, fields.interface(), destination, fields.sampling.factor())
}

#[test]
fn records_of_goflow2_have_the_values_that_it_prints() {
    let file = octets(GOFLOW2);
    let records: Vec<Record> =
        Messages::new(Relay::Goflow2, &file).map(|m| goflow2(m.1.unwrap()).unwrap()).collect();
    let text = |a: &str| Some(a.to_owned());
    let expected = [
        (Some(125_000), Some(100), Some(1), text("10.2.0.1"), Some(1000.0)),
        (Some(250_000), Some(200), Some(2), text("2001:db8::9"), Some(1000.0)),
        (Some(5000), Some(10), Some(3), text("10.1.0.1"), Some(100.0)),
        // The frame without 14 octets of Ethernet and 4 of the tag.
        (Some(1004), Some(1), Some(3), text("10.1.0.9"), Some(256.0)),
    ];
    assert_eq!(records.iter().map(|r| summary(&r.fields)).collect::<Vec<_>>(), expected);
    let headers: Vec<_> = records.iter().map(|r| (r.header.version, r.header.domain)).collect();
    use Version::{Ipfix, Netflow5, Sflow5};
    assert_eq!(headers, [(Ipfix, 7), (Ipfix, 7), (Netflow5, 0), (Sflow5, 0)]);
    let exporters: Vec<_> = records.iter().map(|r| r.exporter.to_string()).collect();
    assert_eq!(exporters, ["127.0.0.1", "127.0.0.1", "127.0.0.1", "192.0.2.1"]);
    assert_eq!(records[0].header.exported, 1_795_849_399_166);
    let spans: Vec<_> = records.iter().map(|r| r.fields.span(&r.header, None).unwrap()).collect();
    let millis: Vec<_> = spans.iter().map(|s| (s.start, s.end)).collect();
    let received = 1_795_849_399_769;
    assert_eq!(
        millis[..2],
        [(1_795_352_310_000, 1_795_352_390_000), (1_795_352_350_000, 1_795_352_350_000)]
    );
    assert_eq!(millis[2..], [(1_795_352_390_000, 1_795_352_395_000), (received, received)]);
}

#[test]
fn a_message_may_have_its_length_in_front() {
    let file = octets(GOFLOW2);
    let (_, first) = Messages::new(Relay::Goflow2, &file).next().unwrap();
    let plain = first.unwrap();
    assert_eq!(goflow2(plain), goflow2(&file[..plain.len() + 1]));
    // Of nine octets, the first of which could be a length of eight: type 4, exporter 10.0.0.1.
    let nine = [0x08, 4, 0x5a, 4, 10, 0, 0, 1, 0x18];
    assert_eq!(goflow2(&nine).unwrap_err(), Unreadable::Protobuf(Malformed::Short(9)));
    assert_eq!(goflow2(&nine[..8]).unwrap().exporter.to_string(), "10.0.0.1");
}

#[test]
fn sampling_that_goflow2_does_not_know_stays_unknown() {
    let record = goflow2(&[0x08, 3, 0x5a, 4, 10, 0, 0, 1, 0x48, 100]).unwrap();
    assert_eq!(summary(&record.fields), (Some(100), None, None, None, None));
}

#[test]
fn interfaces_of_sflow_are_interfaces() {
    // The interface 3fffffff, and 80000002, which is of the output to two interfaces.
    for input in [&[0xff, 0xff, 0xff, 0xff, 3][..], &[0x82, 0x80, 0x80, 0x80, 8]] {
        let octets = [&[0x08, 1, 0x5a, 4, 10, 0, 0, 1, 0x90, 1], input].concat();
        assert_eq!(goflow2(&octets).unwrap().fields.interface(), None);
    }
}

#[test]
fn datagrams_of_akvorado_are_passed_on() {
    // By hand: the time 1795352400, a payload of two octets, ::ffff:192.0.2.1, and decoder 1.
    let message = octets("08d0ce8bd806 12020009 1a1000000000000000000000ffffc0000201 2801 3000");
    let datagram = akvorado(&message).unwrap();
    assert_eq!(datagram.received, 1_795_352_400_000);
    assert_eq!(
        (datagram.exporter.to_string().as_str(), datagram.payload),
        ("192.0.2.1", &[0, 9][..])
    );
    assert_eq!(akvorado(&octets("2803")), Err(Unreadable::Kind(3)));
    assert_eq!(akvorado(&octets("2801 1a0100")), Err(Unreadable::Exporter(1)));
}

#[test]
fn what_cannot_be_read_is_told() {
    assert_eq!(goflow2(&[]), Err(Unreadable::Kind(0)));
    assert_eq!(goflow2(&[0x08, 9]), Err(Unreadable::Kind(9)));
    assert_eq!(goflow2(&[0x08, 4, 0x5a, 1, 7]), Err(Unreadable::Exporter(1)));
    let messages = |file: &[u8]| {
        Messages::new(Relay::Goflow2, file)
            .map(|(at, m)| (at, m.map(<[u8]>::len)))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        messages(&[1, 7, 0, 2, 5]),
        [(1, Ok(1)), (3, Ok(0)), (3, Err(Unreadable::Short(1)))]
    );
    assert_eq!(messages(&[0xff, 0xff, 0xff, 0xff, 7]), [(0, Err(Unreadable::Length))]);
    assert_eq!(messages(&[]), []);
}

#[test]
fn messages_may_have_a_line_break_behind_them() {
    let file = octets(GOFLOW2);
    let plain: Vec<_> = Messages::new(Relay::Goflow2, &file).map(|m| m.1.unwrap()).collect();
    // A message of ten octets, whose length is that of a line break.
    let ten = [0x08, 4, 0x5a, 4, 10, 0, 0, 1, 0x48, 7];
    let all: Vec<&[u8]> = [&ten[..], &ten].into_iter().chain(plain).chain([&ten[..]]).collect();
    for separator in [&b""[..], b"\n"] {
        let mut file = Vec::new();
        for message in &all {
            file.extend([message.len() as u8]);
            file.extend_from_slice(message);
            file.extend(separator);
        }
        let read = Messages::new(Relay::Goflow2, &file).map(|m| m.1);
        assert_eq!(read.collect::<Result<Vec<_>, _>>(), Ok(all.clone()), "{separator:?}");
    }
    // akvorado writes none.
    let read: Vec<_> = Messages::new(Relay::Akvorado, &[1, 7, 10, 7]).map(|m| m.1).collect();
    assert_eq!(read, [Ok(&[7][..]), Err(Unreadable::Short(9))]);
    // As a message of Kafka, too.
    let one = [&[ten.len() as u8][..], &ten, b"\n"].concat();
    assert_eq!(goflow2(&one), goflow2(&ten));
}

#[test]
fn json_and_text_of_goflow2_are_named() {
    let json = b"{\"type\":\"IPFIX\",\"sampler_address\":\"192.0.2.1\"}\n";
    assert_eq!(goflow2(json), Err(Unreadable::Text("JSON")));
    let first = Messages::new(Relay::Goflow2, json).next().unwrap().1.unwrap_err();
    assert_eq!(first.to_string(), "is JSON: let goflow2 write with `-format bin`");
    let text = b"type:IPFIX sampler_address:192.0.2.1 bytes:1000\n";
    assert_eq!(Messages::new(Relay::Goflow2, text).count(), 1);
}
