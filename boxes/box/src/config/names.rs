//! The host names of a process's configuration.
//!
//! A command that checks a file resolves them all. A box that starts resolves them too, and goes on
//! without those that have no address yet. A box that runs has given up the right to ask, and must
//! not wait for an answer: its resolver ([`crate::resolver`]) asks for it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use forebay_config::{IpVersion, RemoteAddress};

/// How a name is resolved when a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Each name must have an address.
    #[default]
    Checking,
    /// A box starts: a name may have no address yet.
    Starting,
    /// A box runs: nothing is resolved here.
    Running,
}

/// The names of this process.
#[derive(Default)]
struct Names {
    stage: Stage,
    /// Whether a resolver runs, which will find new names.
    has_resolver: bool,
    /// The address of each name that was asked for; `None` if it has none yet.
    known: HashMap<(RemoteAddress, IpVersion), Option<SocketAddr>>,
}

fn names() -> MutexGuard<'static, Names> {
    static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets files that are read from now on have names that cannot be resolved yet: a box starts.
pub fn accept_unresolved_names() {
    names().stage = Stage::Starting;
}

/// Resolves no further name when a file is read: a box runs, with a resolver or without.
pub(crate) fn keep_resolved_names(has_resolver: bool) {
    let mut names = names();
    (names.stage, names.has_resolver) = (Stage::Running, has_resolver);
}

/// Notes the present address of a name.
pub(crate) fn note_resolved(name: &RemoteAddress, version: IpVersion, address: SocketAddr) {
    names().known.insert((name.clone(), version), Some(address));
}

/// Returns the address, of this version; `None` if a name has none yet. A name that was resolved
/// before has the address that it had last.
pub(super) fn resolve(
    address: &RemoteAddress,
    version: IpVersion,
) -> Result<Option<SocketAddr>, String> {
    let find = || address.resolve(version).map_err(|e| e.to_string());
    if !address.has_name() {
        return find().map(Some);
    }
    let mut names = names();
    if let Some(known) = names.known.get(&(address.clone(), version)) {
        return Ok(*known);
    }
    match names.stage {
        Stage::Running if names.has_resolver => return Ok(None),
        Stage::Running => {
            return Err(format!(
                "a process that started without a host name resolves no new one such as \
                 \"{address}\": write its address, or restart the process"
            ));
        }
        Stage::Checking | Stage::Starting => {}
    }
    match find() {
        Ok(found) => {
            names.known.insert((address.clone(), version), Some(found));
            Ok(Some(found))
        }
        Err(why) if names.stage == Stage::Starting => {
            tracing::warn!("{why}; it will be tried again");
            names.known.insert((address.clone(), version), None);
            Ok(None)
        }
        Err(why) => Err(why),
    }
}
