//! Every compression, encoding and kind of file, whole, cut and damaged.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use forebay_test_support::Dir;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

const MAX_UNPACKED: u64 = 1 << 20;

fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(octets: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::new(1));
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

fn zstd(octets: &[u8]) -> Vec<u8> {
    compress_to_vec(octets, CompressionLevel::Fastest)
}

type Packer = fn(&[u8]) -> Vec<u8>;

const PACKERS: [(&str, Packer); 3] = [("gzip", gzip), ("bzip2", bzip2), ("Zstandard", zstd)];

/// Octets that compress by a half, so that a cut file has some of them.
fn octets() -> Vec<u8> {
    (0..400_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 28) as u8).collect()
}

fn all(file: &[u8]) -> io::Result<(Vec<u8>, bool)> {
    unpack(file, MAX_UNPACKED)
}

#[test]
fn parts_are_unpacked_one_after_the_other() {
    for (name, pack) in PACKERS {
        let file = [pack(&octets()), pack(b""), pack(b"more")].concat();
        assert_eq!(Compression::of(&file).map(Compression::name), Some(name));
        let expected = [octets(), b"more".to_vec()].concat();
        assert_eq!(all(&file).unwrap(), (expected, false), "{name}");
    }
    assert_eq!(all(b"plain").unwrap(), (b"plain".to_vec(), false));
    assert_eq!(Compression::of(b"\x1f"), None);
    // Three octets of a time in 2005, and a type of MRT.
    assert_eq!(Compression::of(b"BZh9\0\x0c\0\x01\0\0"), None);
}

#[test]
fn frames_of_zstandard_without_data_are_skipped() {
    let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let file = [&skipped[..], &zstd(b"one"), &skipped, &zstd(b"two"), &skipped].concat();
    assert_eq!(all(&file).unwrap(), (b"onetwo".to_vec(), false));
    assert_eq!(all(&file[..file.len() - 1]).unwrap(), (b"onetwo".to_vec(), true));
}

#[test]
fn padding_is_skipped_and_other_octets_are_refused() {
    for (name, pack) in PACKERS {
        let padded = [pack(b"octets"), vec![0; 1000]].concat();
        assert_eq!(all(&padded).unwrap(), (b"octets".to_vec(), false), "{name}");
        let more = [pack(b"octets"), b"more".to_vec()].concat();
        let error = all(&more).unwrap_err().to_string();
        assert_eq!(error, format!("has other octets behind its {name} data: remove them"));
    }
}

#[test]
fn the_bound_is_exact_and_named() {
    for (_, pack) in PACKERS {
        let file = pack(&[0; 5000]);
        assert_eq!(unpack(&file, 5000).unwrap().0.len(), 5000);
        let error = unpack(&file, 4999).unwrap_err().to_string();
        assert_eq!(error, "unpacks to more than 4999 octets: split it");
    }
}

#[test]
fn a_cut_file_has_what_is_before_the_cut() {
    for (name, pack) in PACKERS {
        let file = pack(&octets());
        for part in [2, 3, 5] {
            let (found, is_cut) = all(&file[..file.len() * (part - 1) / part]).unwrap();
            assert!(is_cut && octets().starts_with(&found), "{name}");
            // A block of bzip2 has 100 kB here, one of Zstandard 128 kB.
            assert!(found.len() >= 100_000, "{name}: {}", found.len());
        }
        for cut in [1, 2, 4, 5] {
            let (found, is_cut) = all(&file[..file.len() - cut]).unwrap();
            assert!(is_cut && octets().starts_with(&found), "{name}, {cut} octets less");
        }
    }
}

#[test]
fn damaged_data_are_named() {
    for (name, pack) in PACKERS {
        let mut file = pack(&octets());
        // The last octet is of a check sum, except for gzip.
        let at = file.len() - 6;
        file[at] ^= 0xff;
        let error = all(&file).unwrap_err().to_string();
        assert!(error.starts_with(&format!("the {name} data are damaged, ")), "{error}");
    }
}

fn written(dir: &Dir, name: &str, octets: &[u8]) -> PathBuf {
    let path = dir.0.join(name);
    fs::write(&path, octets).unwrap();
    path
}

