//! The decoder of one observation domain: its templates, and the records in sets of them.
//!
//! A set is read on its own. So a set that cannot be read affects no other set. Within a set, the
//! records before the first one that cannot be read are kept. Decision 52 has the reasons for a
//! decoder of our own.

use std::collections::{BTreeMap, VecDeque};

use crate::flows::element::Octets;
use crate::flows::message::{Header, Version, u16_at};
use crate::flows::record::Fields;

/// The most templates of a domain, options templates included.
pub const MAX_TEMPLATES: usize = 256;
/// The most fields of a template.
pub const MAX_FIELDS: usize = 256;
/// The most sets of a domain that wait for their templates.
pub const MAX_WAITING: usize = 64;
/// The most octets of waiting sets.
pub const MAX_WAITING_OCTETS: usize = 65_536;
/// The most records of a set, at the smallest size that alignment to four octets allows.
const MAX_RECORDS: usize = 16_384;
/// The length of a field that says its own length in each record (RFC 7011, section 7).
const VARIABLE: u16 = 65_535;
/// The bit of a field's number that an enterprise number follows (RFC 7011, section 3.2).
const ENTERPRISE: u16 = 0x8000;
/// The element of the interface where packets came in.
const INGRESS: u16 = 10;

/// The contents of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The records of flows.
    pub flows: Vec<Fields>,
    /// The records of options.
    pub options: Vec<Fields>,
    /// The templates that are known from now on.
    pub learned: Vec<u16>,
    /// Why the set was not read to its end, if it was not.
    pub unread: Option<&'static str>,
}

/// Why a set has no contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    /// The template is not known yet.
    #[error("has no template yet")]
    NoTemplate,
    /// The set is malformed.
    #[error("cannot be read: {0}")]
    Unreadable(&'static str),
}

/// A field of a template.
#[derive(Clone, Copy, Debug)]
struct Field {
    /// IANA's number of the element; `None` for elements of enterprises.
    ///
    /// Among the latter are the counters of the reverse direction (RFC 5103, enterprise 29305):
    /// what they count did not come in at the interface of the record.
    number: Option<u16>,
    /// The length in octets, or [`VARIABLE`].
    length: u16,
}

/// A template, without fields that have no octets.
#[derive(Debug)]
struct Template {
    options: bool,
    fields: Box<[Field]>,
    /// The length of the shortest record, at least 1.
    least: usize,
    /// Whether all records have that length.
    fixed: bool,
    /// The number of the set that used the template last.
    used: u64,
}

/// A set that waits for its template.
#[derive(Debug)]
struct Waiting {
    header: Header,
    number: u16,
    set: Vec<u8>,
}

/// The decoder of one domain.
#[derive(Debug, Default)]
pub struct Decoder {
    templates: BTreeMap<u16, Template>,
    /// The number of sets so far.
    sets: u64,
    waiting: VecDeque<Waiting>,
    waiting_octets: usize,
}

impl Decoder {
    /// Creates a decoder without templates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes a `set`, which begins with its header, of a message of this version.
    ///
    /// # Errors
    /// If the set has no contents.
    pub fn set(&mut self, version: Version, set: &[u8]) -> Result<Decoded, Undecoded> {
        let (Some(number), Some(body)) = (u16_at(set, 0), set.get(4..)) else {
            return Err(Undecoded::Unreadable("it is shorter than its header"));
        };
        self.sets += 1;
        match (version, number) {
            // Some exporters put templates of NetFlow v9 into IPFIX messages.
            (_, 0) => self.learn(body, Kind::Netflow),
            (_, 1) => self.learn(body, Kind::NetflowOptions),
            (Version::Ipfix, 2) => self.learn(body, Kind::Ipfix),
            (Version::Ipfix, 3) => self.learn(body, Kind::IpfixOptions),
            (_, 256..) => self.records(number, body),
            _ => Err(Undecoded::Unreadable("its number is reserved")),
        }
    }

    /// Keeps a set until its template comes, and returns whether there is room for it.
    pub fn wait(&mut self, header: Header, number: u16, set: &[u8]) -> bool {
        let octets = self.waiting_octets + set.len();
        if self.waiting.len() == MAX_WAITING || octets > MAX_WAITING_OCTETS {
            return false;
        }
        self.waiting_octets = octets;
        self.waiting.push_back(Waiting { header, number, set: set.to_vec() });
        true
    }

