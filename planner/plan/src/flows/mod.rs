//! Measures demands from flow records: the traffic that routers report by IPFIX (RFC 7011), NetFlow
//! v9 (RFC 3954), NetFlow v5 or sFlow v5 over a window of time.
//!
//! This module has no sockets, files or clocks. A datagram, maybe from a [`capture`], takes this
//! path. [`message`] finds the message and its sets. [`decoder`] reads their templates and records.
//! [`record`] takes the elements that are used. [`sampling`] finds the sampling factor, and
//! [`time`] the part of the flow in the window. [`collector`] finds the entry and the prefix, and
//! [`tally`] adds up the octets. [`report`] has the demands, and all that is not in them. [`sflow`]
//! takes the place of the first three for sFlow, whose samples are single packets. [`relayed`]
//! reads what goflow2 and akvorado relay: records, or datagrams that take the same path.
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | exporters, their interfaces | [`MAX_EXPORTERS`](crate::input::MAX_EXPORTERS), [`MAX_INTERFACES`](crate::input::MAX_INTERFACES) | the file is refused |
//! | observation domains | [`collector::MAX_DOMAINS`] in all, [`collector::MAX_DOMAINS_OF_ONE`] of an exporter | messages of others are left out and counted |
//! | templates of a domain | [`decoder::MAX_TEMPLATES`], [`decoder::MAX_FIELDS`] fields each | the one that was used least lately goes; the template is refused |
//! | sets that wait for their template | [`decoder::MAX_WAITING`] of a domain, and [`decoder::MAX_WAITING_OCTETS`] | left out and counted |
//! | a message that another collector relays | [`relayed::MAX_MESSAGE`] | it is left out and told, and in a file the rest too |
//! | samplers of a domain | [`sampling::MAX_SAMPLERS`] | not kept |
//! | sources of sFlow samples of a domain | [`drops::MAX_SOURCES`] | their dropped samples are not counted |
//! | sums | [`tally::MAX_CELLS`] over all bins | left out and counted |

//!
//! What makes exporters, templates and records the same:
//!
//! | what | the same if |
//! |---|---|
//! | exporters | the source address of the datagram is, for records of goflow2 the one that it names |
//! | templates, options and numbers of messages | exporter, protocol and observation domain, source ID, engine or sub-agent are (RFC 7011, section 3.1; RFC 3954, section 5.1). The source port, which RFC 7011 has in the transport session over UDP, is not part of it: after a restart it is another one, and captures, files and relays may lack it |
//! | records | never: an exporter tells each octet once. `octetDeltaCount` counts since the last record (RFC 5102, section 5.10.1), samples of packets that leave again are left out |

pub mod collector;
mod count;
pub mod decoder;
pub mod drops;
mod element;
#[cfg(test)]
pub(crate) mod encode;
mod lookup;
mod losses;
pub mod message;
pub mod record;
pub mod relayed;
pub mod report;
pub mod sampling;
pub mod sampling_fields;
pub mod sflow;
pub mod tally;
pub mod time;
mod users;

pub use forebay_capture as capture;

pub use collector::{Collector, Grain};
pub use count::{Counted, Reason};
pub use report::Report;
pub use users::RouteUsers;
