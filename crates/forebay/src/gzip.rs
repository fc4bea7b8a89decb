//! Files that gzip compressed (RFC 1952), told by their first octets.

use std::fs;
#[cfg(feature = "plan")]
use std::io::BufRead;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use forebay_config::ConfigError;

/// The first octets of a file that gzip compressed (RFC 1952, section 2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Whether a file that begins with `start` is compressed.
fn is_gzip(start: &[u8]) -> bool {
    start.starts_with(&MAGIC)
}

/// Octets that were compressed.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) octets: Vec<u8>,
    /// Whether the compressed file ends early; the octets are those up to there.
    pub(crate) cut: bool,
}

/// Reads the regular file at `path` into memory, unpacked if it is compressed: up to `most` octets
/// each.
///
/// # Errors
/// If the file cannot be read, is damaged or is larger.
pub(crate) fn read(path: &Path, most: u64) -> Result<Unpacked, ConfigError> {
    let wrong = |message: String| ConfigError {
        file: path.to_owned(),
        line: None,
        key: String::new(),
        message,
    };
    let unread = |e: io::Error| wrong(format!("cannot be read: {e}"));
    let about = fs::metadata(path).map_err(unread)?;
    if !about.is_file() {
        return Err(wrong("is no regular file: copy what it holds into one".to_owned()));
    }
    if about.len() > most {
        return Err(wrong(format!("is larger than {most} octets: split it")));
    }
    let octets = fs::read(path).map_err(unread)?;
    if !is_gzip(&octets) {
        return Ok(Unpacked { octets, cut: false });
    }
    unpack(&octets, most).map_err(|e| wrong(format!("cannot be unpacked: {e}")))
}

/// Unpacks a `file` into memory, up to `most` octets.
///
/// A file that ends early is unpacked up to there, because a capture is often copied while it is
/// being written.
///
/// # Errors
/// If the file is damaged, or unpacks to more.
fn unpack(file: &[u8], most: u64) -> io::Result<Unpacked> {
    let mut octets = Vec::new();
    match Bounded::new(MultiGzDecoder::new(file), most).read_to_end(&mut octets) {
        Ok(_) => Ok(Unpacked { octets, cut: false }),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(Unpacked { octets, cut: true }),
        Err(e) => Err(e),
    }
}

/// Returns what `file` has, unpacked up to `most` octets if it is compressed.
///
/// # Errors
/// If the start of the file cannot be read.
#[cfg(feature = "plan")]
pub(crate) fn reader(mut file: impl BufRead + 'static, most: u64) -> io::Result<Box<dyn Read>> {
    match is_gzip(file.fill_buf()?) {
        true => Ok(Box::new(Bounded::new(MultiGzDecoder::new(file), most))),
        false => Ok(Box::new(file)),
    }
}

/// A reader that fails beyond a number of octets.
struct Bounded<R> {
    from: R,
    left: u64,
    most: u64,
}

impl<R: Read> Bounded<R> {
    fn new(from: R, most: u64) -> Self {
        Self { from, left: most, most }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let most = self.most;
            let message = format!("it unpacks to more than {most} octets: split it");
            io::Error::new(ErrorKind::FileTooLarge, message)
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(octets: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(octets).unwrap();
        encoder.finish().unwrap()
    }

    /// Octets that do not compress well, so that a cut file has some of them.
    fn octets() -> Vec<u8> {
        (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    #[test]
    fn parts_are_unpacked_one_after_the_other() {
        let file = [packed(&octets()), packed(b"more")].concat();
        assert!(is_gzip(&file) && !is_gzip(b"\x1f") && !is_gzip(b"plain"));
        let expected = [octets(), b"more".to_vec()].concat();
        let unpacked = unpack(&file, 1 << 20).unwrap();
        assert_eq!((unpacked.octets, unpacked.cut), (expected.clone(), false));
        for file in [file, expected.clone()] {
            let mut read = Vec::new();
            reader(io::Cursor::new(file), 1 << 20).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn the_bound_is_exact_and_named() {
        let file = packed(&[0; 5000]);
        assert_eq!(unpack(&file, 5000).unwrap().octets.len(), 5000);
        let error = unpack(&file, 4999).unwrap_err().to_string();
        assert_eq!(error, "it unpacks to more than 4999 octets: split it");
        let mut read = Vec::new();
        let file = io::Cursor::new(file);
        assert!(reader(file, 4999).unwrap().read_to_end(&mut read).is_err());
        // A plain file needs no bound, since it is as large as it looks.
        let plain = io::Cursor::new(vec![0; 5000]);
        assert_eq!(reader(plain, 10).unwrap().read_to_end(&mut Vec::new()).unwrap(), 5000);
    }

    #[test]
    fn a_cut_file_has_what_is_before_the_cut() {
        let file = packed(&octets());
        let unpacked = unpack(&file[..file.len() / 2], 1 << 20).unwrap();
        assert!(unpacked.cut && octets().starts_with(&unpacked.octets));
        assert!(!unpacked.octets.is_empty());
        let mut damaged = file;
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0xff;
        assert!(unpack(&damaged, 1 << 20).is_err(), "the check sum at least is wrong");
    }
}
