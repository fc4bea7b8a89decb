//! Trials in a network namespace of their own.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;

/// Calls `f` in a new network namespace, which has only a loopback interface that is up. The
/// namespace ends with the thread.
///
/// # Errors
/// If this process may not create a namespace.
pub(super) fn within<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let trial = scope.spawn(|| {
            // SAFETY: takes a flag, and changes the network namespace of this thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            bring_up("lo")?;
            Ok(f())
        });
        trial.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn bring_up(name: &str) -> io::Result<()> {
    // SAFETY: a plain datagram socket that carries the request, owned by nobody else; all-zero is a
    // valid `ifreq`, which lives through the call.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
        match libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
