//! Encodes messages of flow records for tests, as routers do.

/// A field of a template: its number, and its length in octets; 65 535 for a variable length.
pub(crate) type Field = (u16, u16);

fn set(number: u16, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 4).unwrap();
    [&number.to_be_bytes()[..], &length.to_be_bytes(), body].concat()
}

fn fields(fields: &[Field]) -> Vec<u8> {
    fields.iter().flat_map(|(n, l)| [n.to_be_bytes(), l.to_be_bytes()].concat()).collect()
}

fn words(words: &[u16]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// Returns an IPFIX set with a template (RFC 7011, section 3.4.1).
pub(crate) fn template(number: u16, all: &[Field]) -> Vec<u8> {
    set(2, &[words(&[number, all.len() as u16]), fields(all)].concat())
}

/// Returns an IPFIX set with an options template (RFC 7011, section 3.4.2).
pub(crate) fn options_template(number: u16, scopes: u16, all: &[Field]) -> Vec<u8> {
    set(3, &[words(&[number, all.len() as u16, scopes]), fields(all)].concat())
}

/// Returns a NetFlow v9 set with a template (RFC 3954, section 5.2).
pub(crate) fn netflow_template(number: u16, all: &[Field]) -> Vec<u8> {
    set(0, &[words(&[number, all.len() as u16]), fields(all)].concat())
}

/// Returns a NetFlow v9 set with an options template (RFC 3954, section 6.1), padded to four
/// octets.
pub(crate) fn netflow_options_template(number: u16, scopes: &[Field], all: &[Field]) -> Vec<u8> {
    let lengths = [number, 4 * scopes.len() as u16, 4 * all.len() as u16];
    set(1, &[words(&lengths), fields(scopes), fields(all), vec![0; 2]].concat())
}

/// Returns a set of records.
pub(crate) fn data(number: u16, records: &[Vec<u8>]) -> Vec<u8> {
    set(number, &records.concat())
}

/// Returns an IPFIX message, exported at this time in seconds.
pub(crate) fn ipfix(at: u32, sequence: u32, domain: u32, sets: &[Vec<u8>]) -> Vec<u8> {
    let body = sets.concat();
    let length = u16::try_from(body.len() + 16).unwrap();
    let words = [at, sequence, domain].map(u32::to_be_bytes).concat();
    [&10_u16.to_be_bytes()[..], &length.to_be_bytes(), &words, &body].concat()
}

/// Returns a NetFlow v9 message, exported at this time in seconds and this exporter uptime in
/// milliseconds.
pub(crate) fn netflow(
    at: u32,
    uptime: u32,
    sequence: u32,
    source: u32,
    sets: &[Vec<u8>],
) -> Vec<u8> {
    let words = [uptime, at, sequence, source].map(u32::to_be_bytes).concat();
    [&9_u16.to_be_bytes()[..], &1_u16.to_be_bytes(), &words, &sets.concat()].concat()
}

/// The fields of a flow record.
pub(crate) const FLOW: [Field; 6] = [(1, 8), (2, 4), (10, 4), (12, 4), (152, 8), (153, 8)];

/// Returns a record of [`FLOW`]: octets and packets, interface, destination, and times in
/// milliseconds.
pub(crate) fn flow(
    octets: u64,
    packets: u32,
    input: u32,
    to: [u8; 4],
    span: (u64, u64),
) -> Vec<u8> {
    [
        &octets.to_be_bytes()[..],
        &packets.to_be_bytes(),
        &input.to_be_bytes(),
        &to,
        &span.0.to_be_bytes(),
        &span.1.to_be_bytes(),
    ]
    .concat()
}
