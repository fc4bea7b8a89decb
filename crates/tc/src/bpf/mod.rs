//! The programs that choose bundles' leaf classes, loaded.

mod code;
mod leaves;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::{Error, Program};

/// The BPF programs of a tree's filters that the caller has loaded.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// The program for [`Program::Bundles`].
    pub bundles: BorrowedFd<'a>,
}

/// The BPF programs of a tree's filters.
pub(crate) struct Loaded<'a> {
    given: &'a Programs<'a>,
    bundles: usize,
    leaves: BTreeMap<(u8, u64), OwnedFd>,
    /// Which flow has which leaf, of all bundles.
    table: Option<OwnedFd>,
}

impl<'a> Loaded<'a> {
    /// Of a tree of so many bundles; those that are made here are loaded when they are asked for.
    pub(crate) fn new(given: &'a Programs<'a>, bundles: usize) -> Self {
        Self { given, bundles, leaves: BTreeMap::new(), table: None }
    }

    /// The descriptor of `program`.
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub(crate) fn get(&mut self, program: Program) -> Result<RawFd, Error> {
        let (classes, masks) = match program {
            Program::Bundles => return Ok(self.given.bundles.as_raw_fd()),
            Program::Leaves { classes, masks } => (classes, masks),
        };
        if let Some(fd) = self.leaves.get(&(classes, masks)) {
            return Ok(fd.as_raw_fd());
        }
        let most = masks.to_le_bytes().into_iter().max().unwrap_or(0);
        let table = match &self.table {
            _ if most == 0 => None,
            Some(table) => Some(table.as_raw_fd()),
            None => {
                let table = make_table(self.bundles, usize::from(most) + 1)?;
                Some(self.table.insert(table).as_raw_fd())
            }
        };
        let fd = load(&leaves::leaves(classes, masks, table))?;
        Ok(self.leaves.entry((classes, masks)).or_insert(fd).as_raw_fd())
    }
}

/// A map that has for each class of each bundle an entry for each of `flows` leaves.
fn make_table(bundles: usize, flows: usize) -> Result<OwnedFd, Error> {
    const MAP_CREATE: libc::c_long = 0;
    const ARRAY: u32 = 2;
    /// The start of the kernel's `union bpf_attr` for this command.
    #[repr(C)]
    struct Attributes {
        kind: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        flags: [u32; 3],
        name: [u8; 16],
    }
    let attributes = Attributes {
        kind: ARRAY,
        key_size: 4,
        value_size: (flows * leaves::ENTRY) as u32,
        max_entries: (bundles * leaves::CLASSES) as u32,
        flags: [0; 3],
        name: *b"fb_flows\0\0\0\0\0\0\0\0",
    };
    // SAFETY: the attributes have the layout that the command has.
    unsafe { bpf(MAP_CREATE, &attributes) }
        .map_err(Error::system("making the BPF map of which flow has which queue"))
}

fn load(code: &[code::Instruction]) -> Result<OwnedFd, Error> {
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
    // SAFETY: the attributes have the layout that the command has; the pointers in them are to memory
    // that lives through the call and is only read.
    unsafe { bpf(PROG_LOAD, &attributes) }
        .map_err(Error::system("loading the BPF program that chooses a flow's queue"))
}

/// A command that makes something that has a descriptor.
///
/// # Safety
/// `attributes` are the start of what the kernel's `union bpf_attr` has for the command.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: by this function's own condition, and their length is given; the descriptor is nobody
    // else's.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>());
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}
