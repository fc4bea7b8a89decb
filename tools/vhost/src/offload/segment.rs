//! TCP segmentation (TSO in hardware), for ports that carry full frames only.

use super::{Checksum, Offload, TCP, checksum, header_len, tcp_headers};

const FIN_AND_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
const IPV6_HEADER: usize = 40;

/// Splits a frame into its segments, in order, with complete checksums. A frame without
/// segmentation is its own single segment.
#[derive(Debug)]
pub struct Segmenter<'a> {
    frame: &'a [u8],
    plan: Plan,
    /// Bytes of payload that are done.
    done: usize,
    index: u16,
    ended: bool,
}

#[derive(Clone, Copy, Debug)]
enum Plan {
    /// The frame is one segment.
    Whole(Option<Checksum>),
    /// The frame is split; offsets and lengths are in bytes.
    Split { network: usize, transport: usize, headers: usize, size: usize },
}

impl<'a> Segmenter<'a> {
    /// Creates the segmenter of `frame` with an `offload` that [`Offload::read`] has checked.
    pub fn new(frame: &'a [u8], offload: Offload) -> Self {
        let cut = || {
            let segments = offload.segments?;
            let headers = header_len(frame, segments, offload.checksum)?;
            let parsed = tcp_headers(frame)?;
            Some(Plan::Split {
                network: parsed.network_offset.into(),
                transport: parsed.transport_offset.into(),
                headers,
                size: segments.size.max(1).into(),
            })
        };
        let plan = cut().unwrap_or(Plan::Whole(offload.checksum));
        Self { frame, plan, done: 0, index: 0, ended: false }
    }

    /// Replaces `out` by the next segment; returns whether there was one.
    pub fn next_into(&mut self, out: &mut Vec<u8>) -> bool {
        if self.ended {
            return false;
        }
        out.clear();
        match self.plan {
            Plan::Whole(left) => {
                out.extend_from_slice(self.frame);
                if let Some(left) = left {
                    checksum::fill(out, left);
                }
                self.ended = true;
            }
            Plan::Split { network, transport, headers, size } => {
                let payload = &self.frame[headers..];
                let chunk = &payload[self.done..payload.len().min(self.done + size)];
                out.extend_from_slice(&self.frame[..headers]);
                out.extend_from_slice(chunk);
                let offset = self.done as u32;
                self.done += chunk.len();
                self.ended = self.done == payload.len();
                self.fix_headers(out, network, transport, offset);
                self.index = self.index.wrapping_add(1);
            }
        }
        true
    }

    /// Adapts the headers to this segment, whose payload begins at `offset`.
    fn fix_headers(&self, out: &mut [u8], network: usize, transport: usize, offset: u32) {
        let length = out.len() - network;
        let is_v4 = out[network] >> 4 == 4;
        if is_v4 {
            put(out, network + 2, length as u16);
            let id = get(out, network + 4).wrapping_add(self.index);
            put(out, network + 4, id);
            put(out, network + 10, 0);
            let sum = checksum::of(&out[network..transport]);
            put(out, network + 10, sum);
        } else {
            put(out, network + 4, (length - IPV6_HEADER) as u16);
        }
        let tcp = &mut out[transport..];
        let mut sequence = [0; 4];
        sequence.copy_from_slice(&tcp[4..8]);
        let sequence = u32::from_be_bytes(sequence).wrapping_add(offset);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !self.ended {
            tcp[13] &= !FIN_AND_PSH;
        }
        if self.index > 0 {
            tcp[13] &= !CWR;
        }
        put(tcp, 16, 0);
        let (before, tcp) = out.split_at_mut(transport);
        let addresses = if is_v4 { network + 12..network + 20 } else { network + 8..network + 40 };
        let sum = checksum::transport(&before[addresses], TCP, tcp);
        put(tcp, 16, sum);
    }
}

fn get(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
