//! Demands from flow records: what routers report of the traffic that they see, by NetFlow v9 (RFC 3954) or IPFIX
//! (RFC 7011), over a window of time.
//!
//! No socket, file or clock is in here. The way of a datagram, which may be in a [`capture`]: [`message`] finds its message and sets; [`decoder`] has a
//! library read their templates and records, and keeps it from doing harm; [`record`] takes the few elements that count;
//! [`sampling`] says how much each sampled octet stands for, and [`time`] when it was; [`collector`] knows which entry and
//! which prefix it belongs to, and [`tally`] adds it up; [`report`] says what came of it, and what did not fit anywhere.
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | exporters, their interfaces | [`MOST_EXPORTERS`](crate::input::MOST_EXPORTERS), [`MOST_INTERFACES`](crate::input::MOST_INTERFACES) | the file is refused |
//! | observation domains | [`collector::MOST_DOMAINS`] in all, [`collector::MOST_DOMAINS_OF_ONE`] of an exporter | messages of others are left out and counted |
//! | templates of a domain | [`decoder::MOST_TEMPLATES`] of a kind, [`decoder::MOST_FIELDS`] fields each | the one that was used least lately goes; the template is refused |
//! | sets that wait for their template | [`decoder::MOST_WAITING`] of a domain, and [`decoder::MOST_WAITING_OCTETS`] | left out and counted |
//! | samplers of a domain | [`sampling::MOST_SAMPLERS`] | not kept |
//! | sums | [`tally::MOST_CELLS`] over all bins | left out and counted |

pub mod capture;
pub mod collector;
mod count;
pub mod decoder;
mod element;
#[cfg(test)]
pub(crate) mod encode;
mod lookup;
mod losses;
pub mod message;
pub mod record;
pub mod report;
pub mod sampling;
pub mod tally;
pub mod time;

pub use collector::{Collector, Grain};
pub use count::{Counted, Reason};
pub use report::Report;
