//! A connection to a broker: one request at a time.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire::{Api, Request};

/// The largest answer of a broker in octets.
const MAX_ANSWER: usize = 64 << 20;

/// A connection to a broker.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// The number of the last request.
    number: i32,
    /// The answer to the last request.
    answer: Vec<u8>,
}

impl Connection {
    /// Connects to a broker, whose address has a host and a port.
    pub(super) async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, number: 0, answer: Vec::new() })
    }

    /// Sends a request and returns its answer.
    pub(super) async fn ask(
        &mut self,
        api: Api,
        request: impl FnOnce(Request) -> Vec<u8>,
    ) -> io::Result<&[u8]> {
        self.number = self.number.wrapping_add(1);
        let request = request(Request::new(api, self.number));
        self.stream.write_all(&request).await?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).await?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if !(4..=MAX_ANSWER).contains(&length) {
            let message = format!("an answer has {length} octets, and {MAX_ANSWER} at most");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        // What does not come takes no memory.
        self.answer.clear();
        let mut left = (&mut self.stream).take(length as u64);
        while self.answer.len() < length {
            if left.read_buf(&mut self.answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        match self.answer.split_first_chunk() {
            Some((number, answer)) if i32::from_be_bytes(*number) == self.number => Ok(answer),
            _ => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "an answer is for another request"))
            }
        }
    }

    /// Frees the memory of the last answer.
    pub(super) fn forget(&mut self) {
        self.answer = Vec::new();
    }
}
