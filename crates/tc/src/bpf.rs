//! The program that chooses a bundle's leaf class: a dozen instructions, written here because they
//! depend on the plan, and need neither a compiler nor a loader.

use std::os::fd::{FromRawFd, OwnedFd};

use crate::{Error, Program};

/// An instruction as the kernel reads it (RFC 9669 section 3).
type Instruction = u64;

const fn instruction(opcode: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Instruction {
    opcode as u64
        | (dst as u64) << 8
        | (src as u64) << 12
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

/// Offsets in `struct __sk_buff`.
const CB0: i16 = 48;
const TC_CLASSID: i16 = 72;
/// `bpf_get_hash_recalc`: the kernel's hash of addresses, ports and protocol, once for each packet.
const GET_HASH: i32 = 34;
/// The classifier's answer: take the class that it has set.
const TC_ACT_OK: i32 = 0;

/// `class << 8 | (hash & mask of the class)`, plus one: the minor number of [`crate::Handle::leaf`].
/// A class past the last counts as the last.
fn leaves(classes: u8, masks: u64) -> Vec<Instruction> {
    let last = i32::from(classes.max(1) - 1);
    let mut code = vec![
        instruction(0xbf, 6, 1, 0, 0), // r6 = r1, the packet
        instruction(0x85, 0, 0, 0, GET_HASH),
        instruction(0xb7, 7, 0, 0, 0), // r7 = 0, the class
    ];
    if last > 0 {
        code.push(instruction(0x61, 7, 6, CB0, 0)); // r7 = cb[0]
        code.push(instruction(0xb5, 7, 0, 1, last)); // if r7 <= last skip
        code.push(instruction(0xb7, 7, 0, 0, last)); // r7 = last
    }
    code.extend([
        instruction(0x18, 2, 0, 0, masks as i32), // r2 = masks, in two halves
        instruction(0, 0, 0, 0, (masks >> 32) as i32),
        instruction(0x67, 7, 0, 0, 3),          // r7 <<= 3
        instruction(0x7f, 2, 7, 0, 0),          // r2 >>= r7
        instruction(0x57, 2, 0, 0, 0xff),       // r2 &= 255
        instruction(0x5f, 0, 2, 0, 0),          // r0 &= r2
        instruction(0x67, 7, 0, 0, 5),          // r7 <<= 5: the class times 256
        instruction(0x0f, 0, 7, 0, 0),          // r0 += r7
        instruction(0x07, 0, 0, 0, 1),          // r0 += 1
        instruction(0x63, 6, 0, TC_CLASSID, 0), // tc_classid = r0
        instruction(0xb7, 0, 0, 0, TC_ACT_OK),
        instruction(0x95, 0, 0, 0, 0),
    ]);
    code
}

/// Loads the program that `program` says; `None` for the one that is not made here.
pub(crate) fn load(program: Program) -> Result<Option<OwnedFd>, Error> {
    match program {
        Program::Bundles => Ok(None),
        Program::Leaves { classes, masks } => load_code(&leaves(classes, masks)).map(Some),
    }
}

fn load_code(code: &[Instruction]) -> Result<OwnedFd, Error> {
    const PROG_LOAD: libc::c_long = 5;
    const SCHED_CLS: u32 = 3;
    /// The start of the kernel's `union bpf_attr` for this command.
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        code: u64,
        license: u64,
        log: [u32; 2],
        log_buffer: u64,
        kernel: u32,
        flags: u32,
        name: [u8; 16],
    }
    let license = c"Apache-2.0";
    let attributes = Attributes {
        kind: SCHED_CLS,
        count: code.len() as u32,
        code: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log: [0; 2],
        log_buffer: 0,
        kernel: 0,
        flags: 0,
        name: *b"fb_leaves\0\0\0\0\0\0\0",
    };
    // SAFETY: the attributes have the kernel's layout and their length is given; the pointers in them
    // are to memory that lives through the call and is only read; the descriptor is nobody else's.
    unsafe {
        let (at, length) = (&raw const attributes, size_of::<Attributes>());
        let fd = libc::syscall(libc::SYS_bpf, PROG_LOAD, at, length);
        if fd < 0 {
            return Err(Error::last("loading the BPF program that chooses a flow's queue"));
        }
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte: opcode, registers (destination in the low half), offset, immediate.
    #[test]
    fn instructions_are_laid_out_as_the_kernel_reads_them() {
        assert_eq!(instruction(0x63, 6, 0, 72, 0).to_le_bytes(), [0x63, 6, 72, 0, 0, 0, 0, 0]);
        assert_eq!(
            instruction(0xbf, 6, 1, -2, -1).to_le_bytes()[1..],
            [0x16, 254, 255, 255, 255, 255, 255]
        );
    }

    /// Runs the program's arithmetic, of the opcodes that it has.
    fn run(classes: u8, masks: u64, hash: u64, class: u64) -> u64 {
        let mut r = [0u64; 11];
        let code = leaves(classes, masks);
        let mut at = 0;
        let mut chosen = 0;
        loop {
            let [op, registers, ..] = code[at].to_le_bytes();
            let (d, s) = (usize::from(registers & 15), usize::from(registers >> 4));
            let offset = (code[at] >> 16) as u16 as i16;
            let immediate = (code[at] >> 32) as u32;
            match op {
                0xbf => r[d] = r[s],
                0x85 => r[0] = hash,
                0xb7 => r[d] = u64::from(immediate),
                0x61 => r[d] = class,
                0xb5 if r[d] <= u64::from(immediate) => at += offset as usize,
                0xb5 => {}
                0x18 => {
                    r[d] = u64::from(immediate) | code[at + 1] & !0xffff_ffff;
                    at += 1;
                }
                0x67 => r[d] <<= immediate,
                0x7f => r[d] >>= r[s],
                0x57 => r[d] &= u64::from(immediate),
                0x5f => r[d] &= r[s],
                0x0f => r[d] += r[s],
                0x07 => r[d] += u64::from(immediate),
                0x63 => chosen = r[s],
                0x95 => return chosen,
                _ => panic!("no such instruction: {op:#x}"),
            }
            at += 1;
        }
    }

    #[test]
    fn it_chooses_the_leaf_that_the_plan_has() {
        use crate::Handle;
        let leaf = |class, flow| u64::from(Handle::of_queue(3).leaf(class, flow).minor());
        assert_eq!(run(1, 255, 0x1234_5678, 9), leaf(0, 0x78), "one class reads no class");
        assert_eq!(run(1, 15, 0x1234_5678, 0), leaf(0, 8));
        let masks = 0xff_00_3f;
        assert_eq!(run(3, masks, 0xffff_ffff, 0), leaf(0, 0x3f));
        assert_eq!(run(3, masks, 0xffff_ffff, 1), leaf(1, 0));
        assert_eq!(run(3, masks, 0xffff_ff42, 2), leaf(2, 0x42));
        assert_eq!(run(3, masks, 0xffff_ff42, 0xdead), leaf(2, 0x42), "past the last");
        assert_eq!(run(8, u64::MAX, 0xffff_ffff, 7), leaf(7, 255));
    }
}
