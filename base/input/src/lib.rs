//! Opens the files that commands are given. Every reader of such files opens them here, so that all
//! of them treat compression, cuts, sizes and encodings alike.
//!
//! - [`open`] returns a stream, for files that are too large for the memory.
//! - [`read`] returns all octets of a file.
//! - [`text`] returns the text of a file as UTF-8.
//!
//! | what | how it is treated |
//! |---|---|
//! | gzip, bzip2 and Zstandard, in one part or several | unpacked; the first octets tell, not the name |
//! | a compressed file that ends early | a stream ends there, and says so; a text is refused |
//! | octets behind the compressed data | zeros are skipped, others are refused |
//! | data that unpack to more than the bound | refused; the memory stays below the bound |
//! | `-` | the standard input; texts have to be files |
//! | a pipe, as of `<(command)` | read; texts have to be files |
//! | a directory, a device, a socket | refused |
//! | an empty file, or one that unpacks to nothing | refused; an empty text is the reader's to judge |
//! | xz, lz4, zip, tar and others | refused by their names ([`Kind`]) |
//! | UTF-8 with or without a mark, UTF-16 with a mark | decoded |
//! | XML that declares ISO-8859-1, ISO-8859-15 or Windows-1252 | decoded |
//! | other texts that are not UTF-8 | refused, with the line of the first octet |
#![forbid(unsafe_code)]

mod kind;
mod source;
mod text;
mod unpack;
mod zstd;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use forebay_config::ConfigError;
use forebay_units::Bytes;

pub use kind::Kind;
pub use text::{Undecoded, decode};
use unpack::Unpacked;
pub use unpack::{Compression, unpack};

/// The most octets that a compressed file may unpack to where it is read into memory, unless its
/// reader allows less. What a plain file takes can be seen before.
pub const MAX_UNPACKED: u64 = 256 << 20;
/// The name that stands for the standard input.
const STANDARD_INPUT: &str = "-";

/// A file that is open, or the standard input: what it has, unpacked.
pub struct Input {
    from: Unpacked<Box<dyn Read>>,
}

impl Input {
    /// Whether the compressed file ended early. It is known at the end of the stream.
    pub fn is_cut(&self) -> bool {
        self.from.is_cut()
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.from.read(into)
    }
}

/// The octets of a file, unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The unpacked octets of the file.
    pub octets: Vec<u8>,
    /// Whether the compressed file ended early. The octets are those before the cut.
    pub is_cut: bool,
}

/// Opens the file at `path`, or the standard input if it is `-`.
///
/// The stream fails where it unpacks to more than `most` octets. A plain file has no bound.
///
/// # Errors
/// If it cannot be read, is empty, or is packed in a way that is not supported.
pub fn open(path: &Path, most: u64) -> Result<Input, ConfigError> {
    let from = file(path, true)?;
    begin(path, from, most)
}

/// Reads the file at `path`, or the standard input if it is `-`, into memory.
///
/// At most `most` octets are read. A compressed file may unpack to [`MAX_UNPACKED`] at most.
///
/// # Errors
/// As [`open`]; or if the file is damaged, larger, or cut before its first octet.
pub fn read(path: &Path, most: u64) -> Result<Contents, ConfigError> {
    let from = file(path, true)?;
    let contents = contents(path, begin(path, from, most.min(MAX_UNPACKED))?, most)?;
    if contents.octets.is_empty() {
        return Err(error(path, nothing(contents.is_cut)));
    }
    Ok(contents)
}

/// Reads the text in the file at `path`, of at most `most` bytes, as UTF-8 without a mark.
///
/// # Errors
/// If it is no regular file (a pipe might never end), is larger, cut, damaged or no text, or cannot
/// be read.
pub fn text(path: &Path, most: Bytes) -> Result<String, ConfigError> {
    let from = file(path, false)?;
    let unpacked = Unpacked::new(from, most.0).map_err(|e| unread(path, &e))?;
    let Contents { octets, is_cut } = contents(path, Input { from: unpacked }, most.0)?;
    if is_cut {
        return Err(error(path, "the compressed file ends early: copy it again"));
    }
    decode(octets).map_err(|Undecoded { line, what }| ConfigError { line, ..error(path, what) })
}

