use super::{HEADER, align};
use crate::Handle;

/// The object that a message is about (`struct tcmsg`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tc {
    /// The index of the device; zero for all.
    pub(crate) index: i32,
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    /// The priority and protocol of a filter.
    pub(crate) info: u32,
}

impl Tc {
    pub(crate) fn of(index: i32, handle: Handle, parent: Handle) -> Self {
        Self { index, handle: handle.0, parent: parent.0, info: 0 }
    }
}

/// Requests in the form in which the kernel reads them; one system call sends any number of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// The offset of each message.
    starts: Vec<usize>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Starts a message, to which the next writes belong. `flags` are those beside NLM_F_REQUEST.
    pub(crate) fn message(&mut self, kind: u16, flags: i32) -> &mut Self {
        self.close();
        self.starts.push(self.bytes.len());
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        self.bytes.extend([0; 8]);
        self
    }

    /// Starts a message about an object.
    pub(crate) fn about(&mut self, kind: u16, flags: i32, tc: Tc) -> &mut Self {
        self.message(kind, flags);
        self.bytes.extend([0; 4]);
        self.bytes.extend(tc.index.to_ne_bytes());
        self.bytes.extend(tc.handle.to_ne_bytes());
        self.bytes.extend(tc.parent.to_ne_bytes());
        self.bytes.extend(tc.info.to_ne_bytes());
        self
    }

    /// Adds the bytes between the header and the attributes of a message.
    pub(crate) fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend(bytes);
        self
    }

    /// Adds an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.bytes.extend(((value.len() + 4) as u16).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(align(self.bytes.len()), 0);
        self
    }

    /// Adds an attribute with a number.
    pub(crate) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute with a text and the zero that the kernel expects at its end.
    pub(crate) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute that contains attributes.
    pub(crate) fn nest(&mut self, kind: u16, inner: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.attribute(kind | libc::NLA_F_NESTED as u16, &[]);
        inner(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Splits the messages into parts of at most `most` bytes, unless a single message is longer.
    /// The messages are numbered from `sequence` on, and the last message of each part asks for an
    /// acknowledgement. Returns each part with the numbers of its first and last message.
    pub(crate) fn parts(&mut self, sequence: u32, most: usize) -> Vec<(u32, u32, &[u8])> {
        self.close();
        let count = self.starts.len();
        let end = |i: usize| self.starts.get(i + 1).copied().unwrap_or(self.bytes.len());
        let mut bounds = Vec::new();
        let mut first = 0;
        for i in 0..count {
            let full = i + 1 == count || end(i + 1) - self.starts[first] > most;
            if full {
                bounds.push((first, i, self.starts[first], end(i)));
                first = i + 1;
            }
        }
        for (i, &start) in self.starts.iter().enumerate() {
            let number = sequence.wrapping_add(i as u32);
            self.bytes[start + 8..start + 12].copy_from_slice(&number.to_ne_bytes());
        }
        for &(_, last, ..) in &bounds {
            let at = self.starts[last] + 6;
            let flags = u16::from_ne_bytes([self.bytes[at], self.bytes[at + 1]]);
            let flags = flags | libc::NLM_F_ACK as u16;
            self.bytes[at..at + 2].copy_from_slice(&flags.to_ne_bytes());
        }
        let number = |i: usize| sequence.wrapping_add(i as u32);
        bounds.into_iter().map(|(f, l, a, z)| (number(f), number(l), &self.bytes[a..z])).collect()
    }

    /// Writes the length of the current message.
    fn close(&mut self) {
        if let Some(&start) = self.starts.last() {
            let length = (self.bytes.len() - start) as u32;
            debug_assert!(length as usize >= HEADER);
            self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        }
    }

    /// Returns all messages as the kernel reads them.
    pub(crate) fn take(mut self) -> Vec<u8> {
        self.close();
        self.bytes
    }

    /// Returns the bytes of all messages so far.
    #[cfg(test)]
    pub(crate) fn bytes(&mut self) -> &[u8] {
        self.close();
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_where_they_are_full_and_ask_there() {
        let mut batch = Batch::default();
        for _ in 0..5 {
            batch.message(36, 0).number(1, 7);
        }
        assert_eq!(batch.len(), 5);
        let parts = batch.parts(u32::MAX, 50);
        let bounds: Vec<_> = parts.iter().map(|(f, l, b)| (*f, *l, b.len())).collect();
        // 24 bytes each, so two in 50.
        assert_eq!(bounds, [(u32::MAX, 0, 48), (1, 2, 48), (3, 3, 24)]);
        let flags: Vec<u8> =
            parts.iter().flat_map(|(_, _, b)| b.chunks(24)).map(|m| m[6]).collect();
        assert_eq!(flags, [1, 5, 1, 5, 5], "NLM_F_REQUEST, and NLM_F_ACK on the last");
        assert!(Batch::default().parts(1, 50).is_empty());
    }
}
