//! A new process takes the place of a running box: the old one hands over what it knows and its
//! UDP socket, in which messages wait meanwhile.
//!
//! `forebay upgrade` stands between the two, since a service manager ends the old process before it
//! starts the new one. It connects to the old one ([`Commands`](crate::commands::Commands)), which
//! goes on as usual and leaves everything in place at its end. It listens where the new one asks
//! ([`Handed`]).

mod bundles;
mod handed;

pub(crate) use self::bundles::{HandedReceive, of_receive, of_send};
pub(crate) use self::handed::Handed;

use forebay_units::Nanos;

/// The time that a new process has for its start, in which the kernel's queues keep their limits.
/// After that packets pass without one, as after a crash.
pub(crate) const GRACE: Nanos = Nanos::from_secs(2);
