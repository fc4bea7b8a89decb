//! Batches of messages as Kafka stores them (its record batches, magic number 2), and how many of
//! their messages and octets are read.
//!
//! A producer chooses what its batches unpack to. Therefore both are bounded before anything is
//! kept. A batch beyond the bounds, or one that cannot be read, is skipped.

use std::borrow::Cow;
use std::io::{ErrorKind, Read};

use forebay_input::{Compression, unpack};

use super::wire::{Malformed, Octets};

/// The most octets that a batch may unpack to.
pub const MAX_UNPACKED: usize = 64 << 20;
/// The most messages of a batch. The shortest ones take seven octets packed, and more in memory.
pub const MAX_MESSAGES: usize = 1 << 19;

/// The octets in front of a batch's length and of those that it counts.
const LENGTH_END: usize = 12;
/// What precedes snappy's blocks where Java packs them: a name, and two versions.
const JAVA_SNAPPY: &[u8] = b"\x82SNAPPY\0";
/// The octets of these two versions.
const JAVA_VERSIONS: usize = 8;

/// Why a batch is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The batch unpacks to too many octets.
    #[error("unpacks to more than {MAX_UNPACKED} octets: let the producer send smaller batches")]
    Octets,
    /// The batch has too many messages.
    #[error("has more than {MAX_MESSAGES} messages: let the producer send smaller batches")]
    Messages,
    /// The batch has another checksum than it says.
    #[error("has a wrong checksum: the broker's disk or network is damaged")]
    Checksum,
    /// The batch is stored in a format from before Kafka 0.11.
    #[error("is in a format from before Kafka 0.11")]
    Old,
    /// The compression of the batch is unknown, or its data are not of it.
    #[error("is compressed in an unknown way, or damaged")]
    Compression,
    /// The messages of the batch break the rules of the format.
    #[error("is damaged")]
    Malformed,
}

impl From<Malformed> for Refused {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

/// A batch of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// The offset behind its last message.
    pub(super) next: i64,
    /// The time of its newest message, in milliseconds since 1970.
    pub(super) newest: Option<i64>,
    /// The values of its messages from the offset on that was asked for.
    pub(super) messages: Result<Vec<Vec<u8>>, Refused>,
}

/// Takes the next batch from `octets`; `None` if that is cut, or there is none. Messages before the
/// offset `from` are left out.
pub(super) fn next_batch(octets: &mut &[u8], from: i64) -> Option<Batch> {
    let mut head = Octets(octets);
    let (base, length) = (head.long().ok()?, head.int().ok()?);
    let whole = LENGTH_END.checked_add(usize::try_from(length).ok()?)?;
    let (batch, rest) = octets.split_at_checked(whole)?;
    *octets = rest;
    // The offset always goes on, whatever the batch says.
    let least = base.saturating_add(1).max(from.saturating_add(1));
    match read(batch, base, from) {
        Ok(batch) => Some(Batch { next: batch.next.max(least), ..batch }),
        Err(why) => Some(Batch { next: least, newest: None, messages: Err(why) }),
    }
}

fn read(batch: &[u8], base: i64, from: i64) -> Result<Batch, Refused> {
    let mut head = Octets(batch);
    head.take(LENGTH_END + 4)?;
    let [magic] = head.array()?;
    if magic < 2 {
        return Err(Refused::Old);
    }
    let checksum = u32::from_be_bytes(head.array()?);
    let is_whole = checksum == crc32c(head.0);
    let (attributes, last) = (head.short()?, head.int()?);
    let (_first, newest) = (head.long()?, head.long()?);
    // The producer's number, epoch and sequence.
    head.take(14)?;
    let count = usize::try_from(head.int()?).unwrap_or(0);
    let is_control = attributes & 0x20 != 0;
    let messages = if magic > 2 {
        Err(Refused::Malformed)
    } else if !is_whole {
        Err(Refused::Checksum)
    } else if is_control {
        Ok(Vec::new())
    } else if count > MAX_MESSAGES {
        Err(Refused::Messages)
    } else {
        unpacked(head.0, attributes & 7)
            .and_then(|octets| messages(&octets, count, from.saturating_sub(base)))
    };
    let next = base.saturating_add(i64::from(last)).saturating_add(1);
    Ok(Batch { next, newest: is_whole.then_some(newest), messages })
}

