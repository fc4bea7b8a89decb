//! The kernel's requests about a network interface.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::{Error, last};

/// Asks the kernel about interface `name`. A request that writes its answer to memory has the
/// address in `argument`.
pub(crate) fn ioctl(
    name: &str,
    request: libc::Ioctl,
    argument: Option<libc::__c_anonymous_ifr_ifru>,
) -> Result<libc::ifreq, Error> {
    // SAFETY: a plain datagram socket, only used to carry the request; ownership goes to `socket`.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(last("opening a socket"));
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: all-zero is a valid `ifreq`.
    let mut req: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in req.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    if let Some(argument) = argument {
        req.ifr_ifru = argument;
    }
    // SAFETY: `req` is a valid `ifreq` with a terminated name, and its argument, where the request
    // takes one, points to what the request writes.
    if unsafe { libc::ioctl(socket.as_raw_fd(), request, &mut req) } < 0 {
        return Err(last(format!("asking about interface `{name}`")));
    }
    Ok(req)
}
