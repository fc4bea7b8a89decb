//! The capabilities of the calling thread (`capabilities(7)`).

use std::io;

use super::{control, note};

/// A capability that a running daemon may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// `CAP_NET_ADMIN`: changes of interfaces and their queues.
    NetAdmin = 12,
    /// `CAP_SYS_ADMIN`, which includes [`Capability::Bpf`] before Linux 5.8.
    SysAdmin = 21,
    /// `CAP_BPF`: use of BPF maps on kernels that do not leave it to their descriptors.
    Bpf = 39,
}

impl Capability {
    const fn bit(self) -> u64 {
        1 << self as u64
    }
}

/// The largest number of capabilities. No kernel has as many.
const MAX_CAPABILITIES: libc::c_ulong = 64;

/// Gives up all capabilities of the calling thread but `kept`, and all that commands could gain.
/// Threads that it has started already keep theirs.
///
/// `CAP_BPF` stays too if the kernel asks for it whenever a process uses its BPF maps.
pub fn keep_only(kept: &[Capability]) {
    note("capabilities that commands could gain", empty_bounding_set());
    note("ambient capabilities", empty_ambient_set());
    note("capabilities", reduce(kept));
}

fn empty_bounding_set() -> io::Result<()> {
    for number in 0..MAX_CAPABILITIES {
        match control(libc::PR_CAPBSET_DROP, number) {
            // There are no more.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => break,
            other => other?,
        }
    }
    Ok(())
}

fn empty_ambient_set() -> io::Result<()> {
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong;
    control(libc::PR_CAP_AMBIENT, clear)
}

fn reduce(kept: &[Capability]) -> io::Result<()> {
    let held = Sets::read()?;
    let kept = held.permitted & kept.iter().fold(0, |bits, c| bits | c.bit());
    // The permitted set still allows a return if the maps are found to be closed.
    Sets { effective: kept, permitted: held.permitted, inheritable: 0 }.write()?;
    let for_maps = if has_open_maps() {
        0
    } else if control(libc::PR_CAPBSET_READ, Capability::Bpf as libc::c_ulong).is_ok() {
        Capability::Bpf.bit()
    } else {
        Capability::SysAdmin.bit()
    };
    let kept = kept | for_maps & held.permitted;
    Sets { effective: kept, permitted: kept, inheritable: 0 }.write()
}

/// Whether the kernel leaves the use of a BPF map to all processes that have its descriptor. Before
/// Linux 5.19 it does not if `kernel.unprivileged_bpf_disabled` is set, and checks that first.
fn has_open_maps() -> bool {
    const MAP_LOOKUP_ELEM: libc::c_long = 1;
    /// The start of the kernel's `union bpf_attr` for this command.
    #[repr(C)]
    struct Attributes {
        map: u32,
        reserved: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let none = Attributes { map: u32::MAX, reserved: 0, key: 0, value: 0, flags: 0 };
    // SAFETY: the attributes have the layout that the command has, and their length is given. There
    // is no map with this descriptor, so nothing is written.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, MAP_LOOKUP_ELEM, &none, size_of::<Attributes>()) };
    answer >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
}

/// The capability sets of a thread, as bits.
#[derive(Clone, Copy)]
struct Sets {
    effective: u64,
    permitted: u64,
    inheritable: u64,
}

/// `struct __user_cap_header_struct` (`linux/capability.h`).
#[repr(C)]
struct Header {
    version: u32,
    thread: i32,
}

/// `struct __user_cap_data_struct`: 32 bits of each set.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl Header {
    /// The header of requests about the calling thread, with 64 bits for each set
    /// (`_LINUX_CAPABILITY_VERSION_3`).
    const OWN: Self = Self { version: 0x2008_0522, thread: 0 };
}

impl Sets {
    fn read() -> io::Result<Self> {
        let mut header = Header::OWN;
        let mut data = [Data::default(); 2];
        // SAFETY: the header and both parts of the data are valid for writing.
        let answer = unsafe {
            libc::syscall(libc::SYS_capget, &raw mut header, (&raw mut data).cast::<Data>())
        };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        let bits = |of: fn(&Data) -> u32| u64::from(of(&data[1])) << 32 | u64::from(of(&data[0]));
        Ok(Self {
            effective: bits(|d| d.effective),
            permitted: bits(|d| d.permitted),
            inheritable: bits(|d| d.inheritable),
        })
    }

    fn write(self) -> io::Result<()> {
        let mut header = Header::OWN;
        let part = |shift: u32| Data {
            effective: (self.effective >> shift) as u32,
            permitted: (self.permitted >> shift) as u32,
            inheritable: (self.inheritable >> shift) as u32,
        };
        let data = [part(0), part(32)];
        // SAFETY: the header and both parts of the data are valid for reading.
        let answer = unsafe {
            libc::syscall(libc::SYS_capset, &raw mut header, (&raw const data).cast::<Data>())
        };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_keeps_what_it_names_and_not_more() {
        let (before, after) = thread::spawn(|| {
            let before = Sets::read().unwrap();
            keep_only(&[Capability::NetAdmin]);
            (before, Sets::read().unwrap())
        })
        .join()
        .unwrap();
        let maps = Capability::Bpf.bit() | Capability::SysAdmin.bit();
        let expected = before.permitted & Capability::NetAdmin.bit();
        assert_eq!(after.permitted & !maps, expected);
        assert_eq!((after.effective, after.inheritable), (after.permitted, 0));
        let here = Sets::read().unwrap();
        assert_eq!(here.permitted, before.permitted, "other threads keep theirs");
    }
}
