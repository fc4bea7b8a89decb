//! Files of crusader in its own format (`.crr`): a header, and MessagePack in frames of snappy.
//!
//! The content has the fields of `crusader export`, so [`super::crusader`] makes runs of both.

use std::io::{Cursor, Read};

use rmp_serde::Deserializer;
use serde::Deserialize;
use snap::read::FrameDecoder;

use super::MAX_FILE;
use super::crusader::Crusader;

/// The first eight bytes of a file, little-endian.
const MAGIC: u64 = 0x5372_ab82_ae7c_59cb;
/// The length of the header: the magic number and the version.
const HEADER: usize = 16;
/// The versions that are read.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=2;
/// The depth of the content: its own is 7.
const DEEPEST: usize = 32;

/// What is wrong with a file, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The byte, from zero.
    pub(super) at: u64,
    pub(super) problem: String,
}

/// Returns whether `file` begins as such a file does.
pub(super) fn is_crr(file: &[u8]) -> bool {
    file.starts_with(&MAGIC.to_le_bytes())
}

/// Reads a file that [`is_crr`].
pub(super) fn read(file: &[u8]) -> Result<Crusader, Fault> {
    let cut = || Fault { at: file.len() as u64, problem: "the file ends in its header".to_owned() };
    let version = file.get(8..HEADER).and_then(|bytes| bytes.try_into().ok()).ok_or_else(cut)?;
    let version = u64::from_le_bytes(version);
    if !VERSIONS.contains(&version) {
        let problem = format!(
            "version {version} of crusader's files is not known; `crusader export` makes JSON of it"
        );
        return Err(Fault { at: 8, problem });
    }
    let content = decompress(file)?;
    let mut decoder = Deserializer::new(Cursor::new(content.as_slice()));
    decoder.set_max_depth(DEEPEST);
    let result = Crusader::deserialize(&mut decoder);
    let at = decoder.get_ref().position();
    let inside = |problem: String| Fault {
        at: HEADER as u64,
        problem: format!("at byte {at} of its uncompressed content: {problem}"),
    };
    let result = result.map_err(|e| inside(format!("not a result of crusader: {e}")))?;
    if at < content.len() as u64 {
        return Err(inside("bytes follow the result".to_owned()));
    }
    Ok(result)
}

/// Returns the content of all frames.
fn decompress(file: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut rest = Cursor::new(file);
    rest.set_position(HEADER as u64);
    let mut frames = FrameDecoder::new(rest);
    let mut content = Vec::new();
    let result = frames.by_ref().take(MAX_FILE + 1).read_to_end(&mut content);
    let at = frames.get_ref().position();
    if let Err(e) = result {
        let problem = format!("the compressed content is damaged or incomplete: {e}");
        return Err(Fault { at, problem });
    }
    if content.len() as u64 > MAX_FILE {
        let problem = format!("more than {MAX_FILE} bytes of content, which is too large");
        return Err(Fault { at, problem });
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file with this version and content.
    fn file(version: u64, content: &[u8]) -> Vec<u8> {
        let mut file = [MAGIC.to_le_bytes(), version.to_le_bytes()].concat();
        let mut frames = snap::write::FrameEncoder::new(&mut file);
        frames.write_all(content).unwrap();
        frames.flush().unwrap();
        drop(frames);
        file
    }

    /// One download of 5000 bytes between 1 s and 1.5 s, and two pings, one of them lost. Every
    /// byte is from the specification of MessagePack, by hand. An unknown field is ignored.
    const CONTENT: &[u8] = b"\x83\
        \xa7version\x02\
        \xadstream_groups\x91\x83\
          \xa8download\xc3\xa4both\xc2\xa7streams\x91\x81\xa4data\x92\
            \x82\xa4time\x82\xa4secs\x01\xa5nanos\x00\xa5bytes\x00\
            \x82\xa4time\x82\xa4secs\x01\xa5nanos\xce\x1d\xcd\x65\x00\xa5bytes\xcd\x13\x88\
        \xa5pings\x92\
          \x83\xa5index\x00\xa4sent\x82\xa4secs\x00\xa5nanos\x00\xa7latency\xc0\
          \x83\xa5index\x01\xa4sent\x82\xa4secs\x01\xa5nanos\x01\
            \xa7latency\x82\xa5total\x82\xa4secs\x00\xa5nanos\x07\
              \xa2up\x82\xa4secs\x00\xa5nanos\x03";

    #[test]
    fn a_file_by_hand() {
        for version in [1, 2] {
            let result = read(&file(version, CONTENT)).unwrap();
            let runs = super::super::crusader::runs(&result, "a");
            let [run] = &runs[..] else { panic!("{} runs", runs.len()) };
            assert_eq!(run.arm, "a, download");
            let read: Vec<_> = run.progress.iter().map(|p| (p.time, p.bytes)).collect();
            assert_eq!(read, [(1_500_000_000, 5000)]);
            let trips: Vec<_> = run.round_trips.iter().map(|t| (t.start, t.end)).collect();
            assert_eq!(trips, [(0, None), (1_000_000_001, Some(1_000_000_008))]);
        }
    }

    #[test]
    fn faults_have_their_place() {
        let problem = |file: &[u8]| {
            let fault = read(file).unwrap_err();
            (fault.at, fault.problem)
        };
        let whole = file(2, CONTENT);
        assert!(is_crr(&whole) && !is_crr(b"{\"pings\"") && !is_crr(&whole[..7]));
        assert_eq!(problem(&whole[..12]), (12, "the file ends in its header".to_owned()));
        let (at, text) = problem(&file(3, CONTENT));
        assert!(
            at == 8 && text.contains("version 3") && text.contains("crusader export"),
            "{text}"
        );
        let (at, text) = problem(&file(2, &CONTENT[..100]));
        assert!(at == 16 && text.contains("at byte 100 of its uncompressed"), "{text}");
        let (_, text) = problem(&file(2, &[CONTENT, b"\xc0"].concat()));
        assert!(text.contains("bytes follow the result"), "{text}");
        let (_, text) = problem(&file(2, b"\x05"));
        assert!(text.contains("not a result of crusader"), "{text}");
        // A file without its end, and one with a changed bit.
        for length in [17, 40, whole.len() - 1] {
            let (at, text) = problem(&whole[..length]);
            assert!(at <= length as u64 && text.contains("incomplete"), "{length}: {text}");
        }
        let mut changed = whole.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(problem(&changed).1.contains("damaged"));
    }

    #[test]
    fn a_small_file_of_much_content_is_refused() {
        let large = vec![0xC0; (MAX_FILE + 2) as usize];
        let small = file(2, &large);
        assert!(small.len() < 8 << 20);
        assert!(read(&small).unwrap_err().problem.contains("too large"));
    }
}
