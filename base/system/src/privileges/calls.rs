//! The filter of system calls (`seccomp(2)`).

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

use super::{control, note};

/// The calls that every running daemon may make with any arguments. They use what is open already,
/// or read clocks, files' properties and the process itself. The list has more than a loop uses, so
/// that another allocator or C library finds what it needs.
const ALWAYS: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Clocks and waits.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_restart_syscall,
    // Threads and signals.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    // The process and the machine.
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_uname,
    // Files.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    // Sockets, and requests about interfaces.
    libc::SYS_bind,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
];

/// The same calls by the numbers that only older architectures have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_getdents,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// The commands of bpf(2) for maps that are open: lookup, update, delete, next key, and what a
/// descriptor stands for.
const MAP_COMMANDS: [u64; 5] = [1, 2, 3, 4, 15];

/// The kinds of sockets that requests about interfaces need.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// `PR_SET_VMA` (`linux/prctl.h`), with which the C library names its memory.
const PR_SET_VMA: libc::c_int = 0x5356_4d41;
const CONTROLS: [libc::c_int; 5] = [
    libc::PR_GET_NAME,
    libc::PR_SET_NAME,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_TIMERSLACK,
    PR_SET_VMA,
];

/// Calls that only some daemons make after their set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// It removes files that it made.
    RemoveFiles,
    /// It accepts connections.
    Accept,
}

impl Extra {
    const fn calls(self) -> &'static [libc::c_long] {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::RemoveFiles => &[libc::SYS_unlink, libc::SYS_unlinkat],
            #[cfg(not(target_arch = "x86_64"))]
            Self::RemoveFiles => &[libc::SYS_unlinkat],
            Self::Accept => &[libc::SYS_accept, libc::SYS_accept4, libc::SYS_shutdown],
        }
    }
}

/// Lets all threads of this process make only the system calls that a running daemon needs: no
/// commands, no threads, no files that it writes anew, no BPF programs, no executable memory.
///
/// Any other call fails with ENOSYS, and the kernel logs it where it audits system calls. The
/// process goes on, since a box must never cut the wire because of its filter. The C library takes
/// ENOSYS for an old kernel, and uses an older call where there is one.
pub fn restrict_calls(extra: &[Extra]) {
    note("system calls", filter(extra).and_then(|program| install(&program)));
}

/// Compiles the filter.
fn filter(extra: &[Extra]) -> io::Result<BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into().map_err(|_| {
        let what = format!("there is no filter for {}", std::env::consts::ARCH);
        io::Error::new(io::ErrorKind::Unsupported, what)
    })?;
    let compile = || -> Result<BpfProgram, BackendError> {
        let (no, yes) = (SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow);
        SeccompFilter::new(rules(extra)?, no, yes, architecture)?.try_into()
    };
    compile().map_err(io::Error::other)
}

fn rules(extra: &[Extra]) -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let extra = extra.iter().flat_map(|extra| extra.calls());
    let always = ALWAYS.iter().chain(OLDER).chain(extra);
    let mut rules: BTreeMap<i64, _> = always.map(|call| (*call, Vec::new())).collect();
    let any = |argument, values: &[u64]| -> Result<Vec<_>, BackendError> {
        values.iter().map(|value| rule(argument, Eq, *value)).collect()
    };
    rules.insert(libc::SYS_bpf, any(0, &MAP_COMMANDS)?);
    rules.insert(libc::SYS_socket, any(0, &FAMILIES.map(|family| family as u64))?);
    rules.insert(libc::SYS_prctl, any(0, &CONTROLS.map(|option| option as u64))?);
    // Files are opened to read them.
    let writing = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    let reading = MaskedEq(writing as u64);
    rules.insert(libc::SYS_openat, vec![rule(2, reading.clone(), libc::O_RDONLY as u64)?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![rule(1, reading, libc::O_RDONLY as u64)?]);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![rule(2, MaskedEq(libc::PROT_EXEC as u64), 0)?]);
    }
    // Limits are read: there is no new one.
    rules.insert(libc::SYS_prlimit64, vec![long_rule(2, Eq, 0)?]);
    // A process ends itself by a signal when it aborts.
    rules.insert(libc::SYS_tgkill, vec![rule(0, Eq, std::process::id().into())?]);
    Ok(rules)
}

/// A rule for the lower 32 bits of an argument, which is all that the kernel reads of an integer.
fn rule(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)?;
    SeccompRule::new(vec![condition])
}

/// A rule for the 64 bits of an argument, such as an address.
fn long_rule(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, is, value)?;
    SeccompRule::new(vec![condition])
}

/// Installs the filter in all threads.
fn install(program: &BpfProgram) -> io::Result<()> {
    control(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The structures of both crates are the kernel's `struct sock_filter`.
    let filter = program.as_ptr().cast_mut().cast::<libc::sock_filter>();
    let program = libc::sock_fprog { len: length, filter };
    // Without the last flag, kernels before 5.16 turn off speculation for the process, which slows
    // the forwarding down.
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC
        | libc::SECCOMP_FILTER_FLAG_LOG
        | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the program is valid through the call, which copies it, and its length is right.
    let answer = unsafe {
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program)
    };
    match answer {
        0 => Ok(()),
        1.. => Err(io::Error::other(format!("thread {answer} has a filter of its own"))),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixListener;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// The variable that makes the test below the process with the filter.
    const INNER: &str = "FB_FILTERED";

    #[test]
    fn the_filter_fits_into_what_the_kernel_takes() {
        let program = filter(&[Extra::RemoveFiles, Extra::Accept]).unwrap();
        assert!((100..4096).contains(&program.len()), "{}", program.len());
    }

    /// The filter is for the whole process, so this test runs itself again in another one.
    #[test]
    fn other_calls_fail_and_the_process_goes_on() {
        if std::env::var_os(INNER).is_none() {
            let name = "privileges::calls::tests::other_calls_fail_and_the_process_goes_on";
            let mut again = Command::new(std::env::current_exe().unwrap());
            let output = again.args(["--exact", name]).env(INNER, "1").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            return;
        }
        let file = std::env::temp_dir().join(format!("fb-calls-{}", std::process::id()));
        let mut open = File::create(&file).unwrap();
        restrict_calls(&[Extra::RemoveFiles]);
        let denied = [
            File::create(&file).map(drop),
            Command::new("true").status().map(drop),
            thread::Builder::new().spawn(|| ()).map(drop),
            UdpSocket::bind("127.0.0.1:0").and_then(|s| s.connect("127.0.0.1:9")),
            UnixListener::bind("").and_then(|l| l.accept().map(drop)),
        ];
        for answer in denied {
            assert_eq!(answer.unwrap_err().raw_os_error(), Some(libc::ENOSYS));
        }
        open.write_all(b"what is open can be used").unwrap();
        let channel = UdpSocket::bind("127.0.0.1:0").unwrap();
        channel.send_to(b"1", channel.local_addr().unwrap()).unwrap();
        assert_eq!(channel.recv(&mut [0; 2]).unwrap(), 1);
        assert!(fs::read_to_string(&file).unwrap().starts_with("what is open"));
        assert_eq!(vec![1u8; 64 << 20].iter().filter(|b| **b == 1).count(), 64 << 20);
        assert!(std::panic::catch_unwind(|| panic!("a panic unwinds")).is_err());
        fs::remove_file(&file).unwrap();
    }
}
