//! The kernel's requests about a network interface.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::{Error, last};

/// Asks the kernel about interface `name`. A request that writes its answer to memory has the
/// address in `argument`.
pub(crate) fn ioctl(
    name: &str,
    request: libc::Ioctl,
    argument: Option<libc::__c_anonymous_ifr_ifru>,
) -> Result<libc::ifreq, Error> {
    RequestSocket::open()?.ask(name, request, argument)
}

/// A socket for requests. Who asks again and again keeps one, and so needs no descriptor later.
#[derive(Debug)]
pub(crate) struct RequestSocket(OwnedFd);

impl RequestSocket {
    /// Opens a socket in the network namespace of this thread.
    pub(crate) fn open() -> Result<Self, Error> {
        // SAFETY: a plain datagram socket that only carries requests; the value owns it.
        unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            if fd < 0 { Err(last("opening a socket")) } else { Ok(Self(OwnedFd::from_raw_fd(fd))) }
        }
    }

    /// Asks as [`ioctl`] does.
    pub(crate) fn ask(
        &self,
        name: &str,
        request: libc::Ioctl,
        argument: Option<libc::__c_anonymous_ifr_ifru>,
    ) -> Result<libc::ifreq, Error> {
        // SAFETY: all-zero is a valid `ifreq`.
        let mut req: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in req.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        if let Some(argument) = argument {
            req.ifr_ifru = argument;
        }
        // SAFETY: `req` is a valid `ifreq` with a terminated name, and its argument, where the
        // request takes one, points to what the request writes.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), request, &mut req) } < 0 {
            return Err(last(format!("asking about interface `{name}`")));
        }
        Ok(req)
    }

    /// Returns the MTU of the interface with this name, if there is one.
    pub(crate) fn mtu(&self, name: &str) -> Result<Option<u32>, Error> {
        let answer = existing(self.ask(name, libc::SIOCGIFMTU, None))?;
        // SAFETY: the request filled this member of the union.
        Ok(answer.map(|answer| unsafe { answer.ifr_ifru.ifru_mtu } as u32))
    }

    /// Returns the present name of the interface with this index, if there is one.
    pub(crate) fn name(&self, index: u32) -> Result<Option<String>, Error> {
        // SAFETY: all-zero is a valid `ifreq`.
        let mut req: libc::ifreq = unsafe { std::mem::zeroed() };
        req.ifr_ifru.ifru_ifindex = index as i32;
        // SAFETY: the request reads the index and writes a terminated name.
        let name = unsafe {
            if libc::ioctl(self.0.as_raw_fd(), libc::SIOCGIFNAME, &mut req) < 0 {
                return existing(Err(last(format!("asking about interface {index}"))));
            }
            CStr::from_ptr(req.ifr_name.as_ptr())
        };
        Ok(Some(name.to_string_lossy().into_owned()))
    }
}

/// Returns `None` for an answer that there is no such interface.
fn existing<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::ENODEV) => {
            Ok(None)
        }
        other => other.map(Some),
    }
}
