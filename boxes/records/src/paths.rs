//! What a box knows of its bundles' paths, in the file from which the next process learns it.
//!
//! The first line has the version, the length and a checksum of what follows, which is JSON. A file
//! that was written in part is recognised by that. What stands after the length is the rest of a
//! longer text before it. A field that a reader does not know is skipped; the version changes if a
//! field changes its meaning.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the format of [`KnownPaths`].
pub const PATHS_VERSION: u32 = 1;

/// The most paths of a file: the most bundles of a box.
pub const MAX_PATHS: usize = 16_384;

/// The largest file in bytes, which has room for [`MAX_PATHS`].
pub const MAX_PATHS_BYTES: usize = 8 << 20;

/// The word that a file begins with.
const NAME: &str = "forebay-paths";

/// The paths of a box.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPaths {
    /// The time of writing, in milliseconds since 1970 by the machine's clock.
    pub written_ms: u64,
    /// The paths that have been measured.
    pub paths: Vec<KnownPath>,
}

/// The path of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPath {
    /// The id of the bundle's messages.
    pub id: u16,
    /// The address or name of its receivebox, as it is configured.
    pub receivebox: String,
    /// The minimum round-trip time in nanoseconds.
    pub min_rtt_ns: u64,
    /// The time since a sample was as good as the minimum, in milliseconds.
    pub min_rtt_age_ms: u64,
    /// The rate of delay control in bit/s; `None` in another mode.
    #[serde(default)]
    pub rate_bps: Option<u64>,
}

/// The reason why a file of paths cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathsError {
    /// It is of another version.
    Version(u32),
    /// It is not whole, or its content is not what was written.
    Damaged,
    /// It is no file of paths.
    Foreign,
}

impl fmt::Display for PathsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                write!(f, "it has version {version}, and this release reads {PATHS_VERSION}")
            }
            Self::Damaged => f.write_str("it was written in part, or is damaged"),
            Self::Foreign => f.write_str("it is no file of Forebay's paths"),
        }
    }
}

impl std::error::Error for PathsError {}

