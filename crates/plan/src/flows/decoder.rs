//! One observation domain's decoder: a library reads templates and records, and this keeps it from doing harm.
//!
//! It is given one set at a time, each in a message of its own with the real one's header. So a set that cannot be read
//! costs no other one, and the library's own bounds are for one set. What it does not say is found out here: records that
//! it gave up on, and sets that come before their template, which wait for it. See decision 34.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use netflow_parser::variable_versions::field_value::FieldValue;
use netflow_parser::variable_versions::{ipfix, v9};
use netflow_parser::{NetflowPacket, NetflowParser};

use crate::flows::element::{Octets, number};
use crate::flows::message::{Header, Version};
use crate::flows::record::Fields;

/// The most templates of a kind that a domain may have.
pub const MOST_TEMPLATES: usize = 256;
/// The most fields of a template.
pub const MOST_FIELDS: usize = 256;
/// The most sets of a domain that wait for their templates.
pub const MOST_WAITING: usize = 64;
/// The most octets of such sets.
pub const MOST_WAITING_OCTETS: usize = 65_536;
/// The records of the largest set, each of the least octets that four-octet alignment allows.
const MOST_RECORDS: usize = 16_384;

/// What a set came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// Flows.
    pub flows: Vec<Fields>,
    /// Records of options.
    pub options: Vec<Fields>,
    /// Templates that are known from now on.
    pub learned: Vec<u16>,
    /// Records that were there but could not be read.
    pub unread: bool,
}

/// Why a set came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    /// Its template is not known yet.
    #[error("has no template yet")]
    NoTemplate,
    /// It is none.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The library failed.
    #[error("made the decoder fail; all templates of its domain are forgotten")]
    Panicked,
}

/// A set that waits.
#[derive(Debug)]
struct Waiting {
    header: Header,
    number: u16,
    message: Vec<u8>,
}

/// One domain's decoder.
#[derive(Debug)]
pub struct Decoder {
    version: Version,
    parser: NetflowParser,
    waiting: VecDeque<Waiting>,
    waiting_octets: usize,
    room: Vec<u8>,
}

fn parser() -> NetflowParser {
    // That this configuration is a good one, a test says.
    configured().build().unwrap_or_default()
}

fn configured() -> netflow_parser::NetflowParserBuilder {
    NetflowParser::builder()
        .with_cache_size(MOST_TEMPLATES)
        .with_max_field_count(MOST_FIELDS)
        .with_max_records_per_flowset(MOST_RECORDS)
        .with_max_error_sample_size(1)
        .with_allowed_versions(&[9, 10])
}

impl Decoder {
    /// A decoder that knows no template.
    pub fn new(version: Version) -> Self {
        let (waiting, room) = (VecDeque::new(), Vec::new());
        Self { version, parser: parser(), waiting, waiting_octets: 0, room }
    }

    /// Decodes a set of a message, whose octets both are.
    ///
    /// # Errors
    /// If it comes to nothing.
    pub fn set(&mut self, message: &[u8], set: &[u8]) -> Result<Decoded, Undecoded> {
        let alone = self.alone(message, set);
        self.decode(&alone)
    }

    /// The set in a message of its own.
    fn alone(&self, message: &[u8], set: &[u8]) -> Vec<u8> {
        let header = &message[..self.version.header().min(message.len())];
        let mut alone = [header, set].concat();
        if self.version == Version::Ipfix
            && let (Ok(length), Some(place)) = (u16::try_from(alone.len()), alone.get_mut(2..4))
        {
            place.copy_from_slice(&length.to_be_bytes());
        }
        alone
    }

    /// Keeps a set of a message until its template is there. Whether there is room for it.
    pub fn wait(&mut self, header: Header, number: u16, message: &[u8], set: &[u8]) -> bool {
        let message = self.alone(message, set);
        let octets = self.waiting_octets + message.len();
        if self.waiting.len() == MOST_WAITING || octets > MOST_WAITING_OCTETS {
            return false;
        }
        self.waiting_octets = octets;
        self.waiting.push_back(Waiting { header, number, message });
        true
    }

    /// The sets that waited for one of these templates, decoded, each with the header of its message.
    pub fn waited(&mut self, learned: &[u16]) -> Vec<(Header, Result<Decoded, Undecoded>)> {
        let (ready, waiting) =
            self.waiting.drain(..).partition(|waiting| learned.contains(&waiting.number));
        self.waiting = waiting;
        self.waiting_octets = self.waiting.iter().map(|w| w.message.len()).sum();
        let ready: VecDeque<Waiting> = ready;
        ready.into_iter().map(|w| (w.header, self.decode(&w.message))).collect()
    }

    /// How many sets wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn decode(&mut self, alone: &[u8]) -> Result<Decoded, Undecoded> {
        let parser = &mut self.parser;
        // The parser may be left half way through something, so another takes its place.
        let Ok(result) = catch_unwind(AssertUnwindSafe(|| parser.parse_bytes(alone))) else {
            self.parser = self::parser();
            return Err(Undecoded::Panicked);
        };
        let body = alone.len().saturating_sub(self.version.header() + 4);
        let nothing = || match &result.error {
            Some(error) => Undecoded::Unreadable(error.to_string()),
            None => Undecoded::Unreadable("it is no set of its template".to_owned()),
        };
        match result.packets.first() {
            Some(NetflowPacket::V9(packet)) => {
                let set = packet.flowsets.first().ok_or_else(nothing)?;
                netflow(&set.body, body, &mut self.room)
            }
            Some(NetflowPacket::IPFix(packet)) => {
                let set = packet.flowsets.first().ok_or_else(nothing)?;
                ipfix(&set.body, body, &mut self.room)
            }
            _ => Err(nothing()),
        }
    }
}

