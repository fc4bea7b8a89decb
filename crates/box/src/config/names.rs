//! The host names of a process's configuration, each resolved once.
//!
//! A box that runs must not wait for an answer about a name, and has given up the right to ask.
//! When it reads its file again, a name that it knows keeps its address.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use forebay_config::RemoteAddress;

/// The names of this process.
#[derive(Default)]
struct Names {
    /// The address of each name; the flag is that of [`resolve`].
    known: HashMap<(RemoteAddress, bool), SocketAddr>,
    /// Whether no further name is resolved.
    complete: bool,
}

fn names() -> MutexGuard<'static, Names> {
    static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resolves no further name in this process.
pub(crate) fn keep_resolved_names() {
    names().complete = true;
}

/// Returns the address, of IPv4 or IPv6 as `is_ipv4` says. A name that was resolved before has the
/// same address.
pub(super) fn resolve(address: &RemoteAddress, is_ipv4: bool) -> Result<SocketAddr, String> {
    let find = || address.resolve(is_ipv4).map_err(|e| e.to_string());
    if !address.has_name() {
        return find();
    }
    let mut names = names();
    if let Some(known) = names.known.get(&(address.clone(), is_ipv4)) {
        return Ok(*known);
    }
    if names.complete {
        return Err(format!(
            "a running process resolves no new name such as \"{address}\": write its address, or \
             restart the process"
        ));
    }
    let found = find()?;
    names.known.insert((address.clone(), is_ipv4), found);
    Ok(found)
}