/// Returns the extension of a file's name, without that of a compression: `gml` for `a.gml.gz`.
pub fn extension(path: &Path) -> Option<&str> {
    unpacked_name(path)?.extension()?.to_str()
}

/// Returns the name of a file without its extension, and without that of a compression: `a` for
/// `a.gml.gz`.
pub fn stem(path: &Path) -> Option<&OsStr> {
    unpacked_name(path)?.file_stem()
}

/// Returns the name that a file has when it is unpacked.
fn unpacked_name(path: &Path) -> Option<&Path> {
    let end = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    match end.as_deref() {
        Some("gz" | "bz2" | "zst") => path.file_stem().map(Path::new),
        _ => path.file_name().map(Path::new),
    }
}

fn error(path: &Path, message: impl Into<String>) -> ConfigError {
    let file = match is_standard_input(path) {
        true => "standard input".into(),
        false => path.to_owned(),
    };
    ConfigError { file, line: None, key: String::new(), message: message.into() }
}

fn unread(path: &Path, cause: &io::Error) -> ConfigError {
    error(path, describe(cause))
}

/// Describes an error of [`Input`], to be put behind the name of the file.
pub fn describe(cause: &io::Error) -> String {
    // Only errors of this crate have no number of the system's: they are whole sentences.
    match cause.raw_os_error() {
        Some(_) => format!("cannot be read: {cause}"),
        None => cause.to_string(),
    }
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Opens what `path` names; `streams` tells whether it may be the standard input or a pipe.
fn file(path: &Path, streams: bool) -> Result<Box<dyn Read>, ConfigError> {
    if is_standard_input(path) && streams {
        let input = io::stdin();
        if input.is_terminal() {
            let message = "is a terminal: redirect a file or a command's output into it";
            return Err(error(path, message));
        }
        return Ok(Box::new(input.lock()));
    }
    let unread = |e: io::Error| unread(path, &e);
    // The kind is looked at before the file is opened: opening a pipe waits for a writer.
    let kind = fs::metadata(path).map_err(unread)?.file_type();
    if kind.is_dir() {
        return Err(error(path, "is a directory: give a file in it"));
    }
    if !(kind.is_file() || kind.is_fifo() && streams) {
        return Err(error(path, "is no regular file: copy what it holds into one"));
    }
    Ok(Box::new(File::open(path).map_err(unread)?))
}

/// Begins to unpack, and refuses what is empty or of an unsupported packing.
fn begin(path: &Path, from: Box<dyn Read>, most: u64) -> Result<Input, ConfigError> {
    let mut from = Unpacked::new(from, most).map_err(|e| unread(path, &e))?;
    let start = from.peek().map_err(|e| unread(path, &e))?;
    if let Some(kind) = Kind::of(start).filter(Kind::is_archive) {
        return Err(error(path, kind.to_string()));
    }
    if start.is_empty() {
        let cut = from.is_cut();
        return Err(error(path, nothing(cut)));
    }
    Ok(Input { from })
}

fn nothing(is_cut: bool) -> &'static str {
    match is_cut {
        true => "the compressed file ends before anything can be unpacked: copy it again",
        false => "is empty",
    }
}

fn contents(path: &Path, mut input: Input, most: u64) -> Result<Contents, ConfigError> {
    let mut octets = Vec::new();
    let limit = most.saturating_add(1);
    (&mut input).take(limit).read_to_end(&mut octets).map_err(|e| match e.kind() {
        ErrorKind::FileTooLarge if most > MAX_UNPACKED => error(path, format!("{e}, or unpack it")),
        _ => unread(path, &e),
    })?;
    if octets.len() as u64 > most {
        return Err(error(path, format!("is larger than {most} octets: split it")));
    }
    Ok(Contents { octets, is_cut: input.is_cut() })
}

#[cfg(test)]
mod tests;
