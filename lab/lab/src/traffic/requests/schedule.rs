//! An open loop over lasting connections: the next request is sent when its time has come, whatever
//! the answers do.
//!
//! The answers on a connection are in the order of their requests, so the client separates them by
//! counting bytes.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use forebay_system::clock;
use forebay_units::Nanos;

use crate::results::Request;
use crate::traffic::cue::FILLER;
use crate::traffic::pair::pack;
use crate::traffic::spec::Window;
use crate::traffic::{sockets, wait};
use crate::workload::Asked;

/// A request whose answer is not complete.
struct Pending {
    request: Request,
    left: u64,
}

/// A connection of the client and the pending requests on it, oldest first.
struct Connection {
    stream: TcpStream,
    pending: Mutex<VecDeque<Pending>>,
}

impl Connection {
    fn pending(&self) -> MutexGuard<'_, VecDeque<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the requests of `schedule`, each on its connection. Returns the largest lateness, and all
/// requests.
pub(super) fn converse(
    streams: Vec<TcpStream>,
    schedule: &[Asked],
    window: Window,
    count: &AtomicU64,
) -> io::Result<(Nanos, Vec<Request>)> {
    let connection = |stream| Connection { stream, pending: Mutex::default() };
    let connections = &streams.into_iter().map(connection).collect::<Vec<_>>();
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = connections
            .iter()
            .map(|connection| scope.spawn(move || read_answers(connection, count, over)))
            .collect();
        let late = ask_all(connections, schedule, window.begin);
        if late.is_ok() {
            wait::sleep_until(window.end);
        }
        over.store(true, Ordering::Relaxed);
        for connection in connections {
            // An error means that it is closed already.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        let mut records = Vec::with_capacity(schedule.len());
        for reader in readers {
            records.extend(sockets::join(reader)?);
        }
        Ok((late?, records))
    })
}

fn ask_all(connections: &[Connection], schedule: &[Asked], begin: Nanos) -> io::Result<Nanos> {
    let mut late = Nanos::ZERO;
    for (id, asked) in (0..).zip(schedule) {
        let due = begin + asked.at;
        wait::sleep_until(due);
        let start = clock::now();
        late = late.max(start.saturating_sub(due));
        let request = Request {
            id,
            connection: asked.connection,
            size: asked.size,
            start: start.0,
            end: None,
        };
        let connection = &connections[asked.connection as usize];
        connection.pending().push_back(Pending { request, left: asked.size });
        (&connection.stream).write_all(&pack(id, asked.size))?;
    }
    Ok(late)
}

/// Reads answers until the run is over, and returns all requests.
fn read_answers(
    connection: &Connection,
    count: &AtomicU64,
    over: &AtomicBool,
) -> io::Result<Vec<Request>> {
    let mut records = Vec::new();
    let mut buf = vec![0; FILLER.len()];
    loop {
        let read = (&connection.stream).read(&mut buf);
        let now = clock::now();
        if over.load(Ordering::Relaxed) {
            break;
        }
        let n = match read {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
            }
            Ok(n) => n as u64,
            Err(e) if sockets::is_passing(&e) => continue,
            Err(e) => return Err(e),
        };
        count.fetch_add(n, Ordering::Relaxed);
        account(&mut connection.pending(), n, now, &mut records)?;
    }
    records.extend(connection.pending().drain(..).map(|pending| pending.request));
    Ok(records)
}

/// Assigns `n` received bytes to the pending answers, oldest first; completed ones go to `records`.
fn account(
    pending: &mut VecDeque<Pending>,
    mut n: u64,
    now: Nanos,
    records: &mut Vec<Request>,
) -> io::Result<()> {
    while n > 0 {
        let Some(front) = pending.front_mut() else {
            return Err(io::Error::other(format!("{n} bytes arrived without a request")));
        };
        let taken = n.min(front.left);
        front.left -= taken;
        n -= taken;
        if front.left == 0 {
            records.push(Request { end: Some(now.0), ..front.request });
            pending.pop_front();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_to_the_oldest_request() {
        let pending = |id, size| Pending {
            request: Request { id, connection: 0, size, start: 0, end: None },
            left: size,
        };
        let mut queue = VecDeque::from([pending(1, 10), pending(2, 5), pending(3, 1)]);
        let mut records = Vec::new();
        account(&mut queue, 9, Nanos(1), &mut records).unwrap();
        assert!(records.is_empty());
        account(&mut queue, 6, Nanos(2), &mut records).unwrap();
        assert_eq!(
            records.iter().map(|r| (r.id, r.end)).collect::<Vec<_>>(),
            [(1, Some(2)), (2, Some(2))]
        );
        assert!(account(&mut queue, 2, Nanos(3), &mut records).is_err(), "one byte too many");
    }
}
