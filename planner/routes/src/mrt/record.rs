//! The types and subtypes of MRT records (RFC 6396, sections 4 and 5, appendix B; RFC 6397, RFC
//! 8050), and which of them are read.

use std::fmt;

use crate::nlri::Family;

/// The type and the subtype of a record. For records of a family that is not read, also that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordKind {
    kind: u16,
    subtype: u16,
    family: Option<(u16, u8)>,
}

const TABLE_DUMP: u16 = 12;
const TABLE_DUMP_V2: u16 = 13;
const BGP4MP: u16 = 16;
const BGP4MP_ET: u16 = 17;

/// The types, without those that are deprecated and have no name of their own here.
const TYPES: [(u16, &str); 19] = [
    (0, "NULL"),
    (1, "START"),
    (2, "DIE"),
    (3, "I_AM_DEAD"),
    (4, "PEER_DOWN"),
    (5, "BGP"),
    (6, "RIP"),
    (7, "IDRP"),
    (8, "RIPNG"),
    (9, "BGP4PLUS"),
    (10, "BGP4PLUS_01"),
    (11, "OSPFv2"),
    (TABLE_DUMP, "TABLE_DUMP"),
    (TABLE_DUMP_V2, "TABLE_DUMP_V2"),
    (BGP4MP, "BGP4MP"),
    (BGP4MP_ET, "BGP4MP_ET"),
    (32, "ISIS"),
    (33, "ISIS_ET"),
    (48, "OSPFv3"),
];
/// OSPFv3 with microseconds.
const OSPF3_ET: u16 = 49;

const SECOND_VERSION: [(u16, &str); 12] = [
    (1, "PEER_INDEX_TABLE"),
    (2, "RIB_IPV4_UNICAST"),
    (3, "RIB_IPV4_MULTICAST"),
    (4, "RIB_IPV6_UNICAST"),
    (5, "RIB_IPV6_MULTICAST"),
    (6, "RIB_GENERIC"),
    (7, "GEO_PEER_TABLE"),
    (8, "RIB_IPV4_UNICAST_ADDPATH"),
    (9, "RIB_IPV4_MULTICAST_ADDPATH"),
    (10, "RIB_IPV6_UNICAST_ADDPATH"),
    (11, "RIB_IPV6_MULTICAST_ADDPATH"),
    (12, "RIB_GENERIC_ADDPATH"),
];

const MESSAGES: [(u16, &str); 12] = [
    (0, "BGP4MP_STATE_CHANGE"),
    (1, "BGP4MP_MESSAGE"),
    (2, "BGP4MP_ENTRY"),
    (3, "BGP4MP_SNAPSHOT"),
    (4, "BGP4MP_MESSAGE_AS4"),
    (5, "BGP4MP_STATE_CHANGE_AS4"),
    (6, "BGP4MP_MESSAGE_LOCAL"),
    (7, "BGP4MP_MESSAGE_AS4_LOCAL"),
    (8, "BGP4MP_MESSAGE_ADDPATH"),
    (9, "BGP4MP_MESSAGE_AS4_ADDPATH"),
    (10, "BGP4MP_MESSAGE_LOCAL_ADDPATH"),
    (11, "BGP4MP_MESSAGE_AS4_LOCAL_ADDPATH"),
];

fn name_in(names: &[(u16, &'static str)], number: u16) -> Option<&'static str> {
    names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

impl RecordKind {
    pub(super) const PEER_INDEX_TABLE: Self = Self::new(TABLE_DUMP_V2, 1);

    pub(super) const fn new(kind: u16, subtype: u16) -> Self {
        Self { kind, subtype, family: None }
    }

    /// Returns the same kind of record of a family.
    pub(super) fn of_family(self, afi: u16, safi: u8) -> Self {
        Self { family: Some((afi, safi)), ..self }
    }

    /// Whether the type is one of MRT's.
    pub(super) fn is_known(&self) -> bool {
        self.kind == OSPF3_ET || name_in(&TYPES, self.kind).is_some()
    }

    /// Whether the record has messages of BGP as they came.
    pub(super) fn is_message(&self) -> bool {
        matches!(self.kind, 5 | 9 | 10 | BGP4MP | BGP4MP_ET)
    }

    /// Returns the family of a record of the first version, and whether the AS of the peer has four
    /// octets, as in dumps of mrtd (subtypes 3 and 4).
    pub(super) fn first_version(&self) -> Option<(Family, bool)> {
        match (self.kind, self.subtype) {
            (TABLE_DUMP, 1) => Some((Family::V4, false)),
            (TABLE_DUMP, 2) => Some((Family::V6, false)),
            (TABLE_DUMP, 3) => Some((Family::V4, true)),
            (TABLE_DUMP, 4) => Some((Family::V6, true)),
            _ => None,
        }
    }

    /// Returns the family of a record with unicast routes, and whether they have path identifiers.
    pub(super) fn rib(&self) -> Option<(Family, bool)> {
        match (self.kind, self.subtype) {
            (TABLE_DUMP_V2, 2) => Some((Family::V4, false)),
            (TABLE_DUMP_V2, 4) => Some((Family::V6, false)),
            (TABLE_DUMP_V2, 8) => Some((Family::V4, true)),
            (TABLE_DUMP_V2, 10) => Some((Family::V6, true)),
            _ => None,
        }
    }

    /// Whether the routes of a record that names its family have path identifiers; `None` for
    /// other records.
    pub(super) fn generic(&self) -> Option<bool> {
        match (self.kind, self.subtype) {
            (TABLE_DUMP_V2, 6) => Some(false),
            (TABLE_DUMP_V2, 12) => Some(true),
            _ => None,
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, subtype, family } = *self;
        let known = match kind {
            TABLE_DUMP_V2 => name_in(&SECOND_VERSION, subtype),
            BGP4MP | BGP4MP_ET => name_in(&MESSAGES, subtype),
            TABLE_DUMP => None,
            OSPF3_ET => Some("OSPFv3_ET"),
            _ => name_in(&TYPES, kind),
        };
        match (known, name_in(&TYPES, kind)) {
            (Some(name), _) => f.write_str(name)?,
            (None, Some(name)) => write!(f, "{name} of the unknown subtype {subtype}")?,
            (None, None) => write!(f, "of the unknown type {kind}")?,
        }
        match family {
            Some((afi, safi)) => write!(f, " (AFI {afi}, SAFI {safi})"),
            None => Ok(()),
        }
    }
}
