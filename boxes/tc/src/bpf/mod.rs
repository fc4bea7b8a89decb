//! Loading the BPF programs that select leaf classes.

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

/// The BPF programs that select leaf classes. They stay loaded as long as this value lives.
#[derive(Debug)]
pub(crate) struct Leaves {
    bundles: usize,
    /// Whether no more programs may be loaded, since the process may have given up that right.
    complete: bool,
    programs: BTreeMap<(u8, u64), OwnedFd>,
    /// The table that maps flows to leaves, of all bundles.
    table: Option<OwnedFd>,
}

impl Leaves {
    /// Prepares the programs of a tree whose bundles have numbers below `bundles`. They are loaded
    /// when they are needed.
    pub(crate) fn new(bundles: usize) -> Self {
        Self { bundles, complete: false, programs: BTreeMap::new(), table: None }
    }

    /// Loads no more programs from now on.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// Returns the descriptor of `program`, which `given` has if the caller has loaded it.
    ///
    /// # Errors
    /// If the kernel refuses the program.
    pub(crate) fn get(&mut self, program: Program, given: &Programs<'_>) -> Result<RawFd, Error> {
        let (classes, masks) = match program {
            Program::Bundles => return Ok(given.bundles.as_raw_fd()),
            Program::Leaves { classes, masks } => (classes, masks),
        };
        if let Some(fd) = self.programs.get(&(classes, masks)) {
            return Ok(fd.as_raw_fd());
        }
        if self.complete {
            return Err(Error::NoProgram { classes });
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
        Ok(self.programs.entry((classes, masks)).or_insert(fd).as_raw_fd())
    }
}

/// Creates a map with an entry for each of `flows` leaves of each class of each bundle.
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

/// Loads a program.
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
    // SAFETY: the attributes have the layout that the command has; the pointers in them are to
    // memory that lives through the call and is only read.
    unsafe { bpf(PROG_LOAD, &attributes) }
        .map_err(Error::system("loading the BPF program that chooses a flow's queue"))
}

/// Calls a command of `bpf(2)` that returns a descriptor.
///
/// # Safety
/// `attributes` must have the layout of the start of the kernel's `union bpf_attr` for the command.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: by this function's own condition, and their length is given; the descriptor has no
    // other owner.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>());
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}
