//! A buffered reader that can look ahead.

use std::io::{self, BufRead, ErrorKind, Read};

/// The octets that are read at a time.
const PIECE: usize = 1 << 16;

/// A reader whose next octets can be looked at.
pub(crate) struct Source<R> {
    from: R,
    buffer: Vec<u8>,
    /// The octets of the buffer that are taken.
    taken: usize,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, buffer: Vec::new(), taken: 0 }
    }

    /// Returns the next octets: at least `least`, or else all that are left.
    pub(crate) fn peek(&mut self, least: usize) -> io::Result<&[u8]> {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        while self.buffer.len() < least {
            let known = self.buffer.len();
            self.buffer.resize(known + PIECE, 0);
            let count = loop {
                match self.from.read(&mut self.buffer[known..]) {
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            self.buffer.truncate(known + *count.as_ref().unwrap_or(&0));
            if count? == 0 {
                break;
            }
        }
        Ok(&self.buffer)
    }

    /// Whether nothing is left but zeros, which are skipped.
    pub(crate) fn skip_zeros(&mut self) -> io::Result<bool> {
        loop {
            let next = self.fill_buf()?;
            if next.is_empty() {
                return Ok(true);
            }
            if next.iter().any(|octet| *octet != 0) {
                return Ok(false);
            }
            let count = next.len();
            self.consume(count);
        }
    }
}

impl<R: Read> BufRead for Source<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.buffer.len() {
            return self.peek(1);
        }
        Ok(&self.buffer[self.taken..])
    }

    fn consume(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.buffer.len());
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}
