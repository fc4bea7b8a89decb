//! The name and the lifetime of processes, on the host and in guests.

use std::io;

/// The environment variable that holds the name of a process, for observers outside the guest.
pub const PROCESS_NAME: &str = "FOREBAY_PROCESS";

/// Makes the kernel kill this process when the thread that started it ends; `parent` is the id of
/// its process. Only plain system calls are made, so it may be called between fork and exec.
pub fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: neither call reads or writes memory of this process.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the call above.
        if libc::getppid() as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}
