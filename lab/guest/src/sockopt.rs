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

/// Reads the option `name` of `level` into `value`, and returns the number of bytes that the kernel
/// wrote.
///
/// # Errors
///
/// The kernel's answer.
pub fn get(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: `value` is valid for writing `len` bytes, and `len` lives through the call.
    let done = unsafe {
        let to = value.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut len)
    };
    if done == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}
