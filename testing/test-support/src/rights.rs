//! Rights that a test drops.

use std::thread;

/// Calls `f` on a thread of its own without root's rights.
///
/// # Panics
/// If `f` panics.
pub fn without_root<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    const NOBODY: libc::uid_t = 65_534;
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: both take numbers or nothing. Without the C library's wrapper the first one
            // changes this thread alone. Only root has rights to drop.
            unsafe {
                let changed = libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY);
                assert!(changed == 0 || libc::geteuid() != 0);
            }
            f()
        });
        thread.join().unwrap()
    })
}