    /// Decodes the sets that waited for one of these templates; each comes with the header of its
    /// message.
    pub fn waited(&mut self, learned: &[u16]) -> Vec<(Header, Result<Decoded, Undecoded>)> {
        if learned.is_empty() || self.waiting.is_empty() {
            return Vec::new();
        }
        let (ready, waiting): (VecDeque<Waiting>, _) =
            self.waiting.drain(..).partition(|waiting| learned.contains(&waiting.number));
        self.waiting = waiting;
        self.waiting_octets = self.waiting.iter().map(|w| w.set.len()).sum();
        ready.into_iter().map(|w| (w.header, self.set(w.header.version, &w.set))).collect()
    }

    /// Returns the number of waiting sets.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Reads a set of templates. Those before the first bad one are kept.
    fn learn(&mut self, body: &[u8], kind: Kind) -> Result<Decoded, Undecoded> {
        let mut decoded = Decoded::default();
        let mut reader = Reader { octets: body };
        // The end of the set is padding, which is zeros: no template has the number 0.
        while reader.octets.len() >= 4 && reader.octets.iter().any(|o| *o != 0) {
            match read_template(&mut reader, kind) {
                Ok((number, Some(template))) => {
                    self.keep(number, template);
                    decoded.learned.push(number);
                }
                Ok((number, None)) => self.withdraw(number, kind),
                Err(why) if decoded.learned.is_empty() => return Err(Undecoded::Unreadable(why)),
                Err(why) => {
                    decoded.unread = Some(why);
                    break;
                }
            }
        }
        Ok(decoded)
    }

    fn keep(&mut self, number: u16, mut template: Template) {
        template.used = self.sets;
        if self.templates.len() >= MAX_TEMPLATES && !self.templates.contains_key(&number) {
            let oldest = self.templates.iter().min_by_key(|(_, t)| t.used).map(|(n, _)| *n);
            oldest.and_then(|oldest| self.templates.remove(&oldest));
        }
        self.templates.insert(number, template);
    }

    /// Forgets a template, or all of a kind if the number is that of their sets (RFC 7011, section
    /// 8.1).
    fn withdraw(&mut self, number: u16, kind: Kind) {
        match number {
            256.. => drop(self.templates.remove(&number)),
            _ => self.templates.retain(|_, template| template.options != kind.is_options()),
        }
    }

    /// Reads a set of records.
    fn records(&mut self, number: u16, body: &[u8]) -> Result<Decoded, Undecoded> {
        let template = self.templates.get_mut(&number).ok_or(Undecoded::NoTemplate)?;
        template.used = self.sets;
        let (mut records, mut unread) = (Vec::new(), None);
        let mut reader = Reader { octets: body };
        // Padding is shorter than any record of the template (RFC 7011, section 3.3.1).
        while reader.octets.len() >= template.least {
            if records.len() == MAX_RECORDS {
                unread = Some("they are more than 16384");
                break;
            }
            let left = reader.octets;
            let Some(fields) = read_record(&mut reader, &template.fields) else {
                // With variable lengths, padding may be as long as the shortest record.
                if template.fixed || left.iter().any(|o| *o != 0) {
                    unread = Some("a field is longer than the set");
                }
                break;
            };
            records.push(fields);
        }
        let short = reader.octets.len() >= 4 || reader.octets.iter().any(|o| *o != 0);
        if records.is_empty() && unread.is_none() && short {
            unread = Some("the set is shorter than a record of its template");
        }
        let mut decoded = Decoded { unread, ..Decoded::default() };
        match template.options {
            true => decoded.options = records,
            false => decoded.flows = records,
        }
        Ok(decoded)
    }
}

/// The kinds of templates, by their layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Netflow,
    NetflowOptions,
    Ipfix,
    IpfixOptions,
}

impl Kind {
    fn is_options(self) -> bool {
        matches!(self, Self::NetflowOptions | Self::IpfixOptions)
    }
}

/// Octets that are read from the front.
struct Reader<'a> {
    octets: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.octets.split_at_checked(length)?;
        self.octets = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u16> {
        u16_at(self.take(2)?, 0)
    }

    /// Reads the length of a variable field (RFC 7011, section 7).
    fn length(&mut self) -> Option<usize> {
        match self.take(1)? {
            [255] => self.word().map(usize::from),
            short => short.first().map(|length| usize::from(*length)),
        }
    }
}

