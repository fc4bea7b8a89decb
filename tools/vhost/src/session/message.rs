//! Messages of vhost-user, as far as this crate reads them before the library does.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;

use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// Length in bytes of a header: request, flags and size of the body, 32 bits each.
const HEADER: usize = 12;
const SET_MEM_TABLE: u32 = 5;
/// Protocol version in the flags.
const VERSION: u32 = 1;
/// Flag of a reply.
const REPLY: u32 = 1 << 2;
/// Flag of a message that needs a reply.
const NEED_REPLY: u32 = 1 << 3;

/// A message and the files that came with it.
#[derive(Debug)]
pub(super) struct Message {
    flags: u32,
    pub(super) body: Vec<u8>,
    pub(super) files: Vec<File>,
}

/// Waits without a limit until `stream` is readable.
pub(super) fn wait(stream: &UnixStream) -> io::Result<()> {
    let mut fd = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one valid pollfd.
        if unsafe { libc::poll(&mut fd, 1, -1) } > 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// Whether the next message is a memory table; does not consume it.
pub(super) fn is_memory_table(stream: &UnixStream) -> io::Result<bool> {
    let mut request = [0; 4];
    let flags = libc::MSG_PEEK | libc::MSG_WAITALL;
    // SAFETY: `request` is valid for writing its own length.
    let got = unsafe {
        libc::recv(stream.as_raw_fd(), request.as_mut_ptr().cast(), request.len(), flags)
    };
    match got {
        0 => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the front end closed the connection"))
        }
        4 => Ok(u32::from_ne_bytes(request) == SET_MEM_TABLE),
        n if n < 0 => Err(io::Error::last_os_error()),
        _ => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the front end did not complete a message in time",
        )),
    }
}

impl Message {
    /// Reads a message with a body of at most `most` bytes and at most `files` files.
    pub(super) fn read(stream: &UnixStream, most: usize, files: usize) -> io::Result<Self> {
        let mut header = [0; HEADER];
        let files = receive(stream, &mut header, files)?;
        let [_, flags, size] = [0, 4, 8].map(|at| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        });
        if size as usize > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
        }
        let mut body = vec![0; size as usize];
        io::Read::read_exact(&mut &*stream, &mut body)?;
        Ok(Self { flags, body, files })
    }

    /// Whether the front end waits for a reply.
    pub(super) fn needs_reply(&self) -> bool {
        self.flags & NEED_REPLY != 0
    }
}

/// Replies to a memory table; a `status` of 0 is success.
pub(super) fn acknowledge(mut stream: &UnixStream, status: u64) -> io::Result<()> {
    let mut reply = Vec::with_capacity(HEADER + 8);
    for word in [SET_MEM_TABLE, VERSION | REPLY, 8] {
        reply.extend(word.to_ne_bytes());
    }
    reply.extend(status.to_ne_bytes());
    stream.write_all(&reply)
}

/// Fills `buffer` and returns the files that came with its first byte.
fn receive(stream: &UnixStream, buffer: &mut [u8], files: usize) -> io::Result<Vec<File>> {
    let mut fds = vec![-1; files];
    let mut iov = [libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }];
    // SAFETY: the vector is of `buffer`, which is valid for writing and has no invalid values.
    let (bytes, count) = unsafe { stream.recv_with_fds(&mut iov, &mut fds) }
        .map_err(|e| io::Error::from_raw_os_error(e.errno()))?;
    // SAFETY: the kernel made these descriptors for this call, and nothing else owns them.
    let files = fds[..count].iter().map(|fd| unsafe { File::from_raw_fd(*fd) }).collect();
    if bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    io::Read::read_exact(&mut &*stream, &mut buffer[bytes..])?;
    Ok(files)
}
