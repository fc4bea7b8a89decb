//! Open files that go to another process over a Unix socket (SCM_RIGHTS, unix(7)).

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The most descriptors of one message.
pub const MAX_DESCRIPTORS: usize = 4;

/// A buffer for the control message of [`MAX_DESCRIPTORS`] descriptors, aligned for `cmsghdr`.
#[repr(C, align(8))]
struct Control([u8; 64]);

const SPACE: usize = MAX_DESCRIPTORS * size_of::<RawFd>();

/// Sends the start of `bytes` with `descriptors`, and returns how many bytes were sent.
///
/// # Errors
/// If the socket takes none, or there are more than [`MAX_DESCRIPTORS`] descriptors.
pub fn send(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    if bytes.is_empty() || descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let length = size_of_val(numbers.as_slice());
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !numbers.is_empty() {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: the buffer has room for the header and `MAX_DESCRIPTORS` descriptors, of which
        // these are at most as many; it is aligned and lives through the call.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(length as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(length as u32) as _;
            let data = libc::CMSG_DATA(header);
            std::ptr::copy_nonoverlapping(numbers.as_ptr().cast::<u8>(), data, length);
        }
    }
    // SAFETY: the message points to buffers that live through the call, which only reads them.
    let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives into `buffer`, and adds descriptors that came with it to `into`, [`MAX_DESCRIPTORS`] in
/// all. Others are closed. Returns the number of bytes, zero at the end.
///
/// # Errors
/// If the system call fails.
pub fn receive(
    stream: &UnixStream,
    buffer: &mut [u8],
    into: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: a plain computation. The kernel closes descriptors for which there is no room.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(SPACE as u32) } as _;
    // SAFETY: the message points to buffers that live through the call, of the lengths that it
    // says.
    let got =
        unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel filled the control buffer, and the CMSG macros stay inside it. Each number
    // is a descriptor that the kernel has just opened for this process.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            let is_rights =
                (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS;
            let length = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            for i in 0..length / size_of::<RawFd>() {
                if is_rights {
                    let number = libc::CMSG_DATA(header).cast::<RawFd>().add(i).read_unaligned();
                    let descriptor = OwnedFd::from_raw_fd(number);
                    if into.len() < MAX_DESCRIPTORS {
                        into.push(descriptor);
                    }
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_the_bytes_and_is_the_same_file() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut out, pipe) = io::pipe().unwrap();
        assert_eq!(send(&one, b"state", &[pipe.as_fd()]).unwrap(), 5);
        assert_eq!(send(&one, b"more", &[]).unwrap(), 4);
        drop((one, pipe));
        let (mut got, mut buffer) = (Vec::new(), [0; 3]);
        assert_eq!(receive(&other, &mut buffer, &mut got).unwrap(), 3);
        assert_eq!((&buffer, got.len()), (b"sta", 1));
        while receive(&other, &mut buffer, &mut got).unwrap() > 0 {}
        let mut same = std::fs::File::from(got.pop().unwrap());
        same.write_all(b"x").unwrap();
        drop(same);
        assert_eq!(out.read(&mut buffer).unwrap(), 1);
        assert_eq!(out.read(&mut buffer).unwrap(), 0, "no other copy is open");
    }

    #[test]
    fn more_descriptors_than_there_is_room_for_are_closed() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut out, pipe) = io::pipe().unwrap();
        let five = [pipe.as_fd(); MAX_DESCRIPTORS + 1];
        assert!(send(&one, b"x", &five).is_err());
        let mut got = Vec::new();
        for _ in 0..2 {
            send(&one, b"x", &five[..3]).unwrap();
            receive(&other, &mut [0; 9], &mut got).unwrap();
        }
        assert_eq!(got.len(), MAX_DESCRIPTORS);
        drop((pipe, got));
        assert_eq!(out.read(&mut [0; 1]).unwrap(), 0);
    }
}
