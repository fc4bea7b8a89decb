//! The exchange with running boxes over their local sockets.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use forebay_records::{RELOAD_SOCKET, Reloaded, STATUS_SOCKET, STATUS_VERSION, Status};
use forebay_system::local::{self, Directory};
use forebay_system::wait::Waiter;
use forebay_system::{clock, text};
use forebay_units::Nanos;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::earlier;
use crate::socket::{BoxSocket, HANGS};

/// The size of the largest answer: about ten thousand bundles.
const MAX_ANSWER: usize = 64 << 20;
/// The part of an answer that is read before the next box is served.
const PART: usize = 1 << 16;

/// The answer of a box.
#[derive(Debug)]
pub struct Answer {
    /// The number of its process.
    pub process: u32,
    /// The state, or the reason why the box did not tell it.
    pub status: io::Result<Status>,
}

/// Reads the state of all boxes in this network namespace, within `patience` altogether.
///
/// # Errors
/// If the directory of their sockets cannot be read.
pub fn read(patience: Duration) -> io::Result<Vec<Answer>> {
    let until = Instant::now() + patience;
    let answers = exchange(find(STATUS_SOCKET)?, until).into_iter().map(|(process, text)| {
        let status = text.and_then(|text| match parse::<Status>(&text) {
            Ok(status) if status.version == STATUS_VERSION => Ok(status),
            _ => Err(other_release()),
        });
        Answer { process, status }
    });
    Ok(answers.collect())
}

/// Asks the boxes in this network namespace to read their files again, or the one that has this
/// process, within `patience` altogether.
///
/// # Errors
/// If the directory of their sockets cannot be read.
pub fn reload(
    process: Option<u32>,
    patience: Duration,
) -> io::Result<Vec<(u32, io::Result<Reloaded>)>> {
    let until = Instant::now() + patience;
    let mut sockets = find(RELOAD_SOCKET)?;
    sockets.retain(|socket| process.is_none_or(|wanted| wanted == socket.process()));
    let answers = exchange(sockets, until).into_iter().map(|(process, text)| {
        let answer = text.and_then(|text| match parse::<Reloaded>(&text) {
            Ok(answer) if answer.version == STATUS_VERSION => Ok(answer),
            _ => Err(other_release()),
        });
        (process, answer)
    });
    Ok(answers.collect())
}

/// Finds the sockets of a kind of all boxes in this network namespace, by the numbers of their
/// processes. Some of these may have ended.
///
/// # Errors
/// If the directory of the sockets cannot be read.
pub fn find(kind: &str) -> io::Result<Vec<BoxSocket>> {
    let mut all = earlier::find(kind);
    for directory in Directory::all()? {
        let sockets = directory.find(kind).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => {
                io::Error::new(e.kind(), "the boxes answer root only: run this with sudo")
            }
            _ => e,
        })?;
        let numbered =
            sockets.into_iter().filter_map(|s| Some(BoxSocket::new(s.of.parse().ok()?, s.path)));
        all.extend(numbered);
    }
    all.sort_by_key(BoxSocket::process);
    Ok(all)
}

/// Reads what another process wrote as JSON. The control characters of its texts are escaped, so
/// that they can be shown.
///
/// # Errors
/// If it is no JSON, or no `T`.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    // Most answers have nothing to escape: JSON has no control character of ASCII but DEL as it is.
    if json.iter().all(|byte| byte.is_ascii() && !matches!(byte, b'\\' | 0x7f)) {
        return serde_json::from_slice(json);
    }
    let mut value = serde_json::from_slice(json)?;
    escape(&mut value);
    serde_json::from_value(value)
}

