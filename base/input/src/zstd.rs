//! A frame of Zstandard (RFC 8878, section 3.1), or a skippable one.
//!
//! The decoder keeps what it unpacked until the window is full or the frame ends, so that a frame
//! that ends early would lose megabytes. [`Blocks`] therefore gives the decoder whole blocks only,
//! and where the file ends within one it puts an empty last block in its place.

use std::io::{self, BufRead, ErrorKind, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest window that is accepted, in octets: that of `zstd --long`, which is also the largest
/// that the program accepts by default.
const MAX_WINDOW: u64 = 1 << 27;
/// The last block of a frame, empty (section 3.1.1.2).
const LAST_BLOCK: [u8; 3] = [1, 0, 0];
/// The length of a block's header, in octets.
const BLOCK_HEADER: usize = 3;
/// The largest block, in octets (section 3.1.1.2.4).
const MAX_BLOCK: usize = 1 << 17;

/// Where the decoder is in the frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Blocks,
    /// Behind the last block: at the checksum, if the frame has one.
    End,
}

/// The octets of a frame, in whole blocks.
struct Blocks<R> {
    from: R,
    place: Place,
    /// The present block, and how much of it was read.
    block: Vec<u8>,
    read: usize,
    is_cut: bool,
}

impl<R: Read> Blocks<R> {
    /// Reads the next block, or puts an empty last one in its place.
    fn next_block(&mut self) -> io::Result<()> {
        self.block.resize(BLOCK_HEADER, 0);
        self.read = 0;
        let mut is_whole = self.fill(0)?;
        let header =
            self.block[0] as u32 | (self.block[1] as u32) << 8 | (self.block[2] as u32) << 16;
        // A block of one octet that is repeated has only that octet. The size of a damaged block is
        // left to the decoder.
        let size = if header >> 1 & 3 == 1 { 1 } else { (header >> 3) as usize };
        if is_whole {
            self.block.resize(BLOCK_HEADER + size.min(MAX_BLOCK), 0);
            is_whole = self.fill(BLOCK_HEADER)?;
        }
        if !is_whole {
            self.is_cut = true;
            self.block = LAST_BLOCK.to_vec();
        }
        if !is_whole || header & 1 == 1 {
            self.place = Place::End;
        }
        Ok(())
    }

    /// Fills the block from `at` on; false if the file ends before.
    fn fill(&mut self, at: usize) -> io::Result<bool> {
        match self.from.read_exact(&mut self.block[at..]) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.block.len() && self.place == Place::Blocks {
            self.next_block()?;
        }
        let mut block = &self.block[self.read..];
        if !block.is_empty() {
            let count = block.read(into)?;
            self.read += count;
            return Ok(count);
        }
        match self.from.read(into)? {
            // The checksum is missing.
            0 if self.place == Place::End && !into.is_empty() => {
                self.is_cut = true;
                into.fill(0);
                Ok(into.len())
            }
            count => Ok(count),
        }
    }
}

/// A frame that is being unpacked.
pub(crate) struct Frame<R> {
    blocks: Blocks<R>,
    decoder: FrameDecoder,
    /// Whether nothing follows.
    is_ended: bool,
}

impl<R: BufRead> Frame<R> {
    pub(crate) fn new(from: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        let (place, block) = (Place::Header, Vec::new());
        let blocks = Blocks { from, place, block, read: 0, is_cut: false };
        Self { blocks, decoder, is_ended: false }
    }

    /// Returns what follows the frame, and whether the frame ended early.
    pub(crate) fn into_inner(self) -> (R, bool) {
        (self.blocks.from, self.blocks.is_cut)
    }

    /// Reads the header, or skips a frame that has no data (section 3.1.2).
    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.blocks) {
            Ok(()) => {
                self.blocks.place = Place::Blocks;
                Ok(())
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = u64::from(length);
                let from = (&mut self.blocks.from).take(length);
                let skipped = io::copy(&mut { from }, &mut io::sink())?;
                self.blocks.is_cut = skipped < length;
                self.is_ended = true;
                Ok(())
            }
            Err(e) => Err(self.cause(&e)),
        }
    }

    /// Returns what is wrong with the frame.
    fn cause(&mut self, error: &FrameDecoderError) -> io::Error {
        match error {
            FrameDecoderError::WindowSizeTooBig { requested, .. } => {
                let message = format!(
                    "needs {requested} octets of memory to be unpacked, more than the \
                     {MAX_WINDOW} of `zstd --long`: unpack it with `zstd -d --memory`"
                );
                io::Error::new(ErrorKind::Unsupported, message)
            }
            FrameDecoderError::DictNotProvided { .. } => {
                let message = "was packed with a dictionary: unpack it with `zstd -d -D`";
                io::Error::new(ErrorKind::Unsupported, message)
            }
            // Only the header is read in pieces that may be missing.
            _ => match self.blocks.from.fill_buf() {
                Ok([]) if self.blocks.place == Place::Header => ErrorKind::UnexpectedEof.into(),
                Err(e) => e,
                Ok(_) => ErrorKind::InvalidData.into(),
            },
        }
    }
}

impl<R: BufRead> Read for Frame<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.blocks.place == Place::Header && !self.is_ended {
            self.begin()?;
        }
        while !self.is_ended && self.decoder.can_collect() == 0 {
            if self.decoder.is_finished() {
                self.is_ended = true;
                let stored = self.decoder.get_checksum_from_data();
                let found = self.decoder.get_calculated_checksum();
                if !self.blocks.is_cut && stored.is_some() && stored != found {
                    return Err(ErrorKind::InvalidData.into());
                }
                break;
            }
            let one = BlockDecodingStrategy::UptoBlocks(1);
            if let Err(e) = self.decoder.decode_blocks(&mut self.blocks, one) {
                return Err(self.cause(&e));
            }
        }
        match self.is_ended {
            true => Ok(0),
            false => self.decoder.read(into),
        }
    }
}
