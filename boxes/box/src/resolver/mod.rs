//! Resolves the host names of a running box again.
//!
//! A running box must not wait for an answer about a name, and has given up the right to ask. So it
//! starts a process ([`helper`]) before that, which asks for it: one name at a time, when the box
//! of that name is silent, and when the file was read again ([`schedule`]).

mod helper;
mod schedule;

use std::net::SocketAddr;

use forebay_config::{IpVersion, RemoteAddress};
use forebay_units::Nanos;

pub use self::helper::answer_questions;
pub(crate) use self::schedule::CONTACT_TIMEOUT;

use self::helper::Helper;
use self::schedule::Schedule;
use crate::config::{PeerAddress, keep_resolved_names, note_resolved};

/// The time between two looks for an answer.
const POLL: Nanos = Nanos::from_millis(200);

/// What a running box knows about its names, and whom it asks.
pub(crate) struct Resolver {
    helper: Option<Helper>,
    version: IpVersion,
    schedule: Schedule,
    due: Nanos,
}

impl Resolver {
    /// Starts the process that asks, if one of `addresses` is a name. The box listens at `listen`.
    pub(crate) fn start<'a>(
        now: Nanos,
        listen: Option<SocketAddr>,
        addresses: impl IntoIterator<Item = &'a PeerAddress>,
    ) -> Self {
        let mut schedule = Schedule::default();
        for address in addresses {
            if let Some(name) = address.name() {
                schedule.begin(now, name, address.found().is_some());
            }
        }
        let helper = if schedule.is_empty() { None } else { Helper::start() };
        keep_resolved_names(helper.is_some());
        let version = listen.map_or(IpVersion::Any, IpVersion::of_peers);
        Self { helper, version, schedule, due: Nanos::ZERO }
    }

    /// Asks for all names, after the file was read again.
    pub(crate) fn ask_again(&mut self) {
        self.schedule.forget();
    }

    /// Returns a name that has got an answer, and its address. `names` are all names, each with
    /// whether its box is silent.
    pub(crate) fn poll<'a>(
        &mut self,
        now: Nanos,
        names: impl IntoIterator<Item = (&'a RemoteAddress, bool)>,
    ) -> Option<(RemoteAddress, SocketAddr)> {
        let helper = self.helper.as_mut().filter(|_| now >= self.due)?;
        self.due = now + POLL;
        let found = match helper.answer() {
            Ok(Some(answer)) => self.schedule.on_answer(answer),
            Ok(None) => None,
            Err(e) => {
                tracing::warn!("host names are not resolved again until a restart: {e}");
                self.helper = None;
                return None;
            }
        };
        if let Some((name, address)) = &found {
            note_resolved(name, self.version, *address);
        }
        if let Some(name) = self.schedule.next(now, names) {
            helper.ask(&name, self.version);
        }
        found
    }
}
