//! The kernel's routing netlink, as far as queues need it (RFC 3549; `rtnetlink(7)`): requests are
//! written into a [`Batch`], answers are read through [`Message`]s.

mod batch;
mod parse;
mod socket;

pub(crate) use batch::{Batch, Tc};
pub(crate) use parse::{Attributes, Message, array, messages, string, u32_at, u64_at};
pub(crate) use socket::{Failure, Netlink};

/// Length of a message's header.
pub(crate) const HEADER: usize = 16;
/// Length of `struct tcmsg`, which follows the header in all messages about queues.
pub(crate) const TCMSG: usize = 20;

/// The next multiple of four, to which messages and attributes are padded.
pub(crate) const fn align(n: usize) -> usize {
    (n + 3) & !3
}
