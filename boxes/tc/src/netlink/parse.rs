//! Parsing messages of the kernel. Every length is checked.

use super::{HEADER, TCMSG, Tc, align};

/// A message of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// The number of the socket whose request it answers or reports.
    pub(crate) port: u32,
    pub(crate) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns the object and the attributes of a message about queues.
    pub(crate) fn object(&self) -> Option<(Tc, Attributes<'a>)> {
        let index = u32_at(self.body, 4)? as i32;
        let handle = u32_at(self.body, 8)?;
        let parent = u32_at(self.body, 12)?;
        let info = u32_at(self.body, 16)?;
        Some((Tc { index, handle, parent, info }, Attributes(self.body.get(TCMSG..)?)))
    }
}

/// Returns the messages of a datagram.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..length)?;
        let message = Message {
            kind: u16::from_ne_bytes(array(bytes, 4)?),
            flags: u16::from_ne_bytes(array(bytes, 6)?),
            sequence: u32_at(bytes, 8)?,
            port: u32_at(bytes, 12)?,
            body,
        };
        bytes = bytes.get(align(length)..).unwrap_or_default();
        Some(message)
    })
}

/// An iterator over attributes, each with its kind and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(array(self.0, 0)?));
        let kind = u16::from_ne_bytes(array(self.0, 2)?) & libc::NLA_TYPE_MASK as u16;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(align(length)..).unwrap_or_default();
        Some((kind, value))
    }
}

impl<'a> Attributes<'a> {
    /// Returns the first attribute of a kind.
    pub(crate) fn get(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find(|(k, _)| *k == kind).map(|(_, value)| value)
    }
}

/// Returns `N` bytes from `at` on.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Returns the 32-bit number at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

/// Returns the 64-bit number at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

/// Returns a text without the zero at its end.
pub(crate) fn string(bytes: &[u8]) -> String {
    let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Batch;
    use super::*;

    #[test]
    fn a_written_message_is_parsed() {
        let mut batch = Batch::default();
        let tc = Tc { index: 3, handle: 0x0fb0_0000, parent: u32::MAX, info: 9 };
        batch.about(36, libc::NLM_F_CREATE, tc).text(1, "htb").nest(2, |b| {
            b.number(4, 5).attribute(6, &[7]);
        });
        batch.message(37, 0);
        let bytes = batch.bytes().to_vec();
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!((read.len(), read[0].kind, read[1].kind), (2, 36, 37));
        assert_eq!(i32::from(read[0].flags), libc::NLM_F_CREATE | libc::NLM_F_REQUEST);
        let (of, attributes) = read[0].object().unwrap();
        assert_eq!((of.index, of.handle, of.parent, of.info), (3, 0x0fb0_0000, u32::MAX, 9));
        assert_eq!(attributes.get(1).map(string).as_deref(), Some("htb"));
        let inner: Vec<_> = Attributes(attributes.get(2).unwrap()).collect();
        assert_eq!(inner, [(4, &5u32.to_ne_bytes()[..]), (6, &[7][..])]);
        assert!(read[1].object().is_none());
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        let mut batch = Batch::default();
        batch.about(36, 0, Tc::default()).text(1, "htb").number(4, 5);
        let bytes = batch.bytes().to_vec();
        for length in 0..bytes.len() {
            assert_eq!(messages(&bytes[..length]).count(), 0, "cut at {length}");
        }
        for length in 0..8 {
            assert_eq!(Attributes(&bytes[36..36 + length]).count(), 0);
        }
        // Invalid lengths: shorter than the header, and zero.
        for length in [0u16, 3] {
            let mut bad = bytes.clone();
            bad[36..38].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&bad).next().unwrap().object().unwrap().1.count(), 0);
        }
        let mut bad = bytes;
        bad[0..4].copy_from_slice(&15u32.to_ne_bytes());
        assert_eq!(messages(&bad).count(), 0);
    }
}
