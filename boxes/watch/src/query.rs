//! Queries in addresses of the page.

/// Encodes a value for a query.
pub(crate) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

/// Returns the value of a key of a query, decoded.
pub(crate) fn value(query: &str, key: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| decode(value))
}

/// Decodes a value of a query (the URL standard, section 5.1).
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let digits = others.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let escaped = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        (bytes, rest) = match (first, escaped) {
            (b'%', Some(byte)) => (push(bytes, byte), &others[2..]),
            (b'+', _) => (push(bytes, b' '), others),
            _ => (push(bytes, first), others),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn push(mut bytes: Vec<u8>, byte: u8) -> Vec<u8> {
    bytes.push(byte);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_query() {
        for name in ["branch", "ünïcode & more=?#+%", "a/b c", ""] {
            let query = format!("range=day&peer={}", encode(name));
            assert_eq!(value(&query, "peer").as_deref(), Some(name));
            assert_eq!(value(&query, "range").as_deref(), Some("day"));
        }
        assert_eq!(decode("a%2"), "a%2");
        assert_eq!(decode("a%zz+%"), "a%zz %");
        assert_eq!(value("peer", "peer"), None);
    }
}
