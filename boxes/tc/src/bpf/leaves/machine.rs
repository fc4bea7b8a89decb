//! An interpreter for the assembled programs, with the rules of the kernel. See [decision
//! 8](../../../../../docs/decisions/0008-dependencies.md) for why it is not the crate rbpf.

use crate::bpf::leaves::{CB0, COARSE_TIME, GET_HASH, LOOK_UP, TC_CLASSID};

/// The addresses of the program's memory.
const PACKET: u64 = 1 << 32;
const STACK: u64 = 2 << 32;
const TABLE: u64 = 3 << 32;

/// The state that a program finds.
pub(crate) struct Machine {
    pub(crate) hash: u32,
    /// The packet's `cb[0]`.
    pub(crate) cb0: u32,
    /// The time in nanoseconds.
    pub(crate) now: u64,
    /// The value of each key of the table.
    pub(crate) table: Vec<Vec<u8>>,
}

struct Memory<'a> {
    packet: [u8; 80],
    stack: [u8; 32],
    table: &'a mut [Vec<u8>],
}

impl Memory<'_> {
    fn word(&mut self, at: u64) -> &mut [u8; 4] {
        let place = at as u32 as usize;
        let bytes = match at & !0xffff_ffff {
            PACKET => &mut self.packet[place..],
            STACK => &mut self.stack[place..],
            TABLE => &mut self.table[place >> 16][place & 0xffff..],
            _ => panic!("nothing is at {at:#x}"),
        };
        bytes.first_chunk_mut().expect("a whole word")
    }

    fn load(&mut self, at: u64) -> u64 {
        u64::from(u32::from_le_bytes(*self.word(at)))
    }

    fn store(&mut self, at: u64, value: u64) {
        *self.word(at) = (value as u32).to_le_bytes();
    }
}

impl Machine {
    /// Runs `code`, and returns the packet's `tc_classid`.
    pub(crate) fn run(&mut self, code: &[u64]) -> u32 {
        let mut memory = Memory { packet: [0; 80], stack: [0; 32], table: &mut self.table };
        memory.store(PACKET + CB0 as u64, u64::from(self.cb0));
        let mut r = [0u64; 11];
        // The stack grows down.
        (r[1], r[10]) = (PACKET, STACK + memory.stack.len() as u64);
        let mut at = 0;
        loop {
            let [op, registers, ..] = code[at].to_le_bytes();
            let (d, s) = (usize::from(registers & 15), usize::from(registers >> 4));
            let offset = i64::from((code[at] >> 16) as u16 as i16) as u64;
            let immediate = i64::from((code[at] >> 32) as i32) as u64;
            let mut skips = false;
            match op {
                0x07 => r[d] = r[d].wrapping_add(immediate),
                0x0f => r[d] = r[d].wrapping_add(r[s]),
                0x0c => r[d] = u64::from((r[d] as u32).wrapping_add(r[s] as u32)),
                0x57 => r[d] &= immediate,
                0x5f => r[d] &= r[s],
                0x67 => r[d] <<= immediate,
                0x77 => r[d] >>= immediate,
                0x7f => r[d] >>= r[s],
                0x84 => r[d] = u64::from((r[d] as u32).wrapping_neg()),
                0xa7 => r[d] ^= immediate,
                0xb7 => r[d] = immediate,
                0xbf => r[d] = r[s],
                0x18 if s == 1 => at += 1,
                0x18 => {
                    r[d] = code[at] >> 32 | code[at + 1] & !0xffff_ffff;
                    at += 1;
                }
                0x61 => r[d] = memory.load(r[s].wrapping_add(offset)),
                0x63 => memory.store(r[d].wrapping_add(offset), r[s]),
                0x05 => skips = true,
                0x15 => skips = r[d] == immediate,
                0x1d => skips = r[d] == r[s],
                0xb5 => skips = r[d] <= immediate,
                0xbd => skips = r[d] <= r[s],
                0x85 => {
                    r[0] = match immediate as i32 {
                        GET_HASH => u64::from(self.hash),
                        COARSE_TIME => self.now,
                        LOOK_UP => {
                            let key = memory.load(r[2]);
                            if key < memory.table.len() as u64 { TABLE + (key << 16) } else { 0 }
                        }
                        other => panic!("no such helper: {other}"),
                    };
                    // A program must not rely on these registers after a call.
                    r[1..6].fill(0xdead_beef_dead_beef);
                }
                0x95 => return memory.load(PACKET + TC_CLASSID as u64) as u32,
                _ => panic!("no such instruction: {op:#x}"),
            }
            at += 1 + if skips { offset as usize } else { 0 };
        }
    }
}
