//! What every traffic program needs: the start, bytes to send, and a file of records.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use forebay_units::Nanos;
use serde::Serialize;

use super::spec::Window;

/// Reports that the program is set up, waits for the start and returns its time.
pub(super) type Cue<'a> = &'a mut dyn FnMut() -> io::Result<Nanos>;

/// Like [`Cue`], and returns all times of the program's specification.
pub(super) type WindowCue<'a> = &'a mut dyn FnMut() -> io::Result<Window>;

/// The bytes that programs send.
pub(super) static FILLER: [u8; 1 << 16] = [0x5a; 1 << 16];

/// Writes `records` to `file`, one line of JSON each.
pub(super) fn write_records<T: Serialize>(file: &Path, records: &[T]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    for record in records {
        serde_json::to_writer(&mut out, record)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