fn escape(value: &mut Value) {
    match value {
        Value::String(text) => *text = text::escaped(text).into_owned(),
        Value::Array(all) => all.iter_mut().for_each(escape),
        Value::Object(all) => {
            for (name, mut value) in std::mem::take(all) {
                escape(&mut value);
                all.insert(text::escaped(&name).into_owned(), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// An answer that has not arrived as a whole.
struct Asked {
    /// The place of the answer in the results.
    at: usize,
    stream: UnixStream,
    text: Vec<u8>,
}

/// Connects to all sockets and reads what each box answers, until `deadline`. Boxes that have ended
/// are left out.
fn exchange(sockets: Vec<BoxSocket>, deadline: Instant) -> Vec<(u32, io::Result<Vec<u8>>)> {
    let (mut answers, mut waiting) = (Vec::new(), Vec::new());
    for socket in sockets {
        let answer = match socket.connect() {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
                ) =>
            {
                continue;
            }
            Err(e) => Err(e),
            Ok(stream) => {
                waiting.push(Asked { at: answers.len(), stream, text: Vec::new() });
                // This stays for those that do not answer in time.
                Err(io::Error::other(HANGS))
            }
        };
        answers.push((socket.process, answer));
    }
    while let Ok(left) = local::left(deadline)
        && !waiting.is_empty()
    {
        let descriptors = waiting.iter().map(|asked| asked.stream.as_raw_fd());
        let mut waiter = Waiter::new(descriptors);
        waiter.wait_until(clock::now() + Nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)));
        let mut index = 0;
        waiting.retain_mut(|asked| {
            index += 1;
            if !waiter.is_ready(index - 1) {
                return true;
            }
            let Some(answer) = asked.read() else { return true };
            answers[asked.at].1 = answer;
            false
        });
    }
    answers
}

impl Asked {
    /// Reads a part of the answer; returns the whole at its end.
    fn read(&mut self) -> Option<io::Result<Vec<u8>>> {
        let mut part = [0; PART];
        match self.stream.read(&mut part) {
            Ok(0) if self.text.is_empty() => Some(Err(closed())),
            Ok(0) => Some(Ok(std::mem::take(&mut self.text))),
            Ok(n) if self.text.len() + n > MAX_ANSWER => {
                Some(Err(io::Error::other("its answer is too long")))
            }
            Ok(n) => {
                self.text.extend_from_slice(&part[..n]);
                None
            }
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => None,
                io::ErrorKind::ConnectionReset => Some(Err(closed())),
                _ => Some(Err(e)),
            },
        }
    }
}

/// The error where a box closed the connection without an answer.
fn closed() -> io::Error {
    let why = "it answers root and its own user only, and a few commands at a time";
    io::Error::other(format!("it closed the connection: {why}"))
}

fn other_release() -> io::Error {
    io::Error::other("it is of another release: restart it")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{self, JoinHandle};

    use super::*;

    /// A directory of a test, removed when dropped.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("fb-status-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        /// Listens at a socket, which names this process.
        fn listen(&self, name: &str) -> (BoxSocket, UnixListener) {
            let path = self.0.join(name);
            let listener = UnixListener::bind(&path).unwrap();
            (BoxSocket::new(std::process::id(), path), listener)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Boxes that send a byte at a time until they may end, and then close the connection.
    fn slow_boxes(place: &Place, may_end: &Arc<AtomicBool>) -> Vec<(BoxSocket, JoinHandle<()>)> {
        let begin = |number| {
            let (socket, listener) = place.listen(&format!("slow-{number}"));
            let may_end = Arc::clone(may_end);
            let writer = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                while stream.write_all(b" ").is_ok() && !may_end.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
            (socket, writer)
        };
        (0..5).map(begin).collect()
    }

    #[test]
    fn a_slow_box_delays_no_other() {
        let place = Place::new("slow");
        let quick_is_read = Arc::new(AtomicBool::new(false));
        let slow = slow_boxes(&place, &quick_is_read);
        let (mut sockets, mut writers): (Vec<_>, Vec<_>) = slow.into_iter().unzip();
        let (quick, listener) = place.listen("quick");
        sockets.push(quick);
        writers.push(thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // A socket's buffer does not take all of it.
            stream.write_all(&vec![b'a'; 4 << 20]).unwrap();
            quick_is_read.store(true, Ordering::Relaxed);
        }));
        let answers = exchange(sockets, Instant::now() + Duration::from_secs(60));
        assert!(answers.iter().all(|(_, answer)| answer.is_ok()), "none had to be given up");
        assert_eq!(answers[5].1.as_ref().unwrap().len(), 4 << 20);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }

    #[test]
    fn boxes_that_do_not_come_to_an_end_share_one_deadline() {
        let place = Place::new("endless");
        let slow = slow_boxes(&place, &Arc::default());
        let (mut sockets, writers): (Vec<_>, Vec<_>) = slow.into_iter().unzip();
        let (silent, _listener) = place.listen("silent");
        sockets.push(silent);
        for (_, answer) in exchange(sockets, Instant::now() + Duration::from_millis(50)) {
            assert_eq!(answer.unwrap_err().to_string(), HANGS);
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }

    #[test]
    fn a_box_that_accepts_nothing_has_ended_or_is_another_process_is_named() {
        let place = Place::new("odd");
        let (full, _listener) = place.listen("full");
        let connections: Vec<_> = (0..5000).map(|_| local::connect(&full.path)).collect();
        assert!(connections.iter().any(Result::is_err), "the backlog is full");
        let (mut other, _other_listener) = place.listen("other");
        other.process = 1;
        let (ended, listener) = place.listen("ended");
        drop(listener);
        let absent = BoxSocket::new(7, place.0.join("absent"));
        let deadline = Instant::now() + Duration::from_secs(60);
        let answers = exchange(vec![full, other, ended, absent], deadline);
        let said: Vec<_> = answers.into_iter().map(|(_, a)| a.unwrap_err().to_string()).collect();
        let own = std::process::id();
        assert_eq!(said, [HANGS, &format!("its socket belongs to the process {own}")]);
    }

    #[test]
    fn what_a_box_says_can_be_shown() {
        let json = r#"{"version": 2, "process": 7, "changes": ["a\u001b[2J\nforebay: b", "c\u009b", "d\\e\"f"]}"#;
        let read: Reloaded = parse(json.replace("\\u009b", "\u{9b}").as_bytes()).unwrap();
        assert_eq!(read.changes, ["a\\u001b[2J\\nforebay: b", "c\\u009b", "d\\e\"f"]);
        assert_eq!(read.process, 7);
        let delete: Reloaded =
            parse(b"{\"version\":2,\"process\":7,\"changes\":[\"\x7f\"]}").unwrap();
        assert_eq!(delete.changes, ["\\u007f"]);
        let plain: Reloaded = parse(br#"{"version": 2, "process": 8, "changes": ["a"]}"#).unwrap();
        assert_eq!((plain.process, plain.changes.as_slice()), (8, &["a".to_owned()][..]));
        let keys: Value = parse(br#"{"a\u001b": [null, {"\r": 1.5}]}"#).unwrap();
        assert_eq!(keys, serde_json::json!({"a\\u001b": [null, {"\\r": 1.5}]}));
    }
}
