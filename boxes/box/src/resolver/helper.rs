//! The process that asks for addresses, and the lines between it and its box.
//!
//! A question is `4 NAME:PORT`, `6 NAME:PORT` or `* NAME:PORT`, by the IP version; the answer is
//! `+ADDRESS:PORT` or `-REASON`.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use forebay_config::{IpVersion, RemoteAddress};
use forebay_system::privileges;

/// The hidden command of the program that runs [`answer_questions`].
const COMMAND: &str = "resolve-names";
/// The longest line. A name has 253 characters at most, and a reason is cut.
const MAX_LINE: usize = 2048;
/// The most characters of a reason.
const REASON: usize = 400;

/// The running process. It ends when this value is dropped, or its box has ended.
pub(super) struct Helper {
    stream: UnixStream,
    /// What has arrived of an answer.
    line: Vec<u8>,
    /// Its end is not waited for: a running box cannot.
    _child: Child,
}

impl Helper {
    /// Starts the process; `None` if that is not possible, which is logged.
    pub(super) fn start() -> Option<Self> {
        let start = || -> io::Result<Self> {
            let (stream, theirs) = UnixStream::pair()?;
            stream.set_nonblocking(true)?;
            let output = OwnedFd::from(theirs.try_clone()?);
            let child = Command::new(std::env::current_exe()?)
                .arg(COMMAND)
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::from(output))
                .stderr(Stdio::null())
                .spawn()?;
            Ok(Self { stream, line: Vec::new(), _child: child })
        };
        let warn = |e: &_| {
            tracing::warn!("host names are not resolved again, since no process can ask: {e}");
        };
        start().inspect_err(warn).ok()
    }

    /// Asks for the address of `name`. A process that has gone is noticed by [`Self::answer`].
    pub(super) fn ask(&mut self, name: &RemoteAddress, version: IpVersion) {
        // A line fits into a socket's buffer, since one question waits at a time.
        let _ = self.stream.write_all(question(name, version).as_bytes());
    }

    /// Returns the answer to the last question; `None` before it has arrived.
    ///
    /// # Errors
    /// If the process has ended.
    pub(super) fn answer(&mut self) -> io::Result<Option<Result<SocketAddr, String>>> {
        let mut buffer = [0; MAX_LINE];
        loop {
            if let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                return Ok(Some(parse_answer(&String::from_utf8_lossy(&line[..end]))));
            }
            if self.line.len() > MAX_LINE {
                return Err(io::Error::other("its answer is too long"));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::Error::other("the process that asks has ended")),
                Ok(n) => self.line.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

fn question(name: &RemoteAddress, version: IpVersion) -> String {
    let version = match version {
        IpVersion::V4 => '4',
        IpVersion::V6 => '6',
        IpVersion::Any => '*',
    };
    format!("{version} {name}\n")
}

fn parse_answer(line: &str) -> Result<SocketAddr, String> {
    let unreadable = || format!("unreadable answer about a host name: {line}");
    match line.split_at_checked(1) {
        Some(("+", address)) => address.parse().map_err(|_| unreadable()),
        Some(("-", why)) => Err(why.to_owned()),
        _ => Err(unreadable()),
    }
}

/// Returns the answer to a question.
fn answer(question: &str) -> String {
    let resolve = || -> Result<SocketAddr, String> {
        let (version, name) = question.split_once(' ').ok_or("an unreadable question")?;
        let version = match version {
            "4" => IpVersion::V4,
            "6" => IpVersion::V6,
            "*" => IpVersion::Any,
            _ => return Err("an unknown IP version".to_owned()),
        };
        let name: RemoteAddress = name.parse().map_err(|e| format!("{e}"))?;
        name.resolve(version).map_err(|e| e.to_string())
    };
    match resolve() {
        Ok(address) => format!("+{address}\n"),
        Err(why) => {
            let one_line: String = why.chars().filter(|c| !c.is_control()).collect();
            format!("-{}\n", one_line.chars().take(REASON).collect::<String>())
        }
    }
}

/// Answers the questions on standard input until it ends. It is the whole of a process, which
/// keeps no capabilities.
///
/// # Errors
/// If standard input or output fails.
pub fn answer_questions() -> io::Result<()> {
    privileges::protect();
    privileges::keep_only(&[]);
    let (mut input, mut output) = (BufReader::new(io::stdin().lock()), io::stdout().lock());
    let mut line = String::new();
    loop {
        line.clear();
        if input.by_ref().take(MAX_LINE as u64).read_line(&mut line)? == 0 {
            return Ok(());
        }
        output.write_all(answer(line.trim_end()).as_bytes())?;
        output.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(name: &str, version: IpVersion) -> Result<SocketAddr, String> {
        let question = question(&name.parse().unwrap(), version);
        parse_answer(answer(question.trim_end()).trim_end())
    }

    #[test]
    fn questions_and_answers_are_lines() {
        let address = exchange("localhost:7", IpVersion::V4);
        assert_eq!(address, Ok("127.0.0.1:7".parse().unwrap()));
        assert!(exchange("localhost:7", IpVersion::Any).is_ok());
        let said = exchange("no_such_host.invalid:7", IpVersion::V6).unwrap_err();
        assert!(said.starts_with("the name \"no_such_host.invalid\" cannot be"), "{said}");
    }

    #[test]
    fn what_is_no_question_or_answer_is_refused() {
        for question in ["", "4", "5 localhost:7", "4 localhost", "4 10.0.0.256:9"] {
            assert!(answer(question).starts_with('-'), "{question}");
        }
        for line in ["", "+", "+192.0.2.1", "127.0.0.1:7", "é"] {
            assert!(parse_answer(line).is_err(), "{line}");
        }
    }
}