/// Unpacks the messages of a batch.
fn unpacked(octets: &[u8], compression: i16) -> Result<Cow<'_, [u8]>, Refused> {
    let unpacked = match compression {
        0 if octets.len() > MAX_UNPACKED => return Err(Refused::Octets),
        0 => return Ok(octets.into()),
        1 => streamed(octets, Compression::Gzip),
        2 => snappy(octets),
        3 => lz4(octets),
        4 => streamed(octets, Compression::Zstd),
        _ => Err(Refused::Compression),
    };
    unpacked.map(Cow::Owned)
}

fn streamed(octets: &[u8], compression: Compression) -> Result<Vec<u8>, Refused> {
    if Compression::of(octets) != Some(compression) {
        return Err(Refused::Compression);
    }
    match unpack(octets, MAX_UNPACKED as u64) {
        Ok((unpacked, false)) => Ok(unpacked),
        Err(e) if e.kind() == ErrorKind::FileTooLarge => Err(Refused::Octets),
        Ok((_, true)) | Err(_) => Err(Refused::Compression),
    }
}

fn lz4(octets: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut unpacked = Vec::new();
    let decoder = lz4::Decoder::new(octets).map_err(|_| Refused::Compression)?;
    match decoder.take(MAX_UNPACKED as u64 + 1).read_to_end(&mut unpacked) {
        Ok(length) if length > MAX_UNPACKED => Err(Refused::Octets),
        Ok(_) => Ok(unpacked),
        Err(_) => Err(Refused::Compression),
    }
}

/// Unpacks a block of snappy, or the blocks that Java writes.
fn snappy(octets: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut unpacked = Vec::new();
    let mut block = |octets: &[u8]| {
        let length = snap::raw::decompress_len(octets).map_err(|_| Refused::Compression)?;
        if unpacked.len() + length > MAX_UNPACKED {
            return Err(Refused::Octets);
        }
        let block = snap::raw::Decoder::new().decompress_vec(octets);
        unpacked.extend(block.map_err(|_| Refused::Compression)?);
        Ok(())
    };
    match octets.strip_prefix(JAVA_SNAPPY) {
        None => block(octets)?,
        Some(rest) => {
            let mut rest = Octets(rest);
            rest.take(JAVA_VERSIONS)?;
            while !rest.0.is_empty() {
                let length = usize::try_from(rest.int()?).map_err(|_| Malformed)?;
                block(rest.take(length)?)?;
            }
        }
    }
    Ok(unpacked)
}

/// Reads the values of `count` messages, without those before the offset `from` in the batch.
fn messages(octets: &[u8], count: usize, from: i64) -> Result<Vec<Vec<u8>>, Refused> {
    let mut values = Vec::new();
    let mut rest = Octets(octets);
    for _ in 0..count {
        let length = usize::try_from(varint(&mut rest)?).map_err(|_| Malformed)?;
        let mut message = Octets(rest.take(length)?);
        // Attributes, and the time.
        message.take(1)?;
        varint(&mut message)?;
        let offset = varint(&mut message)?;
        let _key = field(&mut message)?;
        let value = field(&mut message)?;
        if let Some(value) = value
            && offset >= from
        {
            values.push(value.to_vec());
        }
    }
    Ok(values)
}

/// Reads a key or a value, which may be absent.
fn field<'a>(from: &mut Octets<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match usize::try_from(varint(from)?) {
        Ok(length) => from.take(length).map(Some),
        Err(_) => Ok(None),
    }
}

/// Reads an integer of variable length, whose last bit is the sign.
fn varint(from: &mut Octets<'_>) -> Result<i64, Malformed> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let [octet] = from.array()?;
        value |= u64::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
        }
    }
    Err(Malformed)
}

/// The remainders of all octets by the polynomial of CRC-32C (RFC 3720, section 12.1), reflected.
const REMAINDERS: [u32; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let (mut value, mut bit) = (octet as u32, 0);
        while bit < 8 {
            value = value >> 1 ^ if value & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[octet] = value;
        octet += 1;
    }
    table
};

/// Returns the checksum CRC-32C.
pub(super) fn crc32c(octets: &[u8]) -> u32 {
    !octets
        .iter()
        .fold(u32::MAX, |crc, octet| crc >> 8 ^ REMAINDERS[usize::from(crc as u8 ^ octet)])
}

#[cfg(test)]
pub(super) mod tests;
