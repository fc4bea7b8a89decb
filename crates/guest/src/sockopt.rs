//! Socket options for which no other crate has a safe call.

use std::io;
use std::os::fd::AsRawFd;

/// Sets the option `name` of `level`; `value` has the type that the kernel expects, such as an int.
///
/// # Errors
///
/// The kernel's answer.
pub fn set<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: `value` is valid for reading its own size during the call.
    let done = unsafe {
        let len = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
