//! A TAP device, which carries frames with their virtio headers.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use super::{Egress, Sent};
use crate::Error;
use crate::offload::{HEADER, MAX_FRAME, Offload};

/// Offloads that the kernel may leave to this process: checksums, and TCP segmentation of both IP
/// versions with ECN (linux/if_tun.h).
const OFFLOADS: libc::c_ulong = 0x01 | 0x02 | 0x04 | 0x08;

/// An open TAP device.
pub(crate) struct Tap {
    file: File,
    name: String,
    super_packets: bool,
    buffer: Box<[u8]>,
    lost: (u64, u64),
}

impl Tap {
    /// Opens the TAP device `name`, which ends with this process unless it is persistent.
    pub(crate) fn open(name: &str, super_packets: bool) -> Result<Self, Error> {
        let failed = |source| Error::Tap { name: name.to_owned(), source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")
            .map_err(failed)?;
        let c_name = CString::new(name).map_err(|e| failed(io::Error::other(e)))?;
        // SAFETY: all-zero is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = libc::IFNAMSIZ - 1;
        for (to, from) in request.ifr_name.iter_mut().zip(c_name.as_bytes().iter().take(room)) {
            *to = *from as libc::c_char;
        }
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        let (header, little_endian) = (HEADER as libc::c_int, 1 as libc::c_int);
        let fd = file.as_raw_fd();
        // SAFETY: each request gets the argument that linux/if_tun.h documents: an `ifreq`, two
        // integers by address, a set of flags by value. All live through the call.
        let done = unsafe {
            libc::ioctl(fd, libc::TUNSETIFF, &mut request) == 0
                && libc::ioctl(fd, libc::TUNSETVNETHDRSZ, &header) == 0
                && libc::ioctl(fd, libc::TUNSETVNETLE, &little_endian) == 0
                && libc::ioctl(fd, libc::TUNSETOFFLOAD, OFFLOADS) == 0
        };
        if !done {
            return Err(failed(io::Error::last_os_error()));
        }
        let buffer = vec![0; HEADER + MAX_FRAME].into_boxed_slice();
        Ok(Self { file, name: name.to_owned(), super_packets, buffer, lost: (0, 0) })
    }
}

impl Egress for Tap {
    fn carries_offloads(&self) -> bool {
        self.super_packets
    }

    fn send(&mut self, offload: &Offload, frame: &[u8]) -> Sent {
        let header = offload.write(frame, 0);
        loop {
            match self.file.write_vectored(&[IoSlice::new(&header), IoSlice::new(frame)]) {
                Ok(written) => {
                    // A device takes a frame completely or not at all.
                    debug_assert_eq!(written, HEADER + frame.len());
                    return Sent::Done;
                }
                Err(e) => match e.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return Sent::NoRoom,
                    // The device is down or the frame is invalid: a retry would fail too.
                    _ => {
                        self.lost.1 += 1;
                        return Sent::Refused;
                    }
                },
            }
        }
    }

    fn receive(&mut self, limit: usize, each: &mut dyn FnMut(Offload, &[u8])) {
        for _ in 0..limit {
            let Ok(len) = self.file.read(&mut self.buffer) else { return };
            let Some((header, frame)) = self.buffer[..len].split_at_checked(HEADER) else {
                self.lost.0 += 1;
                continue;
            };
            match Offload::read(header, frame) {
                Ok(offload) => each(offload, frame),
                Err(_) => self.lost.0 += 1,
            }
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.file.as_raw_fd()]
    }

    fn lost(&mut self) -> (u64, u64) {
        self.lost
    }

    fn describe(&self) -> String {
        format!("TAP {}", self.name)
    }
}
