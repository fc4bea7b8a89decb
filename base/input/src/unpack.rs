//! Unpacks gzip (RFC 1952), bzip2 and Zstandard (RFC 8878), one part after the other.

use std::io::{self, ErrorKind, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;

use crate::source::Source;
use crate::zstd::Frame;

/// The octets that are looked at to tell what a file is.
pub(crate) const LOOKED_AT: usize = 512;

/// A compression that is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// The format of gzip (RFC 1952).
    Gzip,
    /// The format of the program bzip2.
    Bzip2,
    /// The format Zstandard (RFC 8878).
    Zstd,
}

impl Compression {
    /// Returns the compression of a file that begins with `start`.
    pub fn of(start: &[u8]) -> Option<Self> {
        /// The first octets of a block and of the end of a stream of bzip2.
        const BZIP2: [[u8; 6]; 2] =
            [[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], [0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // The time of an MRT file may look like the first four octets.
            [b'B', b'Z', b'h', b'1'..=b'9', next @ ..]
                if BZIP2.iter().any(|n| next.starts_with(n) || n.starts_with(next)) =>
            {
                Some(Self::Bzip2)
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns the name of the compression.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "Zstandard",
        }
    }
}

/// What is being read.
enum Stage<R> {
    Plain(Source<R>),
    Gzip(GzDecoder<Source<R>>),
    Bzip2(BzDecoder<Source<R>>),
    Zstd(Box<Frame<Source<R>>>),
    Ended,
}

/// A reader that unpacks what it reads, if that is compressed.
pub(crate) struct Unpacked<R> {
    stage: Stage<R>,
    compression: Option<Compression>,
    /// Octets that were unpacked to look at them, and how many of them were read since.
    ahead: Vec<u8>,
    read: usize,
    /// How many octets were unpacked, and how many may be.
    unpacked: u64,
    most: u64,
    is_cut: bool,
}

impl<R: Read> Unpacked<R> {
    /// Looks at the first octets of `from`. It may unpack to `most` octets.
    pub(crate) fn new(from: R, most: u64) -> io::Result<Self> {
        let mut source = Source::new(from);
        let compression = Compression::of(source.peek(LOOKED_AT)?);
        let stage = match compression {
            Some(compression) => Stage::of(source, compression),
            None => Stage::Plain(source),
        };
        let (ahead, read, unpacked, is_cut) = (Vec::new(), 0, 0, false);
        Ok(Self { stage, compression, ahead, read, unpacked, most, is_cut })
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the first unpacked octets, before any is read.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        while self.compression.is_some() && self.ahead.len() < LOOKED_AT {
            let mut piece = [0; LOOKED_AT];
            match self.unpack(&mut piece)? {
                0 => break,
                count => self.ahead.extend_from_slice(&piece[..count]),
            }
        }
        match &mut self.stage {
            Stage::Plain(source) => source.peek(LOOKED_AT),
            _ => Ok(&self.ahead),
        }
    }

    /// Reads from the present part, or from the next one.
    fn unpack(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(compression) = self.compression else { return Ok(0) };
        loop {
            let result = match &mut self.stage {
                Stage::Plain(source) => return source.read(into),
                Stage::Gzip(decoder) => decoder.read(into),
                Stage::Bzip2(decoder) => decoder.read(into),
                Stage::Zstd(frame) => frame.read(into),
                Stage::Ended => return Ok(0),
            };
            match result {
                Ok(0) if !into.is_empty() => self.next_part(compression)?,
                Ok(count) => {
                    self.unpacked += count as u64;
                    if self.unpacked > self.most {
                        let most = self.most;
                        let message = format!("unpacks to more than {most} octets: split it");
                        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
                    }
                    return Ok(count);
                }
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                    self.is_cut = true;
                    self.stage = Stage::Ended;
                }
                Err(e) if e.raw_os_error().is_some() => return Err(e),
                // A whole sentence of this crate.
                Err(e) if e.kind() == ErrorKind::Unsupported => return Err(e),
                Err(_) => {
                    let message = format!(
                        "the {} data are damaged, {} octets into what they unpack to: copy the \
                         file again",
                        compression.name(),
                        self.unpacked
                    );
                    return Err(io::Error::new(ErrorKind::InvalidData, message));
                }
            }
        }
    }

    /// Goes on to the part behind one that has ended, if there is one.
    fn next_part(&mut self, compression: Compression) -> io::Result<()> {
        let mut source = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Gzip(decoder) => decoder.into_inner(),
            Stage::Bzip2(decoder) => decoder.into_inner(),
            Stage::Zstd(frame) => {
                let (source, is_cut) = frame.into_inner();
                self.is_cut |= is_cut;
                source
            }
            Stage::Plain(_) | Stage::Ended => return Ok(()),
        };
        let next = source.peek(LOOKED_AT)?;
        if Compression::of(next) == Some(compression) {
            self.stage = Stage::of(source, compression);
        } else if !source.skip_zeros()? {
            let name = compression.name();
            let message = format!("has other octets behind its {name} data: remove them");
            return Err(io::Error::new(ErrorKind::InvalidData, message));
        }
        Ok(())
    }
}

impl<R: Read> Stage<R> {
    fn of(source: Source<R>, compression: Compression) -> Self {
        match compression {
            Compression::Gzip => Self::Gzip(GzDecoder::new(source)),
            Compression::Bzip2 => Self::Bzip2(BzDecoder::new(source)),
            Compression::Zstd => Self::Zstd(Box::new(Frame::new(source))),
        }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Stage::Plain(source) = &mut self.stage {
            return source.read(into);
        }
        let mut ahead = &self.ahead[self.read..];
        if !ahead.is_empty() {
            let count = ahead.read(into)?;
            self.read += count;
            return Ok(count);
        }
        self.unpack(into)
    }
}

/// Unpacks `octets` into memory if they are compressed: to at most `most` octets. Returns them, and
/// whether they end early.
///
/// # Errors
/// If they are damaged, or unpack to more.
pub fn unpack(octets: &[u8], most: u64) -> io::Result<(Vec<u8>, bool)> {
    let mut unpacked = Vec::new();
    let mut from = Unpacked::new(octets, most)?;
    from.read_to_end(&mut unpacked)?;
    Ok((unpacked, from.is_cut()))
}
