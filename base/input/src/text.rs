//! Decodes texts to UTF-8.

use crate::Kind;

/// Why octets are no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecoded {
    /// The line of the first octet that is wrong, from 1; `None` if the whole file is.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub what: String,
}

/// The characters that Windows-1252 has for the octets 0x80 to 0x9f. The five octets without one
/// stand for themselves, as in browsers.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The octets of ISO-8859-15 that differ from ISO-8859-1.
const LATIN_9: [(u8, char); 8] = [
    (0xa4, '€'),
    (0xa6, 'Š'),
    (0xa8, 'š'),
    (0xb4, 'Ž'),
    (0xb8, 'ž'),
    (0xbc, 'Œ'),
    (0xbd, 'œ'),
    (0xbe, 'Ÿ'),
];

/// Returns a text as UTF-8, without a byte order mark.
///
/// A mark tells UTF-8 and UTF-16. XML may declare another encoding: those of Western Europe are
/// decoded.
///
/// # Errors
/// If the octets are no text, or in another encoding.
pub fn decode(octets: Vec<u8>) -> Result<String, Undecoded> {
    match &octets[..] {
        [0xef, 0xbb, 0xbf, text @ ..] => utf8(text.to_vec()),
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => convert("UTF-32", "UTF-32"),
        [0xff, 0xfe, text @ ..] => utf16(text, u16::from_le_bytes),
        [0xfe, 0xff, text @ ..] => utf16(text, u16::from_be_bytes),
        // XML without a mark begins with `<?`.
        [b'<', 0, b'?', 0, ..] => utf16(&octets, u16::from_le_bytes),
        [0, b'<', 0, b'?', ..] => utf16(&octets, u16::from_be_bytes),
        _ => match declared(&octets) {
            Some(encoding) => of_encoding(octets, &encoding),
            None => utf8(octets),
        },
    }
}

/// Returns the encoding that an XML declaration names, in lower case.
fn declared(octets: &[u8]) -> Option<String> {
    /// The longest declaration that is looked at.
    const MAX_DECLARATION: usize = 256;
    let start = octets.trim_ascii_start().strip_prefix(b"<?xml")?;
    let start = &start[..start.len().min(MAX_DECLARATION)];
    let end = start.windows(2).position(|two| two == b"?>")?;
    let text = std::str::from_utf8(&start[..end]).ok()?;
    let value = text.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (name, _) = value[1..].split_once(quote)?;
    Some(name.to_ascii_lowercase())
}

fn of_encoding(octets: Vec<u8>, encoding: &str) -> Result<String, Undecoded> {
    match encoding {
        // XML that says UTF-16 and is none was converted without its declaration.
        "utf-8" | "utf8" | "us-ascii" | "ascii" | "utf-16" => utf8(octets),
        "iso-8859-1" | "iso8859-1" | "iso_8859-1" | "latin1" | "latin-1" | "l1"
        | "windows-1252" | "cp1252" => Ok(octets.iter().map(|octet| windows(*octet)).collect()),
        "iso-8859-15" | "iso8859-15" | "latin-9" | "latin9" => {
            Ok(octets.iter().map(|octet| latin_9(*octet)).collect())
        }
        other => match octets.is_ascii() {
            true => utf8(octets),
            false => {
                let shown: String = other.chars().filter(char::is_ascii_graphic).take(40).collect();
                convert(&format!("{shown}, as it declares"), &shown)
            }
        },
    }
}

fn windows(octet: u8) -> char {
    match octet {
        0x80..=0x9f => WINDOWS[usize::from(octet - 0x80)],
        _ => octet.into(),
    }
}

fn latin_9(octet: u8) -> char {
    LATIN_9.iter().find(|(from, _)| *from == octet).map_or(octet.into(), |(_, to)| *to)
}

fn convert(what: &str, name: &str) -> Result<String, Undecoded> {
    let what = format!("is {what}: convert it with `iconv -f {name} -t UTF-8`");
    Err(Undecoded { line: None, what })
}

fn utf16(text: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, Undecoded> {
    let (pairs, rest) = text.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    let read = String::from_utf16(&units).ok().filter(|_| rest.is_empty());
    let read = read.map(|text| text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text));
    read.ok_or_else(|| Undecoded {
        line: None,
        what: "begins as UTF-16, and is damaged: copy the file again".to_owned(),
    })
}

fn utf8(octets: Vec<u8>) -> Result<String, Undecoded> {
    String::from_utf8(octets).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let octets = e.as_bytes();
        // A file of another kind has no lines.
        if let Some(kind) = Kind::of(octets).filter(|kind| kind.what() != "text") {
            return Undecoded { line: None, what: kind.to_string() };
        }
        if octets.contains(&0) {
            let what = "is no text, since it has octets of zero".to_owned();
            return Undecoded { line: None, what };
        }
        let line = 1 + octets[..at].iter().filter(|octet| **octet == b'\n').count();
        let what = format!(
            "has the octet {:#04x}, which is not UTF-8: if the text is in ISO-8859-1, convert it \
             with `iconv -f ISO-8859-1 -t UTF-8`",
            octets[at]
        );
        Undecoded { line: Some(line), what }
    })
}