/// Adds up what elements of a record count for.
struct Record<'a> {
    fields: Fields,
    octets: usize,
    room: &'a mut Vec<u8>,
}

impl<'a> Record<'a> {
    fn new(room: &'a mut Vec<u8>) -> Self {
        Self { fields: Fields::default(), octets: 0, room }
    }

    fn take(&mut self, number: Option<u16>, value: &FieldValue) {
        self.octets += value.byte_len();
        if let Some(number) = number
            && let Some(octets) = Octets::of(value, self.room)
        {
            self.fields.take(number, octets);
        }
    }
}

/// Whether records are left in a set whose body has so many octets, of which those of `records` were read: as many octets
/// as one of them has, or any but padding where there is none. Records of one set are equally long here.
fn left(body: usize, records: &[(Fields, usize)]) -> bool {
    let read: usize = records.iter().map(|r| r.1).sum();
    let least = records.first().map_or(4, |r| r.1.max(1));
    body.saturating_sub(read) >= least
}

fn fields(records: Vec<(Fields, usize)>) -> Vec<Fields> {
    records.into_iter().map(|r| r.0).collect()
}

fn netflow_records(data: &v9::Data, room: &mut Vec<u8>) -> Vec<(Fields, usize)> {
    let record = |pairs: &v9::V9FlowRecord| {
        let mut record = Record::new(room);
        for (field, value) in pairs {
            record.take(Some(u16::from(*field)), value);
        }
        (record.fields, record.octets)
    };
    data.fields.iter().map(record).collect()
}

fn netflow_options(data: &v9::OptionsData, room: &mut Vec<u8>) -> Vec<(Fields, usize)> {
    let record = |options: &v9::OptionsDataFields| {
        let mut record = Record::new(room);
        for (field, value) in &options.options_fields {
            record.take(Some(u16::from(*field)), value);
        }
        for scope in &options.scope_fields {
            let (octets, interface) = match scope {
                v9::ScopeDataField::Interface(octets) => (octets, true),
                v9::ScopeDataField::System(octets)
                | v9::ScopeDataField::LineCard(octets)
                | v9::ScopeDataField::NetFlowCache(octets)
                | v9::ScopeDataField::Template(octets)
                | v9::ScopeDataField::Unknown(_, octets) => (octets, false),
            };
            record.octets += octets.len();
            if let Some(octets) = Octets::from_slice(octets).filter(|_| interface) {
                record.fields.take(10, octets);
            }
        }
        (record.fields, record.octets)
    };
    data.fields.iter().map(record).collect()
}

fn netflow(
    body: &v9::FlowSetBody,
    octets: usize,
    room: &mut Vec<u8>,
) -> Result<Decoded, Undecoded> {
    use v9::FlowSetBody as Body;
    let mut decoded = Decoded::default();
    match body {
        Body::Template(all) => decoded.learned.extend(all.templates.iter().map(|t| t.template_id)),
        Body::OptionsTemplate(all) => {
            decoded.learned.extend(all.templates.iter().map(|t| t.template_id));
        }
        Body::Data(data) => {
            let records = netflow_records(data, room);
            decoded.unread = left(octets, &records);
            decoded.flows = fields(records);
        }
        Body::OptionsData(data) => {
            let records = netflow_options(data, room);
            decoded.unread = left(octets, &records);
            decoded.options = fields(records);
        }
        Body::NoTemplate(_) => return Err(Undecoded::NoTemplate),
        Body::Empty => {}
    }
    Ok(decoded)
}

fn ipfix(
    body: &ipfix::FlowSetBody,
    octets: usize,
    room: &mut Vec<u8>,
) -> Result<Decoded, Undecoded> {
    use ipfix::FlowSetBody as Body;
    let mut decoded = Decoded::default();
    let mut records = |all: &[ipfix::IPFixFlowRecord]| -> Vec<(Fields, usize)> {
        let record = |pairs: &ipfix::IPFixFlowRecord| {
            let mut record = Record::new(room);
            for (field, value) in pairs {
                record.take(number(field), value);
            }
            (record.fields, record.octets)
        };
        all.iter().map(record).collect()
    };
    match body {
        Body::Template(template) => decoded.learned.push(template.template_id),
        Body::Templates(all) => decoded.learned.extend(all.iter().map(|t| t.template_id)),
        Body::OptionsTemplate(template) => decoded.learned.push(template.template_id),
        Body::OptionsTemplates(all) => decoded.learned.extend(all.iter().map(|t| t.template_id)),
        Body::V9Template(template) => decoded.learned.push(template.template_id),
        Body::V9Templates(all) => decoded.learned.extend(all.iter().map(|t| t.template_id)),
        Body::V9OptionsTemplate(template) => decoded.learned.push(template.template_id),
        Body::V9OptionsTemplates(all) => decoded.learned.extend(all.iter().map(|t| t.template_id)),
        Body::Data(data) => {
            let read = records(&data.fields);
            // Where lengths vary, the numbers of the next message say what is missing.
            decoded.unread = left(octets, &read) && !data.has_varlen_metadata();
            decoded.flows = fields(read);
        }
        Body::OptionsData(data) => decoded.options = fields(records(&data.fields)),
        Body::V9Data(data) => {
            let read = netflow_records(data, room);
            decoded.unread = left(octets, &read);
            decoded.flows = fields(read);
        }
        Body::V9OptionsData(data) => {
            let read = netflow_options(data, room);
            decoded.unread = left(octets, &read);
            decoded.options = fields(read);
        }
        Body::NoTemplate(_) => return Err(Undecoded::NoTemplate),
        Body::Empty => {}
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests;