impl KnownPaths {
    /// Writes the file. KnownPaths beyond [`MAX_PATHS`] are left out.
    pub fn to_bytes(&self) -> Vec<u8> {
        let most = self.paths.len().min(MAX_PATHS);
        let paths = Self { written_ms: self.written_ms, paths: self.paths[..most].to_vec() };
        // Numbers and addresses can always be written.
        let body = serde_json::to_vec(&paths).unwrap_or_default();
        let sum = checksum(&body);
        let mut file = format!("{NAME} {PATHS_VERSION} {} {sum:016x}\n", body.len()).into_bytes();
        file.extend(body);
        file
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If nothing of it can be used.
    pub fn parse(file: &[u8]) -> Result<Self, PathsError> {
        let file = &file[..file.len().min(MAX_PATHS_BYTES)];
        let end = file.iter().take(80).position(|byte| *byte == b'\n');
        let end = end.ok_or(PathsError::Foreign)?;
        let head = str::from_utf8(&file[..end]).map_err(|_| PathsError::Foreign)?;
        let mut words = head.split(' ');
        if words.next() != Some(NAME) {
            return Err(PathsError::Foreign);
        }
        let version = words.next().and_then(|word| word.parse().ok()).ok_or(PathsError::Foreign)?;
        if version != PATHS_VERSION {
            return Err(PathsError::Version(version));
        }
        let (length, sum) = (words.next(), words.next());
        let length: usize = length.and_then(|w| w.parse().ok()).ok_or(PathsError::Damaged)?;
        let sum = sum.and_then(|w| u64::from_str_radix(w, 16).ok()).ok_or(PathsError::Damaged)?;
        let body = file[end + 1..].get(..length).ok_or(PathsError::Damaged)?;
        if checksum(body) != sum {
            return Err(PathsError::Damaged);
        }
        let mut paths: Self = serde_json::from_slice(body).map_err(|_| PathsError::Damaged)?;
        paths.paths.truncate(MAX_PATHS);
        Ok(paths)
    }
}

/// FNV-1a with 64 bits, which recognises a text that is not whole.
fn checksum(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths(count: u16) -> KnownPaths {
        let path = |id| KnownPath {
            id,
            receivebox: match id % 2 {
                0 => format!("192.0.2.1:{}", 1 + id),
                _ => format!("[2001:db8::{id:x}]:28316"),
            },
            min_rtt_ns: 40_000_000 + u64::from(id),
            min_rtt_age_ms: 3_000,
            rate_bps: (id % 3 == 0).then_some(24_000_000),
        };
        KnownPaths { written_ms: 1_700_000_000_000, paths: (0..count).map(path).collect() }
    }

    /// Published values of FNV-1a with 64 bits.
    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn what_is_written_is_read_and_no_part_of_it_is_taken_for_the_whole() {
        let file = paths(3).to_bytes();
        assert_eq!(KnownPaths::parse(&file), Ok(paths(3)));
        for end in 0..file.len() {
            assert!(KnownPaths::parse(&file[..end]).is_err(), "{end}");
        }
        let longer = [&file[..], b"the rest of a longer text"].concat();
        assert_eq!(KnownPaths::parse(&longer), Ok(paths(3)));
    }

    /// A process that ends while it writes leaves the start of the new text before the rest of the
    /// old one.
    #[test]
    fn a_text_that_was_written_in_part_over_another_is_recognised() {
        let (old, new) = (paths(9).to_bytes(), paths(5).to_bytes());
        for written in 1..new.len() {
            let torn = [&new[..written], &old[written..]].concat();
            let read = KnownPaths::parse(&torn);
            assert!(read.is_err() || read == Ok(paths(9)) && torn == old, "{written}: {read:?}");
        }
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        let told = |file: &[u8]| KnownPaths::parse(file).unwrap_err().to_string();
        assert!(told(b"").contains("no file of Forebay's paths"));
        assert!(told(b"GIF89a\n").contains("no file of Forebay's paths"));
        assert!(told(b"forebay-paths 7 0 0\n").contains("has version 7, and this release reads 1"));
        assert!(told(b"forebay-paths 1 2 0\n{}").contains("damaged"));
        assert!(told(b"forebay-paths 1 99999999999999999999 0\n{}").contains("damaged"));
    }

    #[test]
    fn a_file_has_room_for_the_most_paths() {
        let mut many = paths(MAX_PATHS as u16);
        let longest = KnownPath {
            id: u16::MAX,
            // A name has at most 253 characters.
            receivebox: format!("{}:65535", "n".repeat(253)),
            min_rtt_ns: u64::MAX,
            min_rtt_age_ms: u64::MAX,
            rate_bps: Some(u64::MAX),
        };
        many.paths.fill(longest.clone());
        let file = many.to_bytes();
        assert!(file.len() < MAX_PATHS_BYTES, "{}", file.len());
        assert_eq!(KnownPaths::parse(&file).as_ref(), Ok(&many));
        many.paths.push(longest);
        assert_eq!(many.to_bytes(), file, "one too many");
    }

    proptest! {
        /// A file with another byte is refused, or means the same: the checksum's digits may be
        /// capital letters.
        #[test]
        fn a_changed_byte_is_noticed(at in any::<prop::sample::Index>(), bits in 1u8..) {
            let mut file = paths(4).to_bytes();
            let at = at.index(file.len());
            file[at] ^= bits;
            if let Ok(read) = KnownPaths::parse(&file) {
                prop_assert_eq!(read, paths(4));
            }
        }

        #[test]
        fn no_input_is_taken_for_more_than_was_written(
            head in "forebay-paths 1 [0-9]{1,3} [0-9a-f]{1,16}\n",
            body in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let file = [head.as_bytes(), &body].concat();
            if let Ok(read) = KnownPaths::parse(&file) {
                prop_assert_eq!(KnownPaths::parse(&read.to_bytes()), Ok(read));
            }
        }
    }
}
