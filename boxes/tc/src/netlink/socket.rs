use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::{Attributes, Batch, HEADER, Message, messages, string, u32_at};
use crate::Error;

/// A request that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The index of the request in the batch.
    pub(crate) index: usize,
    pub(crate) errno: i32,
    /// The kernel's message (extended acknowledgements), or else that of the error number.
    pub(crate) message: String,
}

/// Bytes of requests in one system call. The kernel takes what fits into the socket's send buffer,
/// 208 kB by default.
const MAX_BATCH: usize = 1 << 16;
/// Bytes of answers in one system call. The kernel sends dumps in parts of at most 32 kB.
const ANSWER: usize = 1 << 16;

/// A socket of the kernel's routing netlink.
#[derive(Debug)]
pub(crate) struct Netlink {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket that gets the notifications of `groups`, a set of bits; 0 for requests only.
    pub(crate) fn open(groups: u32) -> Result<Self, Error> {
        // SAFETY: takes integers; the descriptor has no other owner.
        let fd = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE);
            if fd < 0 {
                return Err(Error::last("opening a netlink socket"));
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: all-zero is a valid `sockaddr_nl`.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = groups;
        // SAFETY: the address is valid and of the length that is given.
        let bound = unsafe {
            let length = size_of_val(&address) as u32;
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length)
        };
        if bound != 0 {
            return Err(Error::last("binding a netlink socket"));
        }
        // Kernels before 4.12 know neither option; their errors are shorter.
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let one = 1i32;
            // SAFETY: the option's value is an integer, whose length is given.
            unsafe {
                let value = (&raw const one).cast();
                libc::setsockopt(fd.as_raw_fd(), libc::SOL_NETLINK, option, value, 4);
            }
        }
        Ok(Self { fd, sequence: 1, buffer: vec![0; ANSWER] })
    }

    /// Returns the number by which the kernel's notifications identify this socket.
    pub(crate) fn port(&self) -> Result<u32, Error> {
        // SAFETY: all-zero is a valid `sockaddr_nl`, which the call fills up to its length.
        unsafe {
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            let mut length = size_of_val(&address) as u32;
            let to = (&raw mut address).cast();
            match libc::getsockname(self.fd.as_raw_fd(), to, &raw mut length) {
                0 => Ok(address.nl_pid),
                _ => Err(Error::last("asking for a netlink socket's number")),
            }
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sends all of `batch`, and returns the requests that the kernel refused. It continues after a
    /// failure.
    pub(crate) fn transact(&mut self, batch: &mut Batch) -> Result<Vec<Failure>, Error> {
        let base = self.sequence;
        self.sequence = base.wrapping_add(batch.len() as u32);
        let mut failures = Vec::new();
        for (_, last, bytes) in batch.parts(base, MAX_BATCH) {
            self.send(bytes)?;
            self.receive(last, |message| {
                let errno = -(u32_at(message.body, 0).unwrap_or_default() as i32);
                if errno != 0 {
                    let index = message.sequence.wrapping_sub(base) as usize;
                    failures.push(Failure { index, errno, message: words(message, errno) });
                }
            })?;
        }
        Ok(failures)
    }

    /// Sends requests, a single one if it has NLM_F_DUMP, and passes the answers to `answer`.
    pub(crate) fn ask(
        &mut self,
        batch: &mut Batch,
        mut answer: impl FnMut(&Message<'_>),
    ) -> Result<Option<Failure>, Error> {
        let base = self.sequence;
        self.sequence = base.wrapping_add(batch.len() as u32);
        let mut failure = None;
        for (_, last, bytes) in batch.parts(base, MAX_BATCH) {
            self.send(bytes)?;
            self.receive(last, |message| {
                if i32::from(message.kind) != libc::NLMSG_ERROR {
                    return answer(message);
                }
                let errno = -(u32_at(message.body, 0).unwrap_or_default() as i32);
                if errno != 0 {
                    let index = message.sequence.wrapping_sub(base) as usize;
                    failure = Some(Failure { index, errno, message: words(message, errno) });
                }
            })?;
        }
        Ok(failure)
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        // SAFETY: the bytes are valid for reading; without an address they go to the kernel.
        let sent = unsafe { libc::send(self.descriptor(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 { Err(Error::last("sending to netlink")) } else { Ok(()) }
    }

    /// Reads answers until the answer to request number `last` is complete.
    fn receive(&mut self, last: u32, mut f: impl FnMut(&Message<'_>)) -> Result<(), Error> {
        loop {
            let Some(bytes) = self.read(0)? else { continue };
            for message in messages(bytes) {
                match i32::from(message.kind) {
                    libc::NLMSG_DONE if message.sequence == last => return Ok(()),
                    libc::NLMSG_DONE | libc::NLMSG_NOOP => {}
                    kind => {
                        f(&message);
                        if kind == libc::NLMSG_ERROR && message.sequence == last {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// Reads a datagram; `None` if there is none now (with MSG_DONTWAIT), or a signal arrived.
    ///
    /// # Errors
    /// ENOBUFS if notifications were lost because they were not read in time.
    pub(crate) fn read(&mut self, flags: i32) -> Result<Option<&[u8]>, Error> {
        // SAFETY: the buffer is valid for writing, and its length is given.
        let got = unsafe {
            let to = self.buffer.as_mut_ptr().cast();
            libc::recv(self.fd.as_raw_fd(), to, self.buffer.len(), flags)
        };
        if got >= 0 {
            return Ok(Some(&self.buffer[..got as usize]));
        }
        let source = io::Error::last_os_error();
        match source.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(None),
            _ => Err(Error::system("reading from netlink")(source)),
        }
    }
}

/// Returns the text of an error message.
fn words(message: &Message<'_>, errno: i32) -> String {
    const TEXT: u16 = 1;
    const CAPPED: u16 = 0x100;
    const HAS_ATTRIBUTES: u16 = 0x200;
    // The error number, the header of the request, the rest of it unless capped, attributes.
    let request = match message.flags & CAPPED {
        0 => u32_at(message.body, 4).map_or(HEADER, |length| super::align(length as usize)),
        _ => HEADER,
    };
    let attributes =
        message.body.get(4 + request..).filter(|_| message.flags & HAS_ATTRIBUTES != 0);
    let text = attributes.and_then(|a| Attributes(a).get(TEXT)).map(string);
    text.unwrap_or_else(|| io::Error::from_raw_os_error(errno).to_string())
}
