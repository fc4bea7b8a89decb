//! The decoder of one observation domain: a library reads templates and records, and this module
//! contains its failures.
//!
//! The library gets one set at a time, each in a message of its own with the header of the real
//! message. So a set that cannot be read affects no other set, and the library's limits apply per
//! set. This module also finds what the library does not report: records that it skipped, and sets
//! that came before their template and wait for it. Decision 34 has the reasons.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use netflow_parser::variable_versions::field_value::FieldValue;
use netflow_parser::variable_versions::{ipfix, v9};
use netflow_parser::{NetflowPacket, NetflowParser};

use crate::flows::element::{Octets, number};
use crate::flows::message::{Header, Version};
use crate::flows::record::Fields;

/// The most templates of each kind in a domain.
pub const MOST_TEMPLATES: usize = 256;
/// The most fields of a template.
pub const MOST_FIELDS: usize = 256;
/// The most sets of a domain that wait for their templates.
pub const MOST_WAITING: usize = 64;
/// The most octets of waiting sets.
pub const MOST_WAITING_OCTETS: usize = 65_536;
/// The most records of a set, at the smallest size that alignment to four octets allows.
const MOST_RECORDS: usize = 16_384;

/// The contents of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The records of flows.
    pub flows: Vec<Fields>,
    /// The records of options.
    pub options: Vec<Fields>,
    /// The templates that are known from now on.
    pub learned: Vec<u16>,
    /// Whether records were left that could not be read.
    pub unread: bool,
}

/// Why a set has no contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    /// The template is not known yet.
    #[error("has no template yet")]
    NoTemplate,
    /// The set is malformed.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The library panicked.
    #[error("makes the decoder fail: the templates of its domain are lost until they come again")]
    Panicked,
}

/// A set that waits for its template.
#[derive(Debug)]
struct Waiting {
    header: Header,
    number: u16,
    message: Vec<u8>,
}

/// The decoder of one domain.
#[derive(Debug)]
pub struct Decoder {
    version: Version,
    parser: NetflowParser,
    waiting: VecDeque<Waiting>,
    waiting_octets: usize,
    room: Vec<u8>,
}

fn parser() -> NetflowParser {
    // A test checks that the configuration is valid.
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
    /// Creates a decoder without templates.
    pub fn new(version: Version) -> Self {
        let (waiting, room) = (VecDeque::new(), Vec::new());
        Self { version, parser: parser(), waiting, waiting_octets: 0, room }
    }

    /// Decodes a `set` of a `message`.
    ///
    /// # Errors
    /// If the set has no contents.
    pub fn set(&mut self, message: &[u8], set: &[u8]) -> Result<Decoded, Undecoded> {
        let alone = self.alone(message, set);
        self.decode(&alone)
    }

    /// Returns the set in a message of its own.
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

    /// Keeps a set until its template comes, and returns whether there is room for it.
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

    /// Decodes the sets that waited for one of these templates; each comes with the header of its
    /// message.
    pub fn waited(&mut self, learned: &[u16]) -> Vec<(Header, Result<Decoded, Undecoded>)> {
        let (ready, waiting) =
            self.waiting.drain(..).partition(|waiting| learned.contains(&waiting.number));
        self.waiting = waiting;
        self.waiting_octets = self.waiting.iter().map(|w| w.message.len()).sum();
        let ready: VecDeque<Waiting> = ready;
        ready.into_iter().map(|w| (w.header, self.decode(&w.message))).collect()
    }

    /// Returns the number of waiting sets.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn decode(&mut self, alone: &[u8]) -> Result<Decoded, Undecoded> {
        let parser = &mut self.parser;
        // After a panic the parser may be in an inconsistent state, so it is replaced.
        let Ok(result) = catch_unwind(AssertUnwindSafe(|| parser.parse_bytes(alone))) else {
            self.parser = self::parser();
            return Err(Undecoded::Panicked);
        };
        let body = alone.len().saturating_sub(self.version.header() + 4);
        let nothing = || match &result.error {
            Some(error) => Undecoded::Unreadable(error.to_string()),
            None => Undecoded::Unreadable("it does not match its template".to_owned()),
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

/// Collects the fields of a record.
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

/// Whether a set with a body of this many octets has records beyond the `records` that were read.
/// It does if at least as many octets are left as one record has, or any octets but padding if none
/// was read. All records of a set have the same length here.
fn has_unread(body: usize, records: &[(Fields, usize)]) -> bool {
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
            decoded.unread = has_unread(octets, &records);
            decoded.flows = fields(records);
        }
        Body::OptionsData(data) => {
            let records = netflow_options(data, room);
            decoded.unread = has_unread(octets, &records);
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
            // For variable lengths, the sequence number of the next message shows what was lost.
            decoded.unread = has_unread(octets, &read) && !data.has_varlen_metadata();
            decoded.flows = fields(read);
        }
        Body::OptionsData(data) => decoded.options = fields(records(&data.fields)),
        Body::V9Data(data) => {
            let read = netflow_records(data, room);
            decoded.unread = has_unread(octets, &read);
            decoded.flows = fields(read);
        }
        Body::V9OptionsData(data) => {
            let read = netflow_options(data, room);
            decoded.unread = has_unread(octets, &read);
            decoded.options = fields(read);
        }
        Body::NoTemplate(_) => return Err(Undecoded::NoTemplate),
        Body::Empty => {}
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests;
