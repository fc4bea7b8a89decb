//! Mounts and the power switch for the first process of a guest.

use std::ffi::{CString, NulError};
use std::io;
use std::process::ExitCode;
use std::ptr::null;

/// The current directory of the host's process by a name that is the same for all runs. With a name
/// of the run, no two runs would be alike.
pub const HOSTS_DIR: &str = "/proc/self/cwd";

/// Mounts a file system of `kind` on `target`; `options` are the mount options, as mount(8) has
/// them.
///
/// # Errors
/// If the kernel refuses.
pub fn mount(source: &str, target: &str, kind: &str, options: &str) -> io::Result<()> {
    let text = |s: &str| CString::new(s).map_err(|e: NulError| io::Error::other(e));
    let (c_source, c_target) = (text(source)?, text(target)?);
    let (c_kind, c_options) = (text(kind)?, text(options)?);
    // SAFETY: all four are C strings that live through the call.
    let done = unsafe {
        let data = if options.is_empty() { null() } else { c_options.as_ptr().cast() };
        libc::mount(c_source.as_ptr(), c_target.as_ptr(), c_kind.as_ptr(), 0, data)
    };
    if done == 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    Err(io::Error::new(e.kind(), format!("mounting {kind} on {target}: {e}")))
}

/// Writes out all files and powers the guest off; returns only where that is not allowed.
pub fn power_off() -> ExitCode {
    // SAFETY: neither takes a pointer; the second does not return where it is allowed.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    ExitCode::FAILURE
}
