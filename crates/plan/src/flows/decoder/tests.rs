use proptest::prelude::*;

use super::*;
use crate::flows::encode;
use crate::flows::message;
use crate::flows::time::Span;

/// Decodes all sets of a message.
fn decode(decoder: &mut Decoder, octets: &[u8]) -> Vec<Result<Decoded, Undecoded>> {
    let message = message::first(octets).unwrap();
    assert_eq!((message.length, message.broken), (octets.len(), None));
    message.sets.iter().map(|set| decoder.set(octets, &octets[set.place.clone()])).collect()
}

fn flows(decoder: &mut Decoder, octets: &[u8]) -> Vec<Fields> {
    let decoded = decode(decoder, octets).into_iter().map(Result::unwrap);
    decoded
        .flat_map(|d| {
            assert!(!d.unread);
            d.flows
        })
        .collect()
}

#[test]
fn the_configuration_is_valid() {
    assert!(configured().build().is_ok());
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
    let mut decoder = Decoder::new(Version::Netflow9);
    let message = message::first(&NETFLOW).unwrap();
    let mut decoded = decode(&mut decoder, &NETFLOW).into_iter().map(Result::unwrap);
    assert_eq!(decoded.next().unwrap().learned, [260]);
    let data = decoded.next().unwrap();
    assert_eq!((data.flows.len(), data.unread), (1, false));
    let flow = data.flows[0];
    assert_eq!((flow.octets, flow.packets, flow.input), (Some(1500), None, Some(3)));
    assert_eq!(flow.destination, Some("198.51.100.7".parse().unwrap()));
    let span = Span { start: 100_000 - 0x400, end: 100_000 - 0x100 };
    assert_eq!(flow.span(&message.header, None), Some(span));
    assert_eq!(decoded.next().unwrap().learned, [261]);
    let options = decoded.next().unwrap();
    assert_eq!((options.options.len(), options.unread), (1, false));
    assert_eq!(options.options[0].input, Some(3));
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
    let mut decoder = Decoder::new(Version::Ipfix);
    let message = message::first(&IPFIX).unwrap();
    let mut decoded = decode(&mut decoder, &IPFIX).into_iter().map(Result::unwrap);
    assert_eq!(decoded.next().unwrap().learned, [256]);
    let data = decoded.next().unwrap();
    assert_eq!((data.flows.len(), data.unread), (2, false));
    let octets: Vec<_> = data.flows.iter().map(|f| f.octets.unwrap()).collect();
    assert_eq!(octets, [256, 1 << 32]);
    assert_eq!(data.flows[1].destination, Some("2001:db8::2".parse().unwrap()));
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
    let mut decoder = Decoder::new(Version::Netflow9);
    let message = message::first(&early).unwrap();
    let set = &early[message.sets[0].place.clone()];
    assert_eq!(decoder.set(&early, set), Err(Undecoded::NoTemplate));
    assert!(decoder.wait(message.header, 300, &early, set));
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
    let mut decoder = Decoder::new(Version::Ipfix);
    let mut wait = |octets: usize, times: usize| {
        let message = encode::ipfix(1, 0, 0, &[encode::data(400, &[vec![0; octets]])]);
        let found = message::first(&message).unwrap();
        let set = &message[found.sets[0].place.clone()];
        (0..times).filter(|_| decoder.wait(found.header, 400, &message, set)).count()
    };
    assert_eq!(wait(30_000, 10), 2);
    assert_eq!(wait(10, 100), MOST_WAITING - 2);
    decoder.waited(&[400]);
    assert_eq!((decoder.waiting_octets, decoder.waiting()), (0, 0));
}

#[test]
fn templates_are_bounded_and_replaced() {
    let mut decoder = Decoder::new(Version::Ipfix);
    let learn = |decoder: &mut Decoder, number: u16, fields: &[encode::Field]| {
        decode(decoder, &encode::ipfix(1, 0, 0, &[encode::template(number, fields)])).remove(0)
    };
    let read = |decoder: &mut Decoder, number: u16| {
        let message = encode::ipfix(1, 0, 0, &[encode::data(number, &[vec![0, 0, 0, 9]])]);
        decode(decoder, &message).remove(0)
    };
    let most = MOST_TEMPLATES as u16;
    for number in 256..=256 + most {
        learn(&mut decoder, number, &[(1, 4)]).unwrap();
    }
    assert_eq!(read(&mut decoder, 256), Err(Undecoded::NoTemplate), "it was learned first");
    assert_eq!(read(&mut decoder, 256 + most).unwrap().flows[0].octets, Some(9));
    learn(&mut decoder, 256 + most, &[(2, 4)]).unwrap();
    assert_eq!(read(&mut decoder, 256 + most).unwrap().flows[0].packets, Some(9));
    let wide: Vec<encode::Field> = vec![(1, 4); MOST_FIELDS + 1];
    assert!(matches!(learn(&mut decoder, 300, &wide), Err(Undecoded::Unreadable(_))));
    assert!(matches!(learn(&mut decoder, 300, &[(1, 0)]), Err(Undecoded::Unreadable(_))));
}

#[test]
fn records_that_the_library_skips_are_noticed() {
    // The text is empty where it should have an octet, so nothing of the set is read.
    let template = encode::netflow_template(256, &[(95, 0), (1, 4)]);
    let data = encode::data(256, &[vec![0, 0, 0, 1], vec![0, 0, 0, 2]]);
    let mut decoder = Decoder::new(Version::Netflow9);
    let decoded = decode(&mut decoder, &encode::netflow(1, 1, 1, 1, &[template, data]));
    let decoded = decoded[1].as_ref().unwrap();
    assert_eq!((decoded.flows.len(), decoded.unread), (0, true));
}

/// Shows a limitation of the library: the records after the first empty text are lost. If this test
/// fails, the library has been fixed, and decision 34 can say so.
#[test]
fn an_empty_text_hides_the_records_after_it() {
    let template = encode::template(256, &[(1, 4), (82, 65535)]);
    let record = |octets: u8, text: &[u8]| [&[0, 0, 0, octets, text.len() as u8], text].concat();
    let data = encode::data(256, &[record(1, b"a"), record(2, b""), record(3, b"c")]);
    let mut decoder = Decoder::new(Version::Ipfix);
    assert_eq!(flows(&mut decoder, &encode::ipfix(1, 0, 0, &[template, data])).len(), 1);
}

#[test]
fn a_full_set_of_small_records_is_read_whole() {
    let template = encode::template(256, &[(1, 4)]);
    let data = encode::data(256, &vec![vec![0, 0, 0, 1]; 16_000]);
    let mut decoder = Decoder::new(Version::Ipfix);
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
        let mut decoder = Decoder::new(message.header.version);
        for set in &message.sets {
            let place = &octets[set.place.clone()];
            if let Ok(decoded) = decoder.set(&octets, place) {
                prop_assert!(decoded.flows.len() + decoded.options.len() <= place.len());
            }
        }
    }
}
