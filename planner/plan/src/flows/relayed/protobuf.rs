//! The fields of a message of Protocol Buffers, as its encoding defines them
//! (<https://protobuf.dev/programming-guides/encoding/>).

/// The most octets of a varint.
const VARINT_OCTETS: usize = 10;

/// Why a message cannot be read, and the place of the field in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message ends within a field.
    #[error("it ends within the field at octet {0}")]
    Short(usize),
    /// A number is longer than 64 bits.
    #[error("the number at octet {0} is longer than 64 bits")]
    Long(usize),
    /// A field has a number or an encoding that does not exist.
    #[error("the field at octet {0} has a number or an encoding that does not exist")]
    Tag(usize),
    /// A field has another encoding than its type.
    #[error("field {1} at octet {0} has another encoding than its type")]
    Type(usize, u32),
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    Varint(u64),
    Octets(&'a [u8]),
    /// A value of four or eight octets, which no field that is used has.
    Fixed,
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    value: Value<'a>,
    /// The place of the field.
    at: usize,
}

impl<'a> Field<'a> {
    /// Returns the number.
    pub(super) fn varint(&self) -> Result<u64, Malformed> {
        match self.value {
            Value::Varint(number) => Ok(number),
            _ => Err(Malformed::Type(self.at, self.number)),
        }
    }

    /// Returns the octets.
    pub(super) fn octets(&self) -> Result<&'a [u8], Malformed> {
        match self.value {
            Value::Octets(octets) => Ok(octets),
            _ => Err(Malformed::Type(self.at, self.number)),
        }
    }

    /// Passes the numbers of a repeated field, of which each may have a field, or several one.
    pub(super) fn repeated(&self, take: &mut dyn FnMut(u64)) -> Result<(), Malformed> {
        let Value::Octets(packed) = self.value else {
            take(self.varint()?);
            return Ok(());
        };
        let mut at = 0;
        while at < packed.len() {
            let (number, next) = varint(packed, at).map_err(|_| Malformed::Short(self.at))?;
            take(number);
            at = next;
        }
        Ok(())
    }
}

/// Reads a varint at a place; returns it with the place behind it.
fn varint(octets: &[u8], at: usize) -> Result<(u64, usize), Malformed> {
    let mut number = 0_u64;
    for (place, shift) in (at..).zip((0..).step_by(7)).take(VARINT_OCTETS) {
        let octet = *octets.get(place).ok_or(Malformed::Short(at))?;
        let bits = u64::from(octet & 0x7f);
        if bits << shift >> shift != bits {
            break;
        }
        number |= bits << shift;
        if octet & 0x80 == 0 {
            return Ok((number, place + 1));
        }
    }
    Err(Malformed::Long(at))
}

/// Returns the fields of a message. Nothing follows an error.
pub(super) fn fields_of(message: &[u8]) -> impl Iterator<Item = Result<Field<'_>, Malformed>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= message.len() {
            return None;
        }
        let field = field(message, at);
        at = field.map_or(message.len(), |(_, next)| next);
        Some(field.map(|(field, _)| field))
    })
}

fn field(message: &[u8], at: usize) -> Result<(Field<'_>, usize), Malformed> {
    let (tag, next) = varint(message, at)?;
    let number = u32::try_from(tag >> 3).ok().filter(|n| (1..1 << 29).contains(n));
    let number = number.ok_or(Malformed::Tag(at))?;
    let skip = |octets: usize| {
        let end = next.checked_add(octets).filter(|end| *end <= message.len());
        end.ok_or(Malformed::Short(at))
    };
    let (value, next) = match tag & 7 {
        0 => varint(message, next).map(|(number, next)| (Value::Varint(number), next))?,
        1 => (Value::Fixed, skip(8)?),
        2 => {
            let (length, begin) = varint(message, next)?;
            let end = usize::try_from(length).ok().and_then(|length| begin.checked_add(length));
            let octets = end.and_then(|end| message.get(begin..end));
            let octets = octets.ok_or(Malformed::Short(at))?;
            (Value::Octets(octets), begin + octets.len())
        }
        5 => (Value::Fixed, skip(4)?),
        _ => return Err(Malformed::Tag(at)),
    };
    Ok((Field { number, value, at }, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(octets: &[u8]) -> Result<Vec<Field<'_>>, Malformed> {
        fields_of(octets).collect()
    }

    #[test]
    fn fields_match_the_examples_of_the_encoding() {
        // The examples of the specification: 150 in field 1, and "testing" in field 2.
        let fields = all(&[0x08, 0x96, 0x01]).unwrap();
        assert_eq!((fields[0].number, fields[0].varint()), (1, Ok(150)));
        let octets = [&[0x12, 0x07][..], b"testing"].concat();
        let fields = all(&octets).unwrap();
        assert_eq!((fields[0].number, fields[0].octets()), (2, Ok(&b"testing"[..])));
        assert_eq!(fields[0].varint(), Err(Malformed::Type(0, 2)));
        // Field 6 with 3, 270 and 86942, in one field.
        let octets = [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05];
        let mut numbers = Vec::new();
        all(&octets).unwrap()[0].repeated(&mut |n| numbers.push(n)).unwrap();
        assert_eq!(numbers, [3, 270, 86942]);
        // -2 has the most octets that a number may have.
        let octets = [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(all(&octets).unwrap()[0].varint(), Ok(-2_i64 as u64));
        let octets = [0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x15, 1, 2, 3, 4, 0x18, 5];
        let numbers: Vec<_> = all(&octets).unwrap().iter().map(|f| f.number).collect();
        assert_eq!(numbers, [1, 2, 3], "fixed values are skipped");
    }

    #[test]
    fn what_breaks_the_encoding_has_its_place() {
        for (octets, why) in [
            (&[0x08][..], Malformed::Short(1)),
            (&[0x08, 1, 0x12, 5, 1], Malformed::Short(2)),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], Malformed::Short(0)),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], Malformed::Long(1)),
            (&[0x00, 1], Malformed::Tag(0)),
            (&[0x08, 1, 0x0b], Malformed::Tag(2)),
            (&[0x09, 1, 2], Malformed::Short(0)),
        ] {
            assert_eq!(all(octets), Err(why), "{octets:?}");
        }
    }
}
