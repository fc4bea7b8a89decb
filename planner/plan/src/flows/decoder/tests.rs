use proptest::prelude::*;

use super::*;
use crate::flows::encode;
use crate::flows::message;
use crate::flows::time::Span;

/// Decodes all sets of a message.
fn decode(decoder: &mut Decoder, octets: &[u8]) -> Vec<Result<Decoded, Undecoded>> {
    let message = message::first(octets).unwrap();
    assert_eq!((message.length, message.broken), (octets.len(), None));
    let version = message.header.version;
    message.sets.iter().map(|set| decoder.set(version, &octets[set.place.clone()])).collect()
}

fn flows(decoder: &mut Decoder, octets: &[u8]) -> Vec<Fields> {
    let decoded = decode(decoder, octets).into_iter().map(Result::unwrap);
    decoded
        .flat_map(|d| {
            assert_eq!(d.unread, None);
            d.flows
        })
        .collect()
}

/// A template, a flow of it with padding of two octets, an options template with a sampler by
/// interface, and its record.
#[rustfmt::skip]
const NETFLOW: [u8; 108] = [
    0, 9,  0, 4,  0, 0, 0x10, 0,  0, 0, 0, 100,  0, 0, 0, 1,  0, 0, 0, 7,
    // Template 260: IN_BYTES, INPUT_SNMP in two octets, IPV4_DST_ADDR, FIRST_SWITCHED,
    // LAST_SWITCHED.
    0, 0,  0, 28,  1, 4,  0, 5,  0, 1, 0, 4,  0, 10, 0, 2,  0, 12, 0, 4,  0, 22, 0, 4,  0, 21, 0, 4,
    1, 4,  0, 24,  0, 0, 5, 0xdc,  0, 3,  198, 51, 100, 7,  0, 0, 0x0c, 0,  0, 0, 0x0f, 0,  0, 0,
    // Options template 261: scope interface, FLOW_SAMPLER_RANDOM_INTERVAL, and one octet of an
    // unused element.
    0, 1,  0, 24,  1, 5,  0, 4,  0, 8,  0, 2, 0, 4,  0, 50, 0, 2,  0, 49, 0, 1,  0, 0,
    1, 5,  0, 12,  0, 0, 0, 3,  0, 100,  2,  0,
];

#[test]
fn netflow_octet_by_octet() {
    let mut decoder = Decoder::new();
    let message = message::first(&NETFLOW).unwrap();
    let mut decoded = decode(&mut decoder, &NETFLOW).into_iter().map(Result::unwrap);
    assert_eq!(decoded.next().unwrap().learned, [260]);
    let data = decoded.next().unwrap();
    assert_eq!((data.flows.len(), data.unread), (1, None));
    let flow = data.flows[0];
    assert_eq!((flow.octets, flow.packets, flow.interface()), (Some(1500), None, Some(3)));
    assert_eq!(flow.destination(), Some("198.51.100.7".parse().unwrap()));
    let span = Span { start: 100_000 - 0x400, end: 100_000 - 0x100 };
    assert_eq!(flow.span(&message.header, None), Some(span));
    assert_eq!(decoded.next().unwrap().learned, [261]);
    let options = decoded.next().unwrap();
    assert_eq!((options.options.len(), options.unread), (1, None));
    assert_eq!(options.options[0].interface(), Some(3));
    assert_eq!(options.options[0].sampling.factor(), Some(100.0));
}

