//! Applications on QUIC connections: the interface, and a transfer of a number of bytes.

use std::any::Any;
use std::collections::BTreeMap;

use bytes::Bytes;
use forebay_units::Nanos;
use quinn_proto::{
    ConnectError, Connection, ConnectionError, ConnectionHandle, Dir, Event, StreamEvent, StreamId,
    VarInt,
};

use crate::clock::instant;

/// The length of a request in bytes: a number of bytes, in the order of the network.
const REQUEST: usize = 8;
/// The largest part of an answer that is written at once.
const PART: usize = 64 * 1024;
/// What answers consist of.
static ZEROS: [u8; PART] = [0; PART];

/// Reads and writes the streams of an endpoint's connections.
pub trait Application: Any {
    /// Handles an event of a connection. What it writes is sent at once.
    fn on_event(
        &mut self,
        now: Nanos,
        handle: ConnectionHandle,
        connection: &mut Connection,
        event: Event,
    );

    /// Handles the failure to open the connection of a client.
    fn on_refused(&mut self, _now: Nanos, _error: &ConnectError) {}
}

/// A client that requests a number of bytes from [`Files`], and then closes its connection.
#[derive(Debug, Default)]
pub struct Download {
    size: u64,
    /// The time at which the handshake ended.
    pub connected: Option<Nanos>,
    /// The bytes received so far.
    pub received: u64,
    /// The time at which the last byte was received.
    pub finished: Option<Nanos>,
    /// The reason why the connection ended early or could not be opened.
    pub failed: Option<String>,
}

impl Download {
    /// Creates a client that requests `size` bytes.
    pub fn new(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    fn request(&self, connection: &mut Connection) -> Result<(), String> {
        let stream = connection.streams().open(Dir::Bi).ok_or("the server allows no stream")?;
        let mut stream = connection.send_stream(stream);
        let text = |error: &dyn std::error::Error| error.to_string();
        stream.write(&self.size.to_be_bytes()).map_err(|e| text(&e))?;
        stream.finish().map_err(|e| text(&e))
    }
}

impl Application for Download {
    fn on_event(&mut self, now: Nanos, _: ConnectionHandle, of: &mut Connection, event: Event) {
        match event {
            Event::Connected => {
                self.connected = Some(now);
                self.failed = self.request(of).err();
            }
            Event::Stream(StreamEvent::Readable { id }) => {
                let is_end = read(of, id, |part| self.received += part.len() as u64);
                if is_end && self.received == self.size {
                    self.finished = Some(now);
                    of.close(instant(now), VarInt::from_u32(0), Bytes::new());
                }
            }
            Event::ConnectionLost { reason } if self.finished.is_none() => {
                self.failed = Some(reason.to_string());
            }
            _ => {}
        }
    }

    fn on_refused(&mut self, _: Nanos, error: &ConnectError) {
        self.failed = Some(error.to_string());
    }
}

/// A stream of a server.
#[derive(Debug)]
enum Answer {
    /// The part of the request that arrived.
    Asked(Vec<u8>),
    /// The number of bytes that are still to be written.
    Left(u64),
}

/// A server that answers each request of [`Download`] with as many bytes.
///
/// It has an entry for each open stream. The transport configuration limits these, to 100 of each
/// connection by default.
#[derive(Debug, Default)]
pub struct Files {
    answers: BTreeMap<(usize, StreamId), Answer>,
    /// Connections that ended without a close by the client.
    pub failed: u64,
}

impl Files {
    fn advance(&mut self, handle: ConnectionHandle, connection: &mut Connection, id: StreamId) {
        let key = (handle.0, id);
        let answer = self.answers.entry(key).or_insert_with(|| Answer::Asked(Vec::new()));
        if let Answer::Asked(request) = answer {
            let is_end = read(connection, id, |part| {
                let room = REQUEST - request.len();
                request.extend(&part[..room.min(part.len())]);
            });
            match <[u8; REQUEST]>::try_from(&request[..]) {
                Ok(size) if is_end => *answer = Answer::Left(u64::from_be_bytes(size)),
                Err(_) if is_end => {
                    self.answers.remove(&key);
                    // It fails only if the client stopped the stream itself.
                    let _ = connection.send_stream(id).reset(VarInt::from_u32(1));
                    return;
                }
                _ => return,
            }
        }
        let Answer::Left(left) = answer else { return };
        let mut stream = connection.send_stream(id);
        let done = loop {
            if *left == 0 {
                // It fails only if the client stopped the stream.
                let _ = stream.finish();
                break true;
            }
            let part = usize::try_from(*left).unwrap_or(PART).min(PART);
            match stream.write(&ZEROS[..part]) {
                Ok(written) => *left -= written as u64,
                Err(quinn_proto::WriteError::Blocked) => break false,
                Err(_) => break true,
            }
        };
        if done {
            self.answers.remove(&key);
        }
    }
}

impl Application for Files {
    fn on_event(&mut self, _: Nanos, handle: ConnectionHandle, of: &mut Connection, event: Event) {
        match event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                while let Some(id) = of.streams().accept(Dir::Bi) {
                    self.advance(handle, of, id);
                }
            }
            Event::Stream(StreamEvent::Readable { id } | StreamEvent::Writable { id })
                if self.answers.contains_key(&(handle.0, id)) =>
            {
                self.advance(handle, of, id);
            }
            Event::ConnectionLost { reason } => {
                self.answers.retain(|(connection, _), _| *connection != handle.0);
                if !matches!(reason, ConnectionError::ApplicationClosed(_)) {
                    self.failed += 1;
                }
            }
            _ => {}
        }
    }
}

/// Reads what has arrived on a stream. Returns whether that was the end of the stream.
fn read(connection: &mut Connection, id: StreamId, mut part: impl FnMut(&[u8])) -> bool {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return false };
    let is_end = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => part(&chunk.bytes),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    // The transmit that may be needed follows: the simulation asks after each event.
    let _ = chunks.finalize();
    is_end
}
