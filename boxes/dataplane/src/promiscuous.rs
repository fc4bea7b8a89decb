//! The promiscuous mode of the ports of a wire.
//!
//! A wire takes frames that are not for this machine, which NICs drop unless the interface is
//! promiscuous. The programs that a box leaves need it too, so it must outlive the process.

use crate::bpf;
use crate::bypass;
use crate::error::Error;
use crate::ioctl::ioctl;
use crate::netdev::Netdev;

/// The promiscuous mode of one port.
pub(crate) struct Promiscuous {
    name: String,
    /// Whether a box turned it on, and not the machine's administrator.
    by_box: bool,
    /// Whether it stays when this value is dropped.
    stays: bool,
}

impl Promiscuous {
    /// Turns promiscuous mode of `netdev` on.
    pub(crate) fn turn_on(netdev: &Netdev) -> Result<Self, Error> {
        let is_left = is_leftover(netdev)?;
        let was_on = switch(&netdev.name, true)?;
        Ok(Self { name: netdev.name.clone(), by_box: is_left || !was_on, stays: was_on })
    }

    /// Returns whether a box turned the mode on.
    pub(crate) fn is_by_box(&self) -> bool {
        self.by_box
    }

    /// Turns the mode off when this value is dropped, unless the administrator turned it on.
    pub(crate) fn give_back(&mut self) {
        self.stays = !self.by_box;
    }

    /// Leaves the mode on when this value is dropped.
    pub(crate) fn keep(&mut self) {
        self.stays = true;
    }
}

impl Drop for Promiscuous {
    fn drop(&mut self) {
        if !self.stays
            && let Err(e) = switch(&self.name, false)
        {
            tracing::debug!("cannot end the promiscuous mode of a port: {e}");
        }
    }
}

/// Returns whether a box that ended left the interface in promiscuous mode, by what the programs
/// say that it left too.
pub(crate) fn is_leftover(netdev: &Netdev) -> Result<bool, Error> {
    let xdp = bpf::attached(netdev.index)?.filter(|(_, name)| name == bpf::PORT.name);
    let filter = bypass::attached(netdev.index)?.filter(|(_, name)| name == bpf::BYPASS.name);
    Ok(xdp.into_iter().chain(filter).any(|(id, _)| bpf::made_promiscuous(id)))
}

/// Turns the promiscuous mode of an interface on or off, and returns whether it was on.
pub(crate) fn switch(name: &str, on: bool) -> Result<bool, Error> {
    let answer = ioctl(name, libc::SIOCGIFFLAGS, None)?;
    // SAFETY: the request filled this member of the union.
    let flags = unsafe { answer.ifr_ifru.ifru_flags };
    let bit = libc::IFF_PROMISC as i16;
    let wanted = if on { flags | bit } else { flags & !bit };
    if wanted != flags {
        let ifru = libc::__c_anonymous_ifr_ifru { ifru_flags: wanted };
        ioctl(name, libc::SIOCSIFFLAGS, Some(ifru))?;
    }
    Ok(flags & bit != 0)
}
