//! Standard output and standard error of a process that must not stop for them.
//!
//! A reader may end, a disk may be full, and a pipe may have a reader that does not read. A line
//! that cannot be written at once is lost and counted.

use std::io::{self, Write};
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

use crate::text;

/// The number of bytes that a pipe takes at once if it takes any (`PIPE_BUF` of Linux).
const AT_ONCE: usize = 4096;

static STDOUT: Output = Output::new(libc::STDOUT_FILENO);
static STDERR: Output = Output::new(libc::STDERR_FILENO);

/// Returns the standard output of this process.
pub fn stdout() -> &'static Output {
    &STDOUT
}

/// Returns the standard error of this process.
pub fn stderr() -> &'static Output {
    &STDERR
}

/// A descriptor for lines of text, whose lines may be lost.
#[derive(Debug)]
pub struct Output {
    descriptor: RawFd,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The number of lines that were lost and not reported yet.
    lost: u64,
    /// Whether the last line was written in part.
    cut: bool,
}

impl Output {
    const fn new(descriptor: RawFd) -> Self {
        Self { descriptor, state: Mutex::new(State { lost: 0, cut: false }) }
    }

    /// Writes `line` with a line feed, or counts it as lost. Never blocks. Control characters in
    /// it are [escaped](text::escaped).
    pub fn line(&self, line: &str) {
        let line = format!("{}\n", text::escaped(line));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut state, line.as_bytes());
    }

    /// Writes `text` as [`Self::line`] does, but keeps the ends of its lines. All lines but the
    /// first begin with spaces, so that none looks like another message.
    pub fn paragraph(&self, text: &str) {
        let text = format!("{}\n", text::escaped_lines(text).replace('\n', "\n  "));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(&mut state, text.as_bytes());
    }

    /// Writes `line` of a log, which ends with a line feed. The first line after a loss is one that
    /// reports the number of lost lines. The log's formatter has escaped what others wrote, since
    /// a terminal gets colours too.
    pub fn log_line(&self, line: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = state.lost;
        if lost > 0 {
            let report = format!("{lost} lines of this log could not be written\n");
            if self.write(&mut state, report.as_bytes()) {
                state.lost = 0;
            } else {
                // The report itself is no line of the log.
                state.lost = lost;
            }
        }
        self.write(&mut state, line);
    }

    /// Writes `line`, and returns whether it could be written.
    fn write(&self, state: &mut State, line: &[u8]) -> bool {
        let start: &[u8] = if state.cut { b"\n" } else { b"" };
        let mut written = 0;
        for part in [start, line] {
            written += write_now(self.descriptor, part);
        }
        let whole = written == start.len() + line.len();
        if !whole {
            state.lost += 1;
            state.cut |= written > 0;
        } else {
            state.cut = false;
        }
        whole
    }
}

/// Writes the start of `bytes` that can be written without waiting; returns its length.
fn write_now(descriptor: RawFd, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        let part = &bytes[written..bytes.len().min(written + AT_ONCE)];
        let mut room = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
        // SAFETY: `room` is one valid `pollfd`, and `part` is valid for reading its length.
        let n = unsafe {
            if libc::poll(&mut room, 1, 0) != 1 || room.revents & libc::POLLOUT == 0 {
                return written;
            }
            libc::write(descriptor, part.as_ptr().cast(), part.len())
        };
        match usize::try_from(n) {
            Ok(n) if n > 0 => written += n,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return written,
        }
    }
    written
}

/// The writer of the program's log on standard error. It takes one line at a time and never fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        STDERR.log_line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn lines_beyond_the_room_of_a_pipe_are_lost_and_reported() {
        let (mut reader, writer) = io::pipe().unwrap();
        let output = Output::new(writer.as_raw_fd());
        let line = [&[b'a'; 999][..], b"\n"].concat();
        for _ in 0..1000 {
            output.log_line(&line);
        }
        let lost = output.state.lock().unwrap().lost;
        assert!((1..1000).contains(&lost), "{lost}");
        // Empty the pipe, which holds 64 KiB.
        let mut taken = vec![0; (1000 - lost as usize) * line.len()];
        reader.read_exact(&mut taken).unwrap();
        output.log_line(b"next\n");
        assert_eq!(output.state.lock().unwrap().lost, 0);
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let rest: Vec<_> = rest.lines().filter(|line| !line.starts_with('a')).collect();
        let report = format!("{lost} lines of this log could not be written");
        assert_eq!(rest.last_chunk(), Some(&[&*report, "next"]), "{rest:?}");
    }

    #[test]
    fn no_text_begins_another_line_or_has_control_characters() {
        let (mut reader, writer) = io::pipe().unwrap();
        let output = Output::new(writer.as_raw_fd());
        output.line("{\"a\":\"\u{9b}31m\"}\nb\x1b[2J");
        output.paragraph("forebay: c\x1b[2J\nforebay: d");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let expected = "{\"a\":\"\\u009b31m\"}\\nb\\u001b[2J\nforebay: c\\u001b[2J\n  forebay: d\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_full_disk_and_a_closed_reader_are_no_error() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (_, closed) = io::pipe().unwrap();
        for descriptor in [full.as_raw_fd(), closed.as_raw_fd()] {
            let output = Output::new(descriptor);
            output.line("one");
            output.log_line(b"two\n");
            assert_eq!(output.state.lock().unwrap().lost, 2);
        }
    }
}
