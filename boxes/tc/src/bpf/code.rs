//! The BPF instructions that the program for leaves needs (RFC 9669).

/// An encoded instruction (RFC 9669 section 3).
pub(super) type Instruction = u64;

/// A register of BPF.
#[derive(Clone, Copy)]
pub(super) struct R(pub(super) u8);

const fn instruction(opcode: u8, dst: R, src: R, offset: i16, immediate: i32) -> Instruction {
    opcode as u64
        | (dst.0 as u64) << 8
        | (src.0 as u64) << 12
        | (offset as u16 as u64) << 16
        | (immediate as u32 as u64) << 32
}

/// Defines instructions with a register and a number, or with two registers.
macro_rules! arithmetic {
    ($($name:ident, $opcode:literal, $what:literal;)*) => {
        $(#[doc = $what]
        pub(super) const fn $name(dst: R, by: i32) -> Instruction {
            instruction($opcode, dst, R(0), 0, by)
        })*
    };
    ($($name:ident: $opcode:literal, $what:literal;)*) => {
        $(#[doc = $what]
        pub(super) const fn $name(dst: R, src: R) -> Instruction {
            instruction($opcode, dst, src, 0, 0)
        })*
    };
}

arithmetic! {
    set, 0xb7, "dst = by";
    add, 0x07, "dst += by";
    and, 0x57, "dst &= by";
    xor, 0xa7, "dst ^= by";
    shift_left, 0x67, "dst <<= by";
    shift_right, 0x77, "dst >>= by";
}

arithmetic! {
    copy: 0xbf, "dst = src";
    add_to: 0x0f, "dst += src";
    and_with: 0x5f, "dst &= src";
    shift_right_by: 0x7f, "dst >>= src";
    add_short: 0x0c, "dst += src, of 32 bits";
}

/// Negates the lower 32 bits: dst = -dst.
pub(super) const fn negate_short(dst: R) -> Instruction {
    instruction(0x84, dst, R(0), 0, 0)
}

/// Loads 32 bits: dst = \*(src + offset).
pub(super) const fn load(dst: R, src: R, offset: i16) -> Instruction {
    instruction(0x61, dst, src, offset, 0)
}

/// Stores 32 bits: \*(dst + offset) = src.
pub(super) const fn store(dst: R, offset: i16, src: R) -> Instruction {
    instruction(0x63, dst, src, offset, 0)
}

/// Sets 64 bits in two instructions: dst = value.
pub(super) const fn set_long(dst: R, value: u64) -> [Instruction; 2] {
    [instruction(0x18, dst, R(0), 0, value as i32), (value >> 32) << 32]
}

/// Sets dst to the map of a descriptor, in two instructions.
pub(super) const fn set_map(dst: R, descriptor: i32) -> [Instruction; 2] {
    [instruction(0x18, dst, R(1), 0, descriptor), 0]
}

/// Calls a helper: r0 is its answer, and r1 to r5 are lost.
pub(super) const fn call(helper: i32) -> Instruction {
    instruction(0x85, R(0), R(0), 0, helper)
}

/// Skips `count` instructions.
pub(super) const fn skip(count: i16) -> Instruction {
    instruction(0x05, R(0), R(0), count, 0)
}

/// Skips `count` instructions if dst == by.
pub(super) const fn skip_if(dst: R, by: i32, count: i16) -> Instruction {
    instruction(0x15, dst, R(0), count, by)
}

/// Skips `count` instructions if dst == src.
pub(super) const fn skip_if_same(dst: R, src: R, count: i16) -> Instruction {
    instruction(0x1d, dst, src, count, 0)
}

/// Skips `count` instructions if dst <= by, unsigned.
pub(super) const fn skip_up_to(dst: R, by: i32, count: i16) -> Instruction {
    instruction(0xb5, dst, R(0), count, by)
}

/// Skips `count` instructions if dst <= src, unsigned.
pub(super) const fn skip_not_above(dst: R, src: R, count: i16) -> Instruction {
    instruction(0xbd, dst, src, count, 0)
}

/// Ends the program with the answer r0.
pub(super) const EXIT: Instruction = instruction(0x95, R(0), R(0), 0, 0);

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte: opcode, registers (destination in the low half), offset, immediate.
    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        assert_eq!(store(R(6), 72, R(0)).to_le_bytes(), [0x63, 6, 72, 0, 0, 0, 0, 0]);
        let odd = instruction(0xbf, R(6), R(1), -2, -1);
        assert_eq!(odd.to_le_bytes(), [0xbf, 0x16, 254, 255, 255, 255, 255, 255]);
        let [low, high] = set_long(R(2), 0x1234_5678_9abc_def0).map(u64::to_le_bytes);
        assert_eq!(low, [0x18, 2, 0, 0, 0xf0, 0xde, 0xbc, 0x9a]);
        assert_eq!(high, [0, 0, 0, 0, 0x78, 0x56, 0x34, 0x12]);
    }
}