#[test]
fn files_that_cannot_be_read_are_named_by_their_kind() {
    let dir = Dir::new("input-kinds");
    let cases: [(&str, Vec<u8>, &str); 12] = [
        ("empty", vec![], "is empty"),
        ("empty.gz", gzip(b""), "is empty"),
        ("cut.bz2", bzip2(b"octets")[..20].to_vec(), "ends before anything can be unpacked"),
        ("a.zip", b"PK\x03\x04...".to_vec(), "is a zip archive: unpack it with `unzip`"),
        ("a.xz", b"\xfd7zXZ\0...".to_vec(), "is packed with xz: unpack it with `xz -d`"),
        ("a.lz4", b"\x04\x22\x4d\x18".to_vec(), "is packed with lz4: unpack it with `lz4 -d`"),
        ("a.7z", b"7z\xbc\xaf\x27\x1c".to_vec(), "is a 7-Zip archive: unpack it with `7z x`"),
        ("a.Z", b"\x1f\x9d\x90".to_vec(), "is packed with compress: unpack it"),
        ("a.tar", tar(), "is a tar archive: unpack it with `tar xf`"),
        ("a.tar.gz", gzip(&tar()), "is a tar archive: unpack it with `tar xf`"),
        ("large", vec![7; 2000], "is larger than 1000 octets: split it"),
        ("large.gz", gzip(&[7; 2000]), "unpacks to more than 1000 octets: split it"),
    ];
    for (name, octets, expected) in cases {
        let path = written(&dir, name, &octets);
        let error = read(&path, 1000).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
    }
    let error = |path: &Path| read(path, 1000).unwrap_err().message;
    assert_eq!(error(&dir.0), "is a directory: give a file in it");
    assert_eq!(error("/dev/null".as_ref()), "is no regular file: copy what it holds into one");
    assert!(error("/nowhere".as_ref()).starts_with("cannot be read: No such file"));
}

#[test]
fn what_a_small_file_unpacks_to_in_memory_is_bounded_whatever_its_reader_allows() {
    let dir = Dir::new("input-bomb");
    // Parts of a mebibyte, as a file that is put together.
    let parts = gzip(&vec![0; 1 << 20]).repeat(257);
    let path = written(&dir, "bomb.gz", &parts);
    let error = read(&path, 1 << 30).unwrap_err().message;
    assert_eq!(error, "unpacks to more than 268435456 octets: split it, or unpack it");
    // A stream does not keep it.
    let mut stream = open(&path, 1 << 30).unwrap();
    assert_eq!(io::copy(&mut stream, &mut io::sink()).unwrap(), 257 << 20);
}

/// The header of a file in a tar archive, without its sums.
fn tar() -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..6].copy_from_slice(b"a.pcap");
    header[257..263].copy_from_slice(b"ustar\0");
    header
}

#[test]
fn a_stream_may_be_a_pipe_and_a_text_may_not() {
    let dir = Dir::new("input-pipe");
    let path = dir.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let error = text(&path, Bytes(1000)).unwrap_err().message;
    assert_eq!(error, "is no regular file: copy what it holds into one");
    let writer = path.clone();
    let writes = std::thread::spawn(move || fs::write(writer, bzip2(&octets())).unwrap());
    assert_eq!(read(&path, MAX_UNPACKED).unwrap().octets, octets());
    writes.join().unwrap();
}

