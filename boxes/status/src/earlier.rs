//! Boxes of the release before this one, whose sockets have abstract names.
//!
//! Any user can take such a name. A name counts if root, or this user, listens at its name for
//! readers of the state, in the process that the name says. A release after this one need not find
//! them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use forebay_records::STATUS_SOCKET;
use forebay_system::{local, private};

use crate::socket::BoxSocket;

/// The part of the kernel's list of sockets that is read, in bytes. Other users can make it long.
const MAX_LIST: u64 = 4 << 20;

/// Finds the sockets of a kind.
pub(super) fn find(kind: &str) -> Vec<BoxSocket> {
    let mut list = Vec::new();
    // Without the list there are no such boxes.
    let _ =
        File::open("/proc/net/unix").and_then(|file| file.take(MAX_LIST).read_to_end(&mut list));
    let mut processes = processes(&String::from_utf8_lossy(&list), kind);
    processes.retain(|process| is_box(*process));
    processes.into_iter().map(|process| BoxSocket::new(process, path(kind, process))).collect()
}

/// Returns the numbers of processes in the names of a kind. A connection has a line of its own.
fn processes(list: &str, kind: &str) -> Vec<u32> {
    let prefix = format!("@forebay-{kind}-");
    let name = |line: &str| line.split(' ').next_back()?.strip_prefix(&prefix)?.parse().ok();
    let mut all: Vec<u32> = list.lines().filter_map(name).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether this process is a box that a command may trust.
fn is_box(process: u32) -> bool {
    let of = fs::metadata(format!("/proc/{process}"));
    of.is_ok_and(|of| [0, private::user()].contains(&of.uid()))
        && local::connect(&path(STATUS_SOCKET, process))
            .is_ok_and(|(_, peer)| peer.process == process)
}

/// Returns the abstract name as the path that the kernel takes it for.
fn path(kind: &str, process: u32) -> PathBuf {
    PathBuf::from(OsString::from_vec(format!("\0forebay-{kind}-{process}").into_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::os::unix::process::parent_id;

    use super::*;

    #[test]
    fn names_are_found_once_in_the_kernels_list() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0: 00000002 00000000 00010000 0001 01 77 @forebay-status-17\n\
                    0: 00000003 00000000 00000000 0001 03 78 @forebay-status-17\n\
                    0: 00000002 00000000 00010000 0001 01 79 @forebay-status-x\n\
                    0: 00000002 00000000 00010000 0001 01 80 @forebay-reload-18\n\
                    0: 00000002 00000000 00010000 0001 01 81\n\
                    0: 00000002 00000000 00010000 0001 01 82 /tmp/@forebay-status-19\n";
        assert_eq!(processes(list, STATUS_SOCKET), [17]);
    }

    #[test]
    fn a_name_counts_if_its_process_has_it() {
        let listen = |process: u32| {
            let name = format!("forebay-{STATUS_SOCKET}-{process}");
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
        };
        // One name is this process's own, and the other is another one's.
        let (own, other) = (std::process::id(), parent_id());
        let _listeners = [listen(own), listen(other)];
        let found: Vec<_> = find(STATUS_SOCKET).iter().map(BoxSocket::process).collect();
        assert!(found.contains(&own) && !found.contains(&other), "{found:?}");
    }
}