/// A template with a variable length, an element of an enterprise and octets in five; two flows to
/// IPv6 addresses, the second with the long form of a length; an options template with a selector.
#[rustfmt::skip]
const IPFIX: [u8; 174] = [
    0, 10,  0, 174,  0, 0, 0, 100,  0, 0, 0, 0,  0, 0, 0, 7,
    // Template 256: interfaceName, an element of 32473, octetDeltaCount, destinationIPv6Address,
    // flowEndSeconds.
    0, 2,  0, 32,  1, 0,  0, 5,  0, 82, 0xff, 0xff,  0x80, 1, 0, 1, 0, 0, 0x7e, 0xd9,  0, 1, 0, 5,  0, 28, 0, 16,  0, 151, 0, 4,
    1, 0,  0, 66,
    2, b'e', b'0',  9,  0, 0, 0, 1, 0,  0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,  0, 0, 0, 90,
    255, 0, 3, b'e', b't', b'1',  9,  1, 0, 0, 0, 0,  0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,  0, 0, 0, 91,
    0,
    // Options template 257: scope selectorId, then selectorAlgorithm, samplingPacketInterval,
    // samplingPacketSpace.
    0, 3,  0, 28,  1, 1,  0, 4,  0, 1,  1, 0x2e, 0, 8,  1, 0x30, 0, 2,  1, 0x31, 0, 4,  1, 0x32, 0, 4,  0, 0,
    1, 1,  0, 22 + 10,
    0, 0, 0, 0, 0, 0, 0, 5,  0, 1,  0, 0, 0, 1,  0, 0, 1, 0xff,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

#[test]
fn ipfix_octet_by_octet() {
    let mut decoder = Decoder::new();
    let message = message::first(&IPFIX).unwrap();
    let mut decoded = decode(&mut decoder, &IPFIX).into_iter().map(Result::unwrap);
    assert_eq!(decoded.next().unwrap().learned, [256]);
    let data = decoded.next().unwrap();
    assert_eq!((data.flows.len(), data.unread), (2, None));
    let octets: Vec<_> = data.flows.iter().map(|f| f.octets.unwrap()).collect();
    assert_eq!(octets, [256, 1 << 32]);
    assert_eq!(data.flows[1].destination(), Some("2001:db8::2".parse().unwrap()));
    let end = data.flows[1].span(&message.header, None).unwrap();
    assert_eq!(end, Span { start: 91_000, end: 91_000 });
    assert_eq!(decoded.next().unwrap().learned, [257]);
    let options = decoded.next().unwrap().options;
    assert_eq!((options.len(), options[0].selector), (1, Some(5)));
    assert_eq!(options[0].sampling.factor(), Some(512.0));
}

#[test]
fn a_set_before_its_template_waits_with_its_own_header() {
    let template = encode::netflow_template(300, &[(1, 4), (22, 4)]);
    let record = |octets: u32| [octets.to_be_bytes(), 500_u32.to_be_bytes()].concat();
    let early = encode::netflow(50, 1000, 1, 0, &[encode::data(300, &[record(7), record(8)])]);
    let mut decoder = Decoder::new();
    let message = message::first(&early).unwrap();
    let set = &early[message.sets[0].place.clone()];
    assert_eq!(decoder.set(Version::Netflow9, set), Err(Undecoded::NoTemplate));
    assert!(decoder.wait(message.header, 300, set));
    assert!(decoder.waited(&[299]).is_empty() && decoder.waiting() == 1);
    let late = encode::netflow(60, 11_000, 2, 0, &[template]);
    assert_eq!(decode(&mut decoder, &late)[0].as_ref().unwrap().learned, [300]);
    let waited = decoder.waited(&[300]);
    let (header, decoded) = &waited[0];
    let flows = &decoded.as_ref().unwrap().flows;
    assert_eq!((flows.len(), flows[1].octets), (2, Some(8)));
    let span = flows[0].span(header, None).unwrap();
    assert_eq!((waited.len(), span.start), (1, 49_500), "by the header that it came with");
    assert_eq!(decoder.waiting(), 0);
}

#[test]
fn waiting_sets_are_bounded() {
    let mut decoder = Decoder::new();
    let mut wait = |octets: usize, times: usize| {
        let message = encode::ipfix(1, 0, 0, &[encode::data(400, &[vec![0; octets]])]);
        let found = message::first(&message).unwrap();
        let set = &message[found.sets[0].place.clone()];
        (0..times).filter(|_| decoder.wait(found.header, 400, set)).count()
    };
    assert_eq!(wait(30_000, 10), 2);
    assert_eq!(wait(10, 100), MAX_WAITING - 2);
    decoder.waited(&[400]);
    assert_eq!((decoder.waiting_octets, decoder.waiting()), (0, 0));
}

#[test]
fn templates_are_bounded_and_replaced() {
    let mut decoder = Decoder::new();
    let learn = |decoder: &mut Decoder, number: u16, fields: &[encode::Field]| {
        decode(decoder, &encode::ipfix(1, 0, 0, &[encode::template(number, fields)])).remove(0)
    };
    let read = |decoder: &mut Decoder, number: u16| {
        let message = encode::ipfix(1, 0, 0, &[encode::data(number, &[vec![0, 0, 0, 9]])]);
        decode(decoder, &message).remove(0)
    };
    let most = MAX_TEMPLATES as u16;
    for number in 256..=256 + most {
        learn(&mut decoder, number, &[(1, 4)]).unwrap();
    }
    assert_eq!(read(&mut decoder, 256), Err(Undecoded::NoTemplate), "it was learned first");
    assert_eq!(read(&mut decoder, 256 + most).unwrap().flows[0].octets, Some(9));
    learn(&mut decoder, 256 + most, &[(2, 4)]).unwrap();
    assert_eq!(read(&mut decoder, 256 + most).unwrap().flows[0].packets, Some(9));
    let wide: Vec<encode::Field> = vec![(1, 4); MAX_FIELDS + 1];
    assert!(matches!(learn(&mut decoder, 300, &wide), Err(Undecoded::Unreadable(_))));
    assert!(matches!(learn(&mut decoder, 300, &[(1, 0)]), Err(Undecoded::Unreadable(_))));
}

#[test]
fn a_field_without_octets_has_no_value() {
    let template = encode::netflow_template(256, &[(95, 0), (1, 4), (2, 0)]);
    let data = encode::data(256, &[vec![0, 0, 0, 1], vec![0, 0, 0, 2]]);
    let mut decoder = Decoder::new();
    let found = flows(&mut decoder, &encode::netflow(1, 1, 1, 1, &[template, data]));
    let found: Vec<_> = found.iter().map(|f| (f.octets, f.packets)).collect();
    assert_eq!(found, [(Some(1), None), (Some(2), None)]);
}

#[test]
fn an_empty_text_costs_nothing() {
    let template = encode::template(256, &[(1, 4), (82, 65535), (2, 1)]);
    let record = |octets: u8, text: &[u8]| {
        [&[0, 0, 0, octets, text.len() as u8], text, &[octets + 1]].concat()
    };
    let long = [&[0, 0, 0, 4, 255, 0, 0][..], &[5]].concat();
    let data = encode::data(256, &[record(1, b"a"), record(2, b""), record(3, b"c"), long]);
    let mut decoder = Decoder::new();
    let found = flows(&mut decoder, &encode::ipfix(1, 0, 0, &[template, data]));
    let found: Vec<_> = found.iter().map(|f| (f.octets.unwrap(), f.packets.unwrap())).collect();
    assert_eq!(found, [(1, 2), (2, 3), (3, 4), (4, 5)]);
}

#[test]
fn records_before_a_broken_one_are_kept() {
    let template = encode::template(256, &[(1, 4), (82, 65535)]);
    let data = encode::data(256, &[vec![0, 0, 0, 1, 0], vec![0, 0, 0, 2, 9, b'x']]);
    let mut decoder = Decoder::new();
    let decoded = decode(&mut decoder, &encode::ipfix(1, 0, 0, &[template, data])).remove(1);
    let decoded = decoded.unwrap();
    assert_eq!((decoded.flows.len(), decoded.unread), (1, Some("a field is longer than the set")));
    // A set that is shorter than a record has none, and says so.
    let short = encode::data(256, &[vec![0, 0, 1]]);
    let decoded = decode(&mut decoder, &encode::ipfix(1, 0, 0, &[short])).remove(0).unwrap();
    assert!(decoded.flows.is_empty() && decoded.unread.is_some());
    // Zeros of up to three octets are padding.
    let padded = encode::data(256, &[vec![0, 0, 0, 1, 0], vec![0, 0, 0]]);
    assert_eq!(flows(&mut decoder, &encode::ipfix(1, 0, 0, &[padded])).len(), 1);
}

#[test]
fn templates_before_a_broken_one_are_kept() {
    let two = [256_u16, 1, 1, 4, 257, 9, 1, 4].map(u16::to_be_bytes).concat();
    let mut decoder = Decoder::new();
    let decoded = decode(&mut decoder, &encode::ipfix(1, 0, 0, &[encode::data(2, &[two])]));
    let decoded = decoded[0].as_ref().unwrap();
    assert_eq!((&decoded.learned[..], decoded.unread), (&[256][..], Some(TEMPLATE_CUT)));
}

#[test]
fn templates_are_withdrawn() {
    let learn = [encode::template(256, &[(1, 4)]), encode::template(257, &[(1, 4)])];
    let mut decoder = Decoder::new();
    decode(&mut decoder, &encode::ipfix(1, 0, 0, &learn));
    decode(&mut decoder, &encode::ipfix(1, 0, 0, &[encode::template(256, &[])]));
    let mut known = |number: u16| {
        let data = encode::data(number, &[vec![0, 0, 0, 1]]);
        decode(&mut decoder, &encode::ipfix(1, 0, 0, &[data])).remove(0).is_ok()
    };
    assert_eq!((known(256), known(257)), (false, true));
    decode(&mut decoder, &encode::ipfix(1, 0, 0, &[encode::template(2, &[])]));
    assert!(decoder.templates.is_empty());
}

/// A biflow: the counters of the other direction have the same numbers, of enterprise 29305.
#[test]
fn counters_of_the_reverse_direction_are_not_added() {
    // octetDeltaCount in 2 octets, the reverse of it in both orders.
    let forward = [0, 1, 0, 2];
    let reverse = [0x80, 1, 0, 2, 0, 0, 0x72, 0x79];
    for fields in [[&forward[..], &reverse].concat(), [&reverse[..], &forward].concat()] {
        let template = [&[1, 0, 0, 2][..], &fields].concat();
        let first_is_forward = fields[0] == 0;
        let record = if first_is_forward { vec![0, 7, 0, 9] } else { vec![0, 9, 0, 7] };
        let sets = [encode::data(2, &[template]), encode::data(256, &[record])];
        let found = flows(&mut Decoder::new(), &encode::ipfix(1, 0, 0, &sets));
        assert_eq!((found.len(), found[0].octets), (1, Some(7)));
    }
}

/// Two records of NetFlow v5, octet by octet.
#[rustfmt::skip]
pub(crate) const NETFLOW5: [u8; 24 + 2 * 48] = [
    0, 5,  0, 2,  0, 0, 0x10, 0,  0, 0, 0, 100,  0x1d, 0xcd, 0x65, 0,  0, 0, 0, 7,  0, 3,  0x40, 100,
    192, 0, 2, 77,  10, 1, 0, 9,  0, 0, 0, 0,  0, 3,  0, 4,  0, 0, 0, 2,  0, 0, 0x0b, 0xb8,
    0, 0, 0x0c, 0,  0, 0, 0x0f, 0,  0, 80, 1, 187,  0, 0, 6, 0,  0, 0, 0, 0,  0, 0, 0, 0,
    192, 0, 2, 78,  10, 2, 0, 9,  0, 0, 0, 0,  0, 1,  0, 4,  0, 0, 0, 1,  0, 0, 0, 40,
    0, 0, 0x0f, 0,  0, 0, 0x0f, 0,  0, 80, 1, 187,  0, 0, 6, 0,  0, 0, 0, 0,  0, 0, 0, 0,
];

#[test]
fn netflow_5_octet_by_octet() {
    let message = message::first(&NETFLOW5).unwrap();
    assert_eq!((message.length, message.header.exported), (NETFLOW5.len(), 100_500));
    assert_eq!((message.header.sequence, message.header.domain), (7, 3));
    let found = netflow5(&NETFLOW5);
    let [one, two] = &found[..] else { panic!("{found:?}") };
    assert_eq!((one.octets, one.packets, one.interface()), (Some(3000), Some(2), Some(3)));
    assert_eq!(one.destination(), Some("10.1.0.9".parse().unwrap()));
    assert_eq!(one.sampling.factor(), Some(100.0), "the upper two bits are the mode");
    let span = Span { start: 100_500 - 0x400, end: 100_500 - 0x100 };
    assert_eq!(one.span(&message.header, None), Some(span));
    assert_eq!((two.octets, two.interface()), (Some(40), Some(1)));
    for cut in 4..NETFLOW5.len() {
        assert_eq!(message::first(&NETFLOW5[..cut]), Err(message::NoMessage::Short(cut)));
    }
}

#[test]
fn a_full_set_of_small_records_is_read_whole() {
    let template = encode::template(256, &[(1, 4)]);
    let data = encode::data(256, &vec![vec![0, 0, 0, 1]; 16_000]);
    let mut decoder = Decoder::new();
    assert_eq!(flows(&mut decoder, &encode::ipfix(1, 0, 0, &[template, data])).len(), 16_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Messages with changed or missing octets are decoded or refused, and never hold more than
    /// their octets.
    #[test]
    fn broken_messages_do_no_harm(
        netflow in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut octets = if netflow { NETFLOW.to_vec() } else { IPFIX.to_vec() };
        for (at, value) in changes {
            let at = at.index(octets.len());
            octets[at] = value;
        }
        if cut {
            octets.truncate(length.index(octets.len()));
        }
        let Ok(message) = message::first(&octets) else { return Ok(()) };
        prop_assert!(message.length <= octets.len());
        let mut decoder = Decoder::new();
        for set in &message.sets {
            let place = &octets[set.place.clone()];
            if let Ok(decoded) = decoder.set(message.header.version, place) {
                prop_assert!(decoded.flows.len() + decoded.options.len() <= place.len());
            }
        }
    }
}
