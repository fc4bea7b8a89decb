//! Tokens, which clients use to authenticate.
//!
//! A token is 32 random bytes. No dictionary contains it, so a plain hash is enough, and the
//! configuration, which has only the hash, discloses nothing.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The longest token that is accepted, in bytes.
const MAX_TOKEN: usize = 256;

/// The SHA-256 of a token or a certificate: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Returns the hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Compares two hashes in constant time.
    fn same(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Formats the first digits only, which are enough to identify the hash in a log.
impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{:02x}{:02x}..", self.0[0], self.0[1])
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim().strip_prefix("sha256:").map(str::as_bytes).unwrap_or_default();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let bytes: Option<Vec<u8>> = digits
            .chunks(2)
            .map(|pair| match pair {
                [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
                _ => None,
            })
            .collect();
        let bytes: Option<[u8; 32]> = bytes.and_then(|b| b.try_into().ok());
        bytes.map(Self).ok_or_else(|| {
            "write sha256: and 64 hexadecimal digits; `forebay plan token` makes a token and its hash"
                .to_owned()
        })
    }
}

/// Generates a token.
///
/// # Errors
/// If the system provides no random numbers.
pub fn generate() -> std::io::Result<String> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What a client has to show: everything that is set, and at least one part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The hash of the client's token.
    pub token: Option<Hash>,
    /// The hash of the client's certificate (DER), whose chain a configured authority has signed.
    pub certificate: Option<Hash>,
}

/// The credentials of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    token: Option<Hash>,
    certificate: Option<Hash>,
}

impl Shown {
    /// Creates credentials from a token, if there is one, and the hash of a verified certificate,
    /// if there is one.
    pub fn new(token: Option<&[u8]>, certificate: Option<Hash>) -> Self {
        let token = token.filter(|t| !t.is_empty() && t.len() <= MAX_TOKEN).map(Hash::of);
        Self { token, certificate }
    }

    /// Whether there are no credentials.
    pub fn is_nothing(&self) -> bool {
        self.token.is_none() && self.certificate.is_none()
    }

    /// Returns the index of the matching credential in `all`. Every one is compared, so the time
    /// does not depend on the result.
    pub fn find<'a>(&self, all: impl IntoIterator<Item = &'a Credential>) -> Option<usize> {
        let mut found = None;
        for (at, credential) in all.into_iter().enumerate() {
            let fits = part(credential.token.as_ref(), self.token.as_ref())
                & part(credential.certificate.as_ref(), self.certificate.as_ref());
            let set = credential.token.is_some() || credential.certificate.is_some();
            if bool::from(fits) && set {
                found = Some(at);
            }
        }
        found
    }
}

fn part(wanted: Option<&Hash>, shown: Option<&Hash>) -> Choice {
    match (wanted, shown) {
        (None, _) => Choice::from(1),
        (Some(_), None) => Choice::from(0),
        (Some(wanted), Some(shown)) => wanted.same(shown),
    }
}

/// Returns the token of an `Authorization` header, and whether it was the password of `Basic`.
///
/// The header is `Bearer TOKEN` (RFC 6750, section 2.1), or `Basic` (RFC 7617), which browsers can
/// send.
pub fn from_header(header: &[u8]) -> Option<(Vec<u8>, bool)> {
    let text = std::str::from_utf8(header).ok()?;
    let (scheme, rest) = text.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some((rest.trim().as_bytes().to_vec(), false));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = base64(rest.trim())?;
    let colon = pair.iter().position(|b| *b == b':')?;
    Some((pair[colon + 1..].to_vec(), true))
}

/// Decodes Base64 (RFC 4648, section 4).
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if digits.len() > 2 * MAX_TOKEN || digits.len() % 4 == 1 {
        return None;
    }
    let value = |byte: u8| {
        Some(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        })
    };
    let mut out = Vec::new();
    for group in digits.chunks(4) {
        let mut bits = 0u32;
        for byte in group {
            bits = (bits << 6) | u32::from(value(*byte)?);
        }
        bits <<= 6 * (4 - group.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(token: Option<&str>, certificate: Option<&str>) -> Credential {
        let hash = |text: &str| Hash::of(text.as_bytes());
        Credential { token: token.map(hash), certificate: certificate.map(hash) }
    }

    #[test]
    fn a_written_hash_is_read_back() {
        // FIPS 180-2, appendix B.1.
        let hash = Hash::of(b"abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((hash.to_string().as_str(), text.parse()), (text, Ok(hash)));
        for bad in ["", "sha256:", &text[7..], &text[..70], "sha256:zz", &format!("{text}0")] {
            assert!(bad.parse::<Hash>().is_err(), "{bad}");
        }
        assert!(!format!("{hash:?}").contains("bf8f"));
    }

    #[test]
    fn every_configured_credential_is_required() {
        let all = [
            credential(Some("one"), None),
            credential(Some("two"), Some("cert")),
            credential(None, Some("other")),
            credential(None, None),
        ];
        let find = |token: Option<&str>, certificate: Option<&str>| {
            let certificate = certificate.map(|c| Hash::of(c.as_bytes()));
            Shown::new(token.map(str::as_bytes), certificate).find(&all)
        };
        assert_eq!(find(Some("one"), None), Some(0));
        assert_eq!(find(Some("one"), Some("cert")), Some(0));
        assert_eq!(find(Some("two"), None), None);
        assert_eq!(find(Some("two"), Some("cert")), Some(1));
        assert_eq!(find(None, Some("cert")), None);
        assert_eq!(find(None, Some("other")), Some(2));
        assert_eq!(find(None, None), None);
        assert_eq!(find(Some(""), None), None);
    }

    #[test]
    fn tokens_are_read_from_headers() {
        let read = |text: &str| {
            from_header(text.as_bytes()).map(|(t, b)| (String::from_utf8(t).unwrap(), b))
        };
        assert_eq!(read("Bearer abc "), Some(("abc".to_owned(), false)));
        assert_eq!(read("bearer abc"), Some(("abc".to_owned(), false)));
        // The examples of RFC 7617, section 2, and of RFC 4648, section 10.
        assert_eq!(
            read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            Some(("open sesame".to_owned(), true))
        );
        assert_eq!(base64("Zm9vYmE=").unwrap(), b"fooba");
        assert_eq!(base64("Zm9vYg==").unwrap(), b"foob");
        assert_eq!(base64("").unwrap(), b"");
        for bad in ["Basic", "Basic Zm9v", "Basic Z", "Basic *", "Digest abc", ""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn tokens_are_long_and_unique() {
        let (one, two) = (generate().unwrap(), generate().unwrap());
        assert!(one.len() == 64 && one != two);
    }
}
