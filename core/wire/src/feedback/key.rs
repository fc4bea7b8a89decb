use core::fmt;
use core::str::FromStr;

use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::BundleId;
use super::mac::derive;
use crate::FingerprintKey;

const PREFIX: &str = "forebay-key-v1 ";

/// A bundle's secret key of 256 bits, which both boxes have.
///
/// In a file it is one line: `forebay-key-v1` and 64 hexadecimal digits. The `Debug` output does
/// not show the secret.
///
/// Its memory is set to zero when it is dropped. A value that is moved may leave a copy on the
/// stack.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Key {}

impl Key {
    /// Creates a key from bytes of a cryptographic random number generator.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the line for a key file, which shows the secret.
    pub const fn text(&self) -> KeyText<'_> {
        KeyText(self)
    }

    /// Returns the key of the bundle's fingerprints: the first 128 bits of HMAC-SHA-256 over
    /// `fingerprint` under this key, as two numbers in network order.
    ///
    /// No message of the protocol begins with these bytes, so that the tags say nothing about it.
    pub fn fingerprint_key(&self) -> FingerprintKey {
        let bytes = derive(self, b"fingerprint");
        let half = |at| bytes[at..].first_chunk().copied().map_or(0, u64::from_be_bytes);
        FingerprintKey([half(0), half(8)])
    }

    /// Returns a number for a bundle that has no other: the first 16 bits of HMAC-SHA-256 over
    /// `bundle id` under this key.
    pub fn bundle_id(&self) -> BundleId {
        let bytes = derive(self, b"bundle id");
        BundleId(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Returns the fingerprint by which people see that both boxes have one key. It does not show
    /// the secret.
    pub fn fingerprint(&self) -> KeyFingerprint {
        let mut first = [0; 8];
        first.copy_from_slice(&Sha256::digest(self.0)[..8]);
        KeyFingerprint(first)
    }

    pub(super) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digits = text.trim_ascii().strip_prefix(PREFIX).ok_or(KeyError::Prefix)?;
        let digits = digits.as_bytes();
        if digits.len() != 64 {
            return Err(KeyError::Length(digits.len()));
        }
        let mut bytes = Zeroizing::new([0; 32]);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Self(*bytes))
    }
}

fn hex_digit(digit: u8) -> Result<u8, KeyError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(KeyError::Digit),
    }
}

/// The line of a key in a key file, without the end of the line.
pub struct KeyText<'a>(&'a Key);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The first 64 bits of SHA-256 over the bytes of a key, for people to compare, such as
/// `0123-4567-89ab-cdef`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFingerprint([u8; 8]);

impl fmt::Display for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, [high, low]) in self.0.as_chunks().0.iter().enumerate() {
            let dash = if at > 0 { "-" } else { "" };
            write!(f, "{dash}{high:02x}{low:02x}")?;
        }
        Ok(())
    }
}

/// The reason why a text is not a key. It does not quote the text, which may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The text does not begin with `forebay-key-v1`.
    Prefix,
    /// The number of digits is not 64; the field has the number found.
    Length(usize),
    /// A character is not a hexadecimal digit.
    Digit,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix => f.write_str("a key is one line that begins with `forebay-key-v1 `"),
            Self::Length(n) => write!(f, "a key has 64 hexadecimal digits, not {n} characters"),
            Self::Digit => f.write_str("a key has a character that is not a hexadecimal digit"),
        }
    }
}

impl core::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::ToString;

    use super::*;

    #[test]
    fn the_text_is_parsed_back_and_debug_hides_the_secret() {
        let key = Key::new(core::array::from_fn(|i| i as u8 * 8));
        let text = key.text().to_string();
        assert_eq!(
            text,
            "forebay-key-v1 0008101820283038404850586068707880889098a0a8b0b8c0c8d0d8e0e8f0f8"
        );
        for line in [text.clone(), format!(" {text}\r\n"), text.replace("b0", "B0")] {
            assert_eq!(line.parse::<Key>().map(|k| k.0), Ok(key.0));
        }
        assert_eq!(format!("{key:?}"), "Key(..)");
    }

    #[test]
    fn a_fingerprint_is_the_start_of_the_digest() {
        let key = Key::new(core::array::from_fn(|i| i as u8));
        // printf '\0\1..\37' | sha256sum
        assert_eq!(key.fingerprint().to_string(), "630d-cd29-66c4-3366");
    }

    /// That the memory is zero afterwards cannot be seen without unsafe code.
    #[test]
    fn a_dropped_key_is_set_to_zero() {
        const fn requires_zeroizing<T: ZeroizeOnDrop>() {}
        const { requires_zeroizing::<Key>() };
        let mut key = Key::new([7; 32]);
        key.0.zeroize();
        assert_eq!(key.0, [0; 32]);
    }

    #[test]
    fn invalid_texts_are_rejected() {
        let error = |text: &str| text.parse::<Key>().err();
        assert_eq!(error(""), Some(KeyError::Prefix));
        assert_eq!(error("forebay-key-v2 00"), Some(KeyError::Prefix));
        assert_eq!(error("forebay-key-v1 0011"), Some(KeyError::Length(4)));
        assert_eq!(error(&format!("forebay-key-v1 {:0>64}", "g")), Some(KeyError::Digit));
        let key = Key::new([0; 32]).text().to_string();
        assert_eq!(error(&key.replace(' ', " \n")), Some(KeyError::Length(65)));
        assert_eq!(error(&format!("{key}\n{key}")), Some(KeyError::Length(64 + 1 + 79)));
    }
}