#[test]
fn texts_are_decoded() {
    let dir = Dir::new("input-texts");
    let of = |octets: &[u8]| text(&written(&dir, "a.txt", octets), Bytes(10_000));
    let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    };
    for octets in [
        "Liège €\n".into(),
        "\u{feff}Liège €\n".into(),
        utf16("\u{feff}Liège €\n", u16::to_le_bytes),
        utf16("\u{feff}Liège €\n", u16::to_be_bytes),
        gzip("Liège €\n".as_bytes()),
        bzip2("Liège €\n".as_bytes()),
        zstd("\u{feff}Liège €\n".as_bytes()),
    ] {
        assert_eq!(of(&octets).unwrap(), "Liège €\n");
    }
    assert_eq!(of(b"").unwrap(), "");
    let xml = |encoding: &str, name: &[u8]| {
        let start = format!("<?xml version='1.0' encoding={encoding}?>\n");
        of(&[start.as_bytes(), name].concat()).map(|text| text[start.len()..].to_owned())
    };
    for (encoding, octets) in [
        ("\"UTF-8\"", "Liège €".as_bytes()),
        ("'utf-8' standalone='no'", "Liège €".as_bytes()),
        ("\"windows-1252\"", b"Li\xe8ge \x80"),
        ("\"ISO-8859-1\"", b"Li\xe8ge \x80"),
        ("\"ISO-8859-15\"", b"Li\xe8ge \xa4"),
    ] {
        assert_eq!(xml(encoding, octets).unwrap(), "Liège €", "{encoding}");
    }
    assert_eq!(xml("\"Shift_JIS\"", b"ascii").unwrap(), "ascii");
    let unmarked = utf16("<?xml version='1.0'?><a/>", u16::to_le_bytes);
    assert_eq!(of(&unmarked).unwrap(), "<?xml version='1.0'?><a/>");
    for (octets, expected) in [
        (
            &b"one\ntwo\nLi\xe8ge"[..],
            "a.txt:3: has the octet 0xe8, which is not UTF-8: if the text is in ISO-8859-1, \
             convert it with `iconv -f ISO-8859-1 -t UTF-8`",
        ),
        (
            b"<?xml version='1.0' encoding='Shift_JIS'?>\x83\x65",
            "a.txt: is shift_jis, as it declares: convert it with `iconv -f shift_jis -t UTF-8`",
        ),
        (b"\xff\xfe\0\0a\0\0\0", "a.txt: is UTF-32: convert it with `iconv -f UTF-32 -t UTF-8`"),
        (b"\xff\xfea\0b", "a.txt: begins as UTF-16, and is damaged: copy the file again"),
        (b"\x80\x04\x95\xff", "a.txt: is a pickle of Python"),
        (b"a\0b\xff", "a.txt: is no text, since it has octets of zero"),
        (b"PK\x03\x04\xff", "a.txt: is a zip archive: unpack it with `unzip`"),
    ] {
        let error = of(octets).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    let cut = gzip("a long line of text".as_bytes());
    let error = of(&cut[..cut.len() - 3]).unwrap_err().message;
    assert_eq!(error, "the compressed file ends early: copy it again");
    let large = of(&[b'a'; 10_001]).unwrap_err().message;
    assert_eq!(large, "is larger than 10000 octets: split it");
}

#[test]
fn extensions_are_those_below_the_compression() {
    let of = |name: &str| extension(Path::new(name)).map(str::to_owned);
    assert_eq!(of("a.gml").as_deref(), Some("gml"));
    assert_eq!(of("a.graphml.gz").as_deref(), Some("graphml"));
    assert_eq!(of("a.json.BZ2").as_deref(), Some("json"));
    assert_eq!((of("a.zst"), of("a")), (None, None));
    assert_eq!(stem(Path::new("d/a.b.gml.gz")), Some("a.b".as_ref()));
}

#[test]
fn kinds_are_told_by_their_first_octets() {
    let what = |octets: &[u8]| Kind::of(octets).map(|kind| kind.what());
    for (octets, expected) in [
        (&b"<!DOCTYPE HTML>"[..], "a web page"),
        (b"\n <html>", "a web page"),
        (b"<?xml version='1.0'?>", "XML"),
        (b"{\"a\": 1}", "JSON"),
        (b"TABLE_DUMP2|1700000000|B|", "text"),
        ("Li\u{e8}".as_bytes(), "text"),
        (&"Li\u{e8}".as_bytes()[..3], "text"),
        (b"snoop\0\0\0\0\0\0\x02", "a capture of snoop"),
    ] {
        assert_eq!(what(octets), Some(expected), "{octets:?}");
    }
    // Times of MRT files.
    for time in [&b"PK\x03\x04"[..], b"\x5d\0\0\x01", b"LZIP", b"BZh9"] {
        assert_eq!(what(&[time, &[0, 13, 0, 1, 0, 0, 0, 20, 198, 51, 100, 1]].concat()), None);
    }
    let lzma = [&b"\x5d\0\0\x80\0"[..], &[0xff; 8], b"data"].concat();
    assert_eq!(what(&lzma), Some("packed with lzma"));
    assert_eq!((what(b""), what(b"\0\x01\x02"), what(b"a\x01")), (None, None, None));
    let kind = Kind::of(b"snoop\0\0\0").unwrap();
    assert_eq!(
        kind.to_string(),
        "is a capture of snoop: convert it with `editcap -F pcapng IN OUT`"
    );
}

proptest! {
    #[test]
    fn any_octets_are_borne(
        octets in proptest::collection::vec(any::<u8>(), 0..600),
        which in 0_usize..3,
        at in any::<proptest::sample::Index>(),
        octet in any::<u8>(),
    ) {
        let _ = unpack(&octets, 1000);
        let _ = decode(octets.clone());
        let _ = Kind::of(&octets);
        let mut file = PACKERS[which].1(&octets);
        let at = at.index(file.len());
        file[at] = octet;
        let _ = unpack(&file, 1000);
        if let Ok((found, is_cut)) = unpack(&file[..at], 1000) {
            prop_assert!(is_cut || at == 0 || found == file[..at]);
        }
    }
}
