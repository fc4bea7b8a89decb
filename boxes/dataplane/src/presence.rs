//! Whether an interface is still there and fits, asked for while a box runs.

use crate::error::Error;
use crate::ioctl::RequestSocket;
use crate::netdev::Netdev;
use crate::pool::Pool;

/// An interface of a running box. Its checks need no new descriptor, so that a box that has no
/// more of them goes on.
#[derive(Debug)]
pub struct Presence {
    netdev: Netdev,
    socket: RequestSocket,
}

impl Presence {
    /// Prepares the checks of `netdev`, which is in this thread's namespace.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn new(netdev: Netdev) -> Result<Self, Error> {
        Ok(Self { netdev, socket: RequestSocket::open()? })
    }

    /// Checks that the interface still exists in this namespace, and returns its present name. An
    /// interface that was made again under the same name is another interface.
    ///
    /// # Errors
    /// [`Error::Removed`] if it was removed, or moved to another namespace.
    pub fn check(&self) -> Result<String, Error> {
        let name = self.socket.name(self.netdev.index)?;
        name.ok_or_else(|| Error::Removed(self.netdev.name.clone()))
    }

    /// Checks that the interface still exists, and that its frames fit into chunks of `pool`.
    ///
    /// # Errors
    /// As [`Presence::check`]; [`Error::MtuRaised`] if the MTU is now too large.
    pub fn check_fits(&self, pool: &Pool) -> Result<(), Error> {
        let name = self.check()?;
        match self.socket.mtu(&name)? {
            // While an interface is renamed, it has its new name and is not yet found by it. If it
            // has gone instead, the next check says so.
            None => Ok(()),
            Some(mtu) if pool.fits(mtu) => Ok(()),
            Some(mtu) => Err(Error::MtuRaised { interface: name, mtu, max: Pool::MAX_MTU }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_present_under_its_name_and_another_index_is_not() {
        let mut lo = Netdev::find("lo").unwrap();
        assert_eq!(Presence::new(lo.clone()).unwrap().check().unwrap(), "lo");
        lo.index = 1 << 30;
        let error = Presence::new(lo).unwrap().check().unwrap_err();
        assert!(matches!(&error, Error::Removed(name) if name == "lo"), "{error}");
    }
}
