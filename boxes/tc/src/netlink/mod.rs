//! The kernel's routing netlink, as far as queues need it (RFC 3549; `rtnetlink(7)`). Requests are
//! written into a [`Batch`], and answers are read as [`Message`]s.

mod batch;
mod parse;
mod socket;

pub(crate) use batch::{Batch, Tc};
pub(crate) use parse::{Attributes, Message, array, messages, string, u32_at, u64_at};
pub(crate) use socket::{Failure, Netlink};

/// The length of a message's header.
pub(crate) const HEADER: usize = 16;
/// The length of `struct tcmsg`, which follows the header in all messages about queues.
pub(crate) const TCMSG: usize = 20;

/// Rounds up to a multiple of four, to which messages and attributes are padded.
pub(crate) const fn align(n: usize) -> usize {
    (n + 3) & !3
}