const TEMPLATE_CUT: &str = "a template is longer than its set";

/// Reads a template and its number; no template if it is withdrawn.
fn read_template(
    reader: &mut Reader<'_>,
    kind: Kind,
) -> Result<(u16, Option<Template>), &'static str> {
    let mut word = || reader.word().ok_or(TEMPLATE_CUT);
    let number = word()?;
    let (all, scopes) = match kind {
        Kind::Netflow | Kind::Ipfix => (usize::from(word()?), 0),
        // The octets of the scopes and those of the options (RFC 3954, section 6.1).
        Kind::NetflowOptions => {
            let scopes = usize::from(word()? / 4);
            (scopes + usize::from(word()? / 4), scopes)
        }
        // A withdrawal has no number of scopes.
        Kind::IpfixOptions => match word()? {
            0 => (0, 0),
            all => (usize::from(all), usize::from(word()?)),
        },
    };
    let ipfix = matches!(kind, Kind::Ipfix | Kind::IpfixOptions);
    if all == 0 && ipfix {
        return Ok((number, None));
    }
    if number < 256 {
        return Err("the number of a template is below 256");
    }
    if all > MAX_FIELDS {
        return Err("a template has more than 256 fields");
    }
    let mut fields = Vec::new();
    for at in 0..all {
        let (element, length) = (reader.word().ok_or(TEMPLATE_CUT)?, reader.word());
        let length = length.ok_or(TEMPLATE_CUT)?;
        let enterprise = ipfix && element & ENTERPRISE != 0;
        if enterprise {
            reader.take(4).ok_or(TEMPLATE_CUT)?;
        }
        let number = match kind {
            // The scopes of NetFlow v9 have numbers of their own, of which 2 is an interface.
            Kind::NetflowOptions if at < scopes => (element == 2).then_some(INGRESS),
            _ => (!enterprise).then_some(element),
        };
        // Fields without octets have no value.
        if length > 0 {
            fields.push(Field { number, length });
        }
    }
    let variable = |field: &Field| ipfix && field.length == VARIABLE;
    let least: usize =
        fields.iter().map(|f| if variable(f) { 1 } else { usize::from(f.length) }).sum();
    if least == 0 {
        return Err("the records of a template have no octets");
    }
    let fixed = !fields.iter().any(variable);
    let (options, fields) = (kind.is_options(), fields.into_boxed_slice());
    Ok((number, Some(Template { options, fields, least, fixed, used: 0 })))
}

/// Reads a record; `None` if it is longer than what is left.
fn read_record(reader: &mut Reader<'_>, template: &[Field]) -> Option<Fields> {
    let mut fields = Fields::default();
    for field in template {
        let length = match field.length {
            VARIABLE => reader.length()?,
            fixed => usize::from(fixed),
        };
        let octets = reader.take(length)?;
        if let Some(number) = field.number
            && let Some(octets) = Octets::from_slice(octets)
        {
            fields.take(number, octets);
        }
    }
    Some(fields)
}

/// Reads the records of a NetFlow v5 message, which have a fixed layout of 48 octets.
///
/// The header has the sampling interval in its last 14 bits; 0 says nothing.
pub fn netflow5(message: &[u8]) -> Vec<Fields> {
    let interval = u16_at(message, 22).map_or(0, |word| word & 0x3fff);
    let (records, _) = message.get(24..).unwrap_or_default().as_chunks::<48>();
    let record = |octets: &[u8; 48]| {
        let mut fields = Fields::default();
        let mut take = |number: u16, range: std::ops::Range<usize>| {
            if let Some(octets) = octets.get(range).and_then(Octets::from_slice) {
                fields.take(number, octets);
            }
        };
        take(8, 0..4);
        take(12, 4..8);
        take(INGRESS, 12..14);
        take(2, 16..20);
        take(1, 20..24);
        take(22, 24..28);
        take(21, 28..32);
        if interval > 0
            && let Some(octets) = Octets::from_slice(&interval.to_be_bytes())
        {
            fields.take(34, octets);
        }
        fields
    };
    records.iter().map(record).collect()
}

#[cfg(test)]
pub(crate) mod tests;
