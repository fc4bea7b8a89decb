//! Open files: the limit of a process, and a thread's own table of descriptors.

use std::io;

/// Lets this process open `n` files if it may, and returns how many it may open now.
///
/// The limit holds for each table of descriptors: see [`own_descriptors`].
///
/// # Errors
/// If the kernel does not tell the limit.
pub fn allow_open_files(n: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing during the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur >= n {
        return Ok(limit.rlim_cur);
    }
    // The hard limit can be raised only with CAP_SYS_RESOURCE. Otherwise all of it is used.
    for (soft, hard) in [(n, limit.rlim_max.max(n)), (limit.rlim_max, limit.rlim_max)] {
        let wanted = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: `wanted` is valid for reading during the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) } == 0 {
            return Ok(soft);
        }
    }
    Ok(limit.rlim_cur)
}

/// Gives the calling thread a table of descriptors of its own, a copy of the process's.
///
/// The thread can open as many files as the process's limit says beside the other threads. A
/// descriptor that it opens means nothing to them, so it must not be passed on; those that it has
/// at its end are closed.
///
/// # Errors
/// If the kernel refuses.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: takes a flag, and changes the table of this thread alone.
    match unsafe { libc::unshare(libc::CLONE_FILES) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::thread;

    use super::*;

    #[test]
    fn a_limit_that_is_there_already_needs_no_rights() {
        let limit = allow_open_files(1).unwrap();
        assert!(limit >= 1);
        assert!(allow_open_files(limit).unwrap() >= limit);
        // More than any kernel allows: the hard limit is what remains.
        let most = allow_open_files(u64::MAX / 2).unwrap();
        assert!(most >= limit && most < u64::MAX / 2, "{most}");
    }

    #[test]
    fn a_descriptor_of_an_own_table_is_not_one_of_the_process() {
        let (number, inode) = thread::spawn(|| {
            own_descriptors().unwrap();
            // The number is far above those of the other tests.
            let files: Vec<_> = (0..200).map(|_| io::pipe().unwrap()).collect();
            let last = files[199].0.as_raw_fd();
            (last, fs::read_link(format!("/proc/thread-self/fd/{last}")).unwrap())
        })
        .join()
        .unwrap();
        let own = fs::read_link(format!("/proc/self/fd/{number}"));
        assert!(own.is_err() || own.is_ok_and(|own| own != inode));
    }
}
