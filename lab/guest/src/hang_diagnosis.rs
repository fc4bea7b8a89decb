//! The process that keeps a hung guest busy.
//!
//! Each address space of a guest is a process of the host and a child of the guest's kernel. The
//! one that uses the host's time is the cause. Its name is at the end of its stack, like that of
//! every program.

use std::fs;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use crate::process::PROCESS_NAME;

/// The time for which processes are observed.
const LOOK: Duration = Duration::from_millis(500);
/// The number of bytes at the end of a stack that are searched: more than arguments and environment
/// take.
const STACK: u64 = 32 << 10;
/// The largest number of memory areas whose end is searched.
const AREAS: usize = 16;

/// Names the process that uses most of the host's time in the guest with the kernel process
/// `kernel`; the kernel itself if no process uses any.
pub fn busiest_process(kernel: u32) -> String {
    let times = || -> Vec<(u32, u64)> {
        children(kernel).into_iter().filter_map(|pid| Some((pid, cpu_time(pid)?))).collect()
    };
    let before = times();
    thread::sleep(LOOK);
    let grown = times().into_iter().filter_map(|(pid, after)| {
        let (_, before) = before.iter().find(|(p, _)| *p == pid)?;
        (after > *before).then_some((after - before, pid))
    });
    match grown.max() {
        Some((_, pid)) => name(pid).unwrap_or_else(|| "a process without a name".to_owned()),
        None => "the guest's kernel".to_owned(),
    }
}

/// The processor time that the guest with the kernel process `kernel` has used.
pub fn cpu_time_of_guest(kernel: u32) -> Duration {
    let own = [14, 15, 16, 17].into_iter().filter_map(|n| field(kernel, n)).sum::<u64>();
    let ticks = own + children(kernel).into_iter().filter_map(cpu_time).sum::<u64>();
    // SAFETY: takes a number and gives one.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    Duration::from_secs_f64(ticks as f64 / per_second)
}

/// The processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| field(pid, 4) == Some(parent.into()))
        .collect()
}

/// User and system time, in clock ticks.
fn cpu_time(pid: u32) -> Option<u64> {
    Some(field(pid, 14)? + field(pid, 15)?)
}

/// A field of proc_pid_stat(5), counted from 1 as there; from the third on.
fn field(pid: u32, number: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the command in parentheses, may contain blanks and parentheses.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(number - 3)?.parse().ok()
}

/// The name of a guest's program, from the stack of its process on the host.
fn name(pid: u32) -> Option<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    // Only the pages of the stub are above the stack.
    let areas = maps.lines().rev().filter_map(area).take(AREAS);
    areas.into_iter().find_map(|(start, end)| {
        let from = start.max(end.saturating_sub(STACK));
        let mut bytes = vec![0; (end - from) as usize];
        memory.read_exact_at(&mut bytes, from).ok()?;
        parse(&bytes)
    })
}

/// Parses a line of proc_pid_maps(5) about the guest's memory, which are pages of a file shared
/// with its kernel. Private memory is inherited from that kernel, whose own stack is at a higher
/// address.
fn area(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |s| u64::from_str_radix(s, 16).ok();
    let mut rights = rest.bytes();
    (rights.next() == Some(b'r') && rights.nth(2) == Some(b's'))
        .then_some((number(start)?, number(end)?))
}

/// Finds the name in the end of a stack, which consists of the arguments, the environment, the path
/// of the program and eight zero bytes (`create_elf_tables` and `bprm_mm_init` of Linux). Trailing
/// arguments that look like variables are taken as variables.
fn parse(stack: &[u8]) -> Option<String> {
    let text = stack.strip_suffix(&[0; 8])?.strip_suffix(&[0])?;
    let mut strings = text.rsplit(|b| *b == 0).map(|s| std::str::from_utf8(s).ok());
    let file = strings.next()??;
    if !file.starts_with('/') {
        return None;
    }
    let mut arguments = Vec::new();
    for string in strings {
        let Some(string) = string else { break };
        if let Some(name) = string.strip_prefix(PROCESS_NAME).and_then(|s| s.strip_prefix('=')) {
            return Some(name.to_owned());
        }
        let is_variable = string.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        });
        if is_variable && arguments.is_empty() {
            continue;
        }
        arguments.insert(0, string);
        // The first argument; bytes before it are not text of the program.
        if string == file {
            return Some(arguments.join(" "));
        }
    }
    Some(file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(strings: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0xff, 0x80, 0, b'x', b'8', b'6', 0, 0, 0, 0];
        strings.iter().for_each(|s| bytes.extend([s.as_bytes(), &[0]].concat()));
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn the_name_set_by_the_engine_comes_first() {
        let strings =
            ["/opt/forebay", "agent", "PATH=/bin", "FOREBAY_PROCESS=web-b", "/opt/forebay"];
        assert_eq!(parse(&stack(&strings)).as_deref(), Some("web-b"));
    }

    #[test]
    fn without_that_name_it_is_the_command_line() {
        let strings = ["/usr/bin/yes", "a=b", "-n", "PATH=/bin", "LANG=C", "/usr/bin/yes"];
        assert_eq!(parse(&stack(&strings)).as_deref(), Some("/usr/bin/yes a=b -n"));
        let last = ["/usr/bin/yes", "a=b", "PATH=/bin", "/usr/bin/yes"];
        assert_eq!(parse(&stack(&last)).as_deref(), Some("/usr/bin/yes"), "looks like a variable");
        assert_eq!(parse(&stack(&["/bin/x"])).as_deref(), Some("/bin/x"));
        assert_eq!(parse(&stack(&["no path"])), None);
        assert_eq!(parse(&[0; 64]), None);
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn the_guests_memory_is_the_shared_one() {
        let line = "7fffbf7ff000-7fffbf801000 rw-s 0d5c1000 00:19 42  /dev/shm/vm (deleted)";
        assert_eq!(area(line), Some((0x7fff_bf7f_f000, 0x7fff_bf80_1000)));
        assert_eq!(area("7ffe0000-7fff0000 rw-p 00000000 00:00 0  [stack]"), None);
        assert_eq!(area("60000000-60001000 ---s 00000000 00:19 42  /dev/shm/vm"), None);
        assert_eq!(area("nonsense"), None);
    }

    #[test]
    fn own_name_is_read_and_own_children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        assert!(children(std::process::id()).contains(&pid));
        assert!(cpu_time(pid).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(cpu_time(u32::MAX), None);
    }
}
