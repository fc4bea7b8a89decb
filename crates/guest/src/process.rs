//! What processes on both sides of a guest's border share.

use std::io;

/// The environment variable that holds a process's name, for whoever looks at it from outside.
pub const PROCESS_NAME: &str = "FOREBAY_PROCESS";

/// Has the kernel kill this process when the thread that started it ends, in the process `parent`.
/// Makes plain system calls only, so it may be called between fork and exec.
pub fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: neither call reads or writes memory of this process.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0 {
            return Err(io::Error::last_os_error());
        }
        // It may have died before the line above.
        if libc::getppid() as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}
